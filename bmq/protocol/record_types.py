"""Common parts of the coordinators' records, mostly those of the newer groups (KIP-848, KIP-1071).

Every key and value begins with an int16: a type or a version. For newer groups a key is its type and the classic form
of its fields, a value version 0 and the flexible form. Consumer and streams groups have different types but mostly
equal keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, Generic, TypeVar

from bmq.dataclass import dataclass
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.formats import Format, FormatField, codec_of
from bmq.protocol.wire import Buffer

VALUE_VERSION: Final = 0
_INT16: Final = Struct(">h")

K = TypeVar("K")
V = TypeVar("V")


def encode_prefixed(record_format: Format, prefix: int, message: Any, version: int | None = None) -> bytes:
    """`version`: of the format, if the prefix is a type. Raises struct.error for a field too long or too large."""
    out = bytearray(_INT16.pack(prefix))
    codec_of(record_format, prefix if version is None else version).write(out, message)
    return bytes(out)


def decode_prefixed(data: Buffer, record_format: Format, version: int) -> Any:
    """The message behind the prefix. Raises MalformedMessage."""
    return codec_of(record_format, version).read(data, _INT16.size)


def prefix_of(data: Buffer) -> int:
    """Raises MalformedMessage for under two bytes."""
    if len(data) < _INT16.size:
        raise MalformedMessage(f"a record key or value of {len(data)} bytes has no version")
    prefix: int = _INT16.unpack_from(data)[0]
    return prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochKey:
    """Key of a group's epoch; the group exists once this record does (…GroupMetadataKey)."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberKey:
    """Key of a member's own description (…GroupMemberMetadataKey)."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpochKey:
    """Key of the target assignment's epoch (…GroupTargetAssignmentMetadataKey)."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpochValue:
    """`timestamp_ms`: when the target was computed; 0: the next one need not wait."""

    epoch: int = 0
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKey:
    """Key of a member's target assignment (…GroupTargetAssignmentMemberKey)."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentKey:
    """Key of a member's current assignment (…GroupCurrentMemberAssignmentKey)."""

    group: str
    member_id: str


def key_format(message_class: type, *names: str) -> Format:
    return Format(message_class, 0, 1, tuple(FormatField(name, "string") for name in names))


def value_format(message_class: type, *fields: FormatField) -> Format:
    return Format(message_class, 0, 0, fields)


TARGET_EPOCH: Final = value_format(
    TargetEpochValue, FormatField("epoch", "int32"), FormatField("timestamp_ms", "int64", tag=0, default=0)
)


class RecordTypes(Generic[K, V]):
    """`owner`: names the records' owner in errors. `formats`: by key type, formats of key and value; None: no value."""

    def __init__(self, owner: str, formats: Mapping[int, tuple[Format, Format | None]]) -> None:
        self._owner = owner
        self.formats = formats
        self._types = {key.message_class: number for number, (key, _) in formats.items()}
        self._values = {value.message_class: value for _, value in formats.values() if value is not None}

    def has(self, key_type: int) -> bool:
        """Whether record keys of this type are read here."""
        return key_type in self.formats

    def encode_key(self, key: K) -> bytes:
        """The record key. Raises struct.error for a name too long for Kafka's format."""
        number = self._types[type(key)]
        return encode_prefixed(self.formats[number][0], number, key, version=0)

    def encode_value(self, value: V) -> bytes:
        """The record value. Raises struct.error for a number too large for Kafka's format."""
        return encode_prefixed(self._values[type(value)], VALUE_VERSION, value)

    def decode_key(self, data: Buffer) -> K:
        """Decode a record key. Raises MalformedMessage, also for a type that is not read here."""
        key_type = prefix_of(data)
        if key_type not in self.formats:
            raise MalformedMessage(f"a record key of type {key_type} is not one of {self._owner}")
        key: K = decode_prefixed(data, self.formats[key_type][0], 0)
        return key

    def decode_value(self, key: K, data: Buffer | None) -> V | None:
        """The value that belongs to a key; None for a tombstone, and for a key without values.

        Raises MalformedMessage, also for an unknown version.
        """
        value_format = self.formats[self._types[type(key)]][1]
        if data is None or value_format is None:
            return None
        if prefix_of(data) != VALUE_VERSION:
            raise MalformedMessage(f"{value_format.message_class.__name__} of unknown version")
        value: V = decode_prefixed(data, value_format, VALUE_VERSION)
        return value
