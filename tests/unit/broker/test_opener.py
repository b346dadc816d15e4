"""A turn of the event loop opens a bounded number of batches, whatever a request holds."""

from __future__ import annotations

import asyncio

import pytest

from bmq.broker.admission import DECOMPRESSION_NS_PER_BYTE, Admission
from bmq.broker.opener import TurnRoom
from bmq.broker.opening_room import TURN_NS, TURN_SCRATCH_BYTES, TooMuchWork
from bmq.log.config import LogConfig
from bmq.protocol.compression import Compression
from bmq.protocol.record_batch import Record, encode_batch

pytestmark = pytest.mark.unit

NOW_MS = 1_700_000_000_000


def opened_in_a_turn(room: TurnRoom, data: bytearray, count: int) -> int:
    """How many of so many batches, each of another partition, are opened here."""
    opened = 0
    for _ in range(count):
        try:
            Admission(LogConfig()).admit(memoryview(data), NOW_MS, room)
        except TooMuchWork:
            continue
        opened += 1
    return opened


async def test_a_turn_opens_bombs_only_as_far_as_its_time_goes() -> None:
    room = TurnRoom(asyncio.get_running_loop())
    bomb = encode_batch([Record(b"k", bytes(8 << 20), timestamp_ms=NOW_MS)], compression=Compression.ZSTD)
    assert opened_in_a_turn(room, bomb, 400) == 0
    assert room.left_ns is not None and 0 <= room.left_ns < TURN_SCRATCH_BYTES * DECOMPRESSION_NS_PER_BYTE
    await asyncio.sleep(0)
    assert room.left_ns == TURN_NS


async def test_a_turn_opens_batches_of_usual_size_and_the_next_turn_as_many() -> None:
    room = TurnRoom(asyncio.get_running_loop())
    usual = encode_batch([Record(b"k", bytes(100_000), timestamp_ms=NOW_MS)], compression=Compression.LZ4)
    for _ in range(2):
        opened = opened_in_a_turn(room, usual, 400)
        assert 20 <= opened <= TURN_NS // (100_000 * DECOMPRESSION_NS_PER_BYTE)
        await asyncio.sleep(0)


async def test_reading_many_small_records_counts_too() -> None:
    room = TurnRoom(asyncio.get_running_loop())
    many = encode_batch([Record(None, None, timestamp_ms=NOW_MS)] * 100_000)
    assert opened_in_a_turn(room, many, 400) <= TURN_NS // (100_000 * 20)
