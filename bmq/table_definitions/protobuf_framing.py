"""What registries' serializers write before a Protobuf value: a zero byte, the id of a schema, the message's indexes. Pure.

The indexes lead to the message within its schema's file: its place among the file's messages, then its place within that one,
and so on. They are zigzag varints behind their count; a single zero byte stands for the first message. Source: "Wire format" of
Confluent's Schema Registry.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from bmq.protocol.errors import BmqError

INDEXES_MAX: Final = 32
"""A message nested deeper is not read."""
INDEX_MAX: Final = 2**31 - 1
FIRST: Final = (0,)
_HEAD: Final = struct.Struct(">BI")
_VARINT_BYTES_MAX: Final = 5


class NotFramed(BmqError):
    """The bytes before the message are not those of a serializer, or lead to another message; one sentence."""


def unframed(value: bytes) -> tuple[int, tuple[int, ...], bytes]:
    """The schema's id, the message's indexes in it, and the message. Raises NotFramed."""
    if len(value) <= _HEAD.size or value[0] != 0:
        raise NotFramed("the value has no schema id before its Protobuf message")
    _, schema_id = _HEAD.unpack_from(value)
    count, at = _number(value, _HEAD.size)
    if count == 0:
        return schema_id, FIRST, value[at:]
    if not 0 < count <= INDEXES_MAX:
        raise NotFramed("the value has no indexes of a message behind its schema id")
    indexes = []
    for _ in range(count):
        index, at = _number(value, at)
        if index < 0:
            raise NotFramed("the value has no indexes of a message behind its schema id")
        indexes.append(index)
    return schema_id, tuple(indexes), value[at:]


def message_bytes(value: bytes, indexes_by_id: Mapping[int, tuple[int, ...]]) -> bytes:
    """The message of a value, which is one of these schemas. Raises NotFramed."""
    schema_id, indexes, message = unframed(value)
    wanted = indexes_by_id.get(schema_id)
    if wanted is None:
        raise NotFramed(f"the table has no schema with id {schema_id}")
    if indexes != wanted:
        raise NotFramed(f"the value is another message of the schema with id {schema_id}")
    return message


def framing(schema_id: int, indexes: Sequence[int]) -> bytes:
    """What stands before a message: the inverse of `unframed`."""
    if tuple(indexes) == FIRST:
        return _HEAD.pack(0, schema_id) + b"\x00"
    return _HEAD.pack(0, schema_id) + b"".join(map(_zigzag, (len(indexes), *indexes)))


def _number(value: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint and the offset behind it. Raises NotFramed."""
    found = 0
    for place in range(_VARINT_BYTES_MAX):
        if at + place >= len(value):
            break
        byte = value[at + place]
        found |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at + place + 1
    raise NotFramed("the value has no indexes of a message behind its schema id")


def _zigzag(number: int) -> bytes:
    number <<= 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
