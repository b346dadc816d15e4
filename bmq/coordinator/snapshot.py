"""A shard's state as bytes: its records, one after another, each as it would stand in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final

from bmq.protocol.errors import MalformedMessage
from bmq.protocol.group_records import GroupKey, GroupValue, encode_key, encode_value

_LENGTHS: Final = Struct(">iii")  # version of this format, key bytes, value bytes
_VERSION: Final = 0
_PAIRS_PER_TURN_MAX: Final = 2_000


async def encode_snapshot(state: Sequence[tuple[GroupKey, GroupValue]]) -> bytes:
    """Keys and values, each pair behind its lengths; the loop runs in between, so that nobody waits for a big one."""
    out = bytearray()
    for start in range(0, len(state), _PAIRS_PER_TURN_MAX):
        for key, value in state[start : start + _PAIRS_PER_TURN_MAX]:
            key_data, value_data = encode_key(key), encode_value(value)
            out += _LENGTHS.pack(_VERSION, len(key_data), len(value_data))
            out += key_data
            out += value_data
        await asyncio.sleep(0)
    return bytes(out)


def decode_snapshot(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The encoded pairs again. Raises MalformedMessage for bytes that are no snapshot."""
    position = 0
    while position < len(data):
        try:
            version, key_bytes, value_bytes = _LENGTHS.unpack_from(data, position)
        except struct_error as error:
            raise MalformedMessage("a group snapshot ends in the middle of a record") from error
        start = position + _LENGTHS.size
        middle = start + key_bytes
        position = middle + value_bytes
        if version != _VERSION or key_bytes < 0 or value_bytes < 0 or position > len(data):
            raise MalformedMessage("a group snapshot that does not parse")
        yield data[start:middle], data[middle:position]
