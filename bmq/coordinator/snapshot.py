"""A shard's state as bytes: its records, one after another, each as it would stand in the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as struct_error
from typing import Final

from bmq.protocol.errors import MalformedMessage

_LENGTHS: Final = Struct(">iii")  # version of this format (0), key bytes, value bytes (-1: no value)


def encode_snapshot(records: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    """Keys and values, each pair behind its lengths."""
    out = bytearray()
    for key, value in records:
        out += _LENGTHS.pack(0, len(key), -1 if value is None else len(value))
        out += key
        if value is not None:
            out += value
    return bytes(out)


def decode_snapshot(data: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """The pairs again. Raises MalformedMessage for bytes that are no snapshot."""
    position = 0
    while position < len(data):
        try:
            version, key_bytes, value_bytes = _LENGTHS.unpack_from(data, position)
        except struct_error as error:
            raise MalformedMessage("a group snapshot ends in the middle of a record") from error
        start = position + _LENGTHS.size
        middle = start + key_bytes
        position = middle + max(value_bytes, 0)
        if version != 0 or key_bytes < 0 or value_bytes < -1 or position > len(data):
            raise MalformedMessage("a group snapshot that does not parse")
        yield data[start:middle], None if value_bytes < 0 else data[middle:position]
