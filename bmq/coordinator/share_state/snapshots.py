"""A snapshot of a shard of share partitions: a snapshot record of each, one after the other, written and read in small turns."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from struct import Struct
from typing import Final

from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.share_state.partition import SharePartition
from bmq.coordinator.share_state.records import snapshot_key
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, MalformedMessage
from bmq.protocol.share_state_records import encode_key, encode_value

_PART_HEADER: Final = Struct(">ii")  # bytes of the key, bytes of the value
_BYTES_PER_TURN_MAX: Final = 256 * 1024


def add_part(out: bytearray, key: bytes, value: bytes) -> None:
    """Append a record to a snapshot."""
    out += _PART_HEADER.pack(len(key), len(value))
    out += key
    out += value


def parts(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The records of a snapshot: end position, key, value. Raises MalformedMessage."""
    position = 0
    while position < len(data):
        try:
            key_bytes, value_bytes = _PART_HEADER.unpack_from(data, position)
        except struct.error as error:
            raise MalformedMessage("a snapshot of share partitions ends in the middle of a part") from error
        middle = position + _PART_HEADER.size + key_bytes
        end = middle + value_bytes
        if key_bytes < 0 or value_bytes < 0 or end > len(data):
            raise MalformedMessage("a snapshot of share partitions that does not parse")
        yield end, data[position + _PART_HEADER.size : middle], data[middle:end]
        position = end


def copied(partition: SharePartition) -> SharePartition:
    """As it is now, for a snapshot that is encoded later."""
    copied = copy(partition)
    if partition.window is not None:
        copied.window = partition.window.fork()
    return copied


async def encode(partitions: Iterable[SharePartition], now: Moment, leader_epoch: int) -> bytes:
    """`partitions`: as they were at `now` (`copied`)."""
    out = bytearray()
    turn_end = _BYTES_PER_TURN_MAX
    for partition in partitions:
        key = encode_key(snapshot_key(partition.key))
        value = encode_value(partition.snapshot(now, leader_epoch))
        add_part(out, key, value)
        if len(out) >= turn_end:
            turn_end = len(out) + _BYTES_PER_TURN_MAX
            await asyncio.sleep(0)
    return bytes(out)


async def restore(data: bytes, replay: Callable[[bytes, bytes], None]) -> None:
    """Replay the records of a snapshot. Raises KafkaError KAFKA_STORAGE_ERROR, and what `replay` raises."""
    turn_end = _BYTES_PER_TURN_MAX
    try:
        for end, key, value in parts(data):
            replay(key, value)
            if end >= turn_end:
                turn_end = end + _BYTES_PER_TURN_MAX
                await asyncio.sleep(0)
    except MalformedMessage as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
