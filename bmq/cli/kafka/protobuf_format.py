"""Protobuf values by protoc's descriptor set in a file, in Protobuf's own JSON mapping, with the names of the schema.

Source: "ProtoJSON format" of the Protobuf documentation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.json_format import ParseError as NoMapping
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from bmq.cli.bounded_file import read_bounded
from bmq.cli.kafka.model import KafkaFailed
from bmq.cli.kafka.value_format import BadValue, parsed_json
from bmq.descriptor_sets.messages import InvalidDescriptorSet, load_message
from bmq.protocol.error_codes import ErrorCode
from bmq.table_definitions.protobuf_framing import NotFramed, framing, unframed

SCHEMA_BYTES_MAX: Final = 1 << 20
_WELL_KNOWN: Final = "google.protobuf."
"""Some of these messages are other JSON than an object."""


def read_message(path: Path, message: str) -> Descriptor:
    """A message of a file that `protoc --include_imports --descriptor_set_out` wrote. Raises KafkaFailed."""
    data = read_bounded(path, SCHEMA_BYTES_MAX, _bad_schema)
    try:
        return load_message(data, message)
    except InvalidDescriptorSet as error:
        raise _bad_schema(f"{path}: {error}") from None


class ProtobufCodec:
    """Implements Codec. `schema_id`: written before each value with the message's indexes, which are then read as well.

    None: bare messages. Whatever schema's id a value has, it is read as this message.
    """

    def __init__(self, message: Descriptor, schema_id: int | None = None) -> None:
        self._class = GetMessageClass(message)
        self._name = message.full_name
        self._head = None if schema_id is None else framing(schema_id, _indexes(message))

    def decode(self, data: bytes) -> Any:
        try:
            message = self._class.FromString(data if self._head is None else unframed(data)[2])
            return MessageToDict(message, preserving_proto_field_name=True)
        except NotFramed as error:
            raise BadValue(str(error)) from None
        except (DecodeError, TypeError, ValueError, RecursionError) as error:
            raise BadValue(f"it is no message {self._name}: {_reason(error)}") from None

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, dict) and not self._name.startswith(_WELL_KNOWN):
            raise BadValue(f"it does not fit the message {self._name}: a JSON object is wanted")
        try:
            message = ParseDict(value, self._class())
            return (self._head or b"") + message.SerializeToString(deterministic=True)
        except (NoMapping, EncodeError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise BadValue(f"it does not fit the message {self._name}: {_reason(error)}") from None

    def parse(self, text: str) -> bytes:
        return self.encode(parsed_json(text))


def _indexes(message: Descriptor) -> tuple[int, ...]:
    """Where the message is in its file."""
    place: list[int] = []
    while message.containing_type is not None:
        place.insert(0, [each.full_name for each in message.containing_type.nested_types].index(message.full_name))
        message = message.containing_type
    place.insert(0, list(message.file.message_types_by_name).index(message.name))
    return tuple(place)


def _bad_schema(message: str) -> KafkaFailed:
    return KafkaFailed(message, ErrorCode.INVALID_CONFIG)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}" if str(error) else type(error).__name__
