"""Look-ups by time find what a plain search through all records finds."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.log.timers.announcements import HeldRecord, NamedBatch, encode_held
from bmq.log.timestamp_lookup import find_max_timestamp, find_offset
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from tests.fakes.store import FakeStore
from tests.unit.log.owned_log import Owner

pytestmark = pytest.mark.unit

TIMES = st.lists(st.integers(0, 30), min_size=1, max_size=4)


@settings(max_examples=50)
@given(
    batches=st.lists(st.tuples(TIMES, st.booleans()), max_size=12),
    wanted=st.integers(0, 32),
    log_start=st.integers(0, 20),
    bound=st.integers(0, 50),
)
async def test_the_first_record_late_enough(
    batches: list[tuple[list[int], bool]], wanted: int, log_start: int, bound: int
) -> None:
    owner = await Owner(FakeStore().client("a"), 1).start()
    records: list[tuple[int, int]] = []
    for number, (times, is_rolled) in enumerate(batches):
        codec = Compression.GZIP if number % 2 else Compression.NONE
        batch = encode_batch([Record(None, b"x", timestamp_ms=time) for time in times], compression=codec)
        base = await owner.produce(batch)
        records += [(base + place, time) for place, time in enumerate(times)]
        if is_rolled:
            await owner.roll_segment()
    log_start = min(log_start, owner.files.end_offset)
    await owner.files.advance_log_start(log_start)
    expected = next((r for r in records if r[1] >= wanted and log_start <= r[0] < bound), None)
    assert await find_offset(owner.files, wanted, bound) == expected
    if log_start == 0:
        newest = max((time for _, time in records), default=-1)
        first = next((record for record in records if record[1] == newest), None)
        assert await find_max_timestamp(owner.files) == first


async def test_a_batch_of_many_records_leaves_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.log.timestamp_lookup.RECORDS_PER_TURN_MAX", 10)
    owner = await Owner(FakeStore().client("a"), 1).start()
    records = [Record(None, b"x", timestamp_ms=1)] * 500 + [Record(None, b"x", timestamp_ms=2)]
    await owner.produce(encode_batch(records, compression=Compression.GZIP))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    assert await find_offset(owner.files, 2, 501) == (500, 2)
    counting.cancel()
    assert turns >= 50


def _marker(timestamp_ms: int) -> bytearray:
    marker = EndTransactionMarker(ControlType.COMMIT, 0)
    return encode_end_transaction_marker(marker, producer_id=1, producer_epoch=0, timestamp_ms=timestamp_ms)


async def test_a_marker_is_found_as_in_kafka() -> None:
    owner = await Owner(FakeStore().client("a"), 1).start()
    await owner.produce(_marker(50))
    await owner.produce(encode_batch([Record(None, b"x", timestamp_ms=60)]))
    assert await find_offset(owner.files, 40, 10) == (0, 50)
    assert await find_offset(owner.files, 51, 10) == (1, 60)


@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_marker_may_be_the_newest(is_closed: bool) -> None:
    owner = await Owner(FakeStore().client("a"), 1).start()
    await owner.produce(encode_batch([Record(None, b"older", timestamp_ms=20)]))
    await owner.roll_segment()
    await owner.produce(encode_batch([Record(None, b"x", timestamp_ms=30), Record(None, b"y", timestamp_ms=40)]))
    await owner.produce(_marker(50))
    if is_closed:
        await owner.roll_segment()
    assert await find_max_timestamp(owner.files) == (3, 50)
    assert await find_offset(owner.files, 41, 10) == (3, 50)


async def test_a_batch_of_delayed_records_is_never_found() -> None:
    """Its own time is not set, so that a look-up by time finds delivered records alone."""
    owner = await Owner(FakeStore().client("a"), 1).start()
    await owner.produce(encode_batch([Record(None, b"x", timestamp_ms=30)]))
    await owner.produce(encode_held([HeldRecord(9_000, 8_000, 0, b"later")], NamedBatch(0, 0)))
    assert await find_max_timestamp(owner.files) == (0, 30)
    assert await find_offset(owner.files, 0, 10) == (0, 30)
    assert await find_offset(owner.files, 31, 10) is None
