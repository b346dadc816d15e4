"""Several runs read as one: in order, each record once, and none that is cancelled."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.timers.announcements import START, Position
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.run_file import CorruptRun, RunWriter
from bmq.log.timers.run_merging import merged
from bmq.log.timers.run_reader import RunReader
from bmq.log.timers.run_reference import RunReference
from tests.fakes.store import FakeStore

pytestmark = pytest.mark.unit

PLACES = st.builds(Position, st.integers(0, 9), st.integers(0, 30))


def reader_of(store: FakeStore, number: int, records: list[DueRecord], end_offset: int = 100) -> RunReader:
    writer = RunWriter()
    data = b"".join((*(writer.add(record) for record in sorted(records, key=place_of)), writer.finish()))
    path = f"run{number}"
    file_id = store.put_file(path, data)
    run = RunReference(1, number, file_id, len(data), 0, writer.count, *writer.first, *writer.last, end_offset)
    return RunReader(store.client("c"), path, run)


def place_of(record: DueRecord) -> Position:
    return Position(record.due_ms, record.offset)


def read(readers: list[RunReader], position: Position = START) -> list[DueRecord]:
    async def found() -> list[DueRecord]:
        return [record async for record in merged(readers, position)]

    return asyncio.run(found())


def record_at(place: Position, *, is_cancellation: bool = False) -> DueRecord:
    return DueRecord(place.offset, place.due_ms, 0, b"" if is_cancellation else b"x" * 50, is_cancellation)


@given(st.sets(PLACES, min_size=1), st.sets(PLACES), PLACES, st.integers(0, 31), st.randoms(use_true_random=False))
def test_any_runs_give_what_is_pending_once_in_order(
    records: set[Position], cancels: set[Position], position: Position, end_offset: int, random: Random
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bmq.log.timers.run_file.BLOCK_BYTES", 200)
        patch.setattr("bmq.log.timers.run_merging.BLOCK_BYTES", 200)
        contents: list[dict[Position, DueRecord]] = [{} for _ in range(4)]
        for place in sorted(records):
            contents[random.randrange(3)][place] = record_at(place)
        for place in sorted(cancels):
            for content in random.sample(contents, 2):
                content.setdefault(place, record_at(place, is_cancellation=True))
        store = FakeStore()
        readers = [
            reader_of(store, number, list(content.values()), end_offset)
            for number, content in enumerate(contents)
            if content
        ]
        found = read(readers, position)
        counted = {place for place in records | cancels if place > position and place.offset < end_offset}
        alone = {place for place in cancels - records if place in counted}
        assert [place_of(one) for one in found if not one.is_cancellation] == sorted((records - cancels) & counted)
        assert [place_of(one) for one in found if one.is_cancellation] == sorted(alone)


def test_a_record_that_two_runs_have_is_found() -> None:
    store = FakeStore()
    readers = [reader_of(store, number, [record_at(Position(5, 7))]) for number in range(2)]
    with pytest.raises(CorruptRun, match="two runs have the delayed record 7, due at 5"):
        read(readers)


def test_a_run_is_not_opened_before_its_first_record_comes() -> None:
    async def main() -> None:
        store = FakeStore()
        near, far = reader_of(store, 0, [record_at(Position(5, 7))]), reader_of(store, 1, [record_at(Position(9, 8))])
        store.flip_bit("run1", 30)
        records = merged([near, far], START)
        assert place_of(await anext(records)) == Position(5, 7)
        with pytest.raises(CorruptRun):
            await anext(records)

    asyncio.run(main())
