"""Several runs read as one: in order, each record once, and none that is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.timers.announcements import START, Position
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.row_merging import merged_blocks
from bmq.log.timers.run_file import CorruptRun, RunEncoder, records_in
from bmq.log.timers.run_merging import merged
from bmq.log.timers.run_reader import RunReader
from bmq.log.timers.run_reference import RunReference
from tests.fakes.store import FakeStore

pytestmark = pytest.mark.unit

PLACES = st.builds(Position, st.integers(0, 9), st.integers(0, 30))


def reader_of(store: FakeStore, number: int, records: list[DueRecord], end_offset: int = 100) -> RunReader:
    writer = RunEncoder()
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


def read_blocks(readers: list[RunReader], position: Position = START) -> list[DueRecord]:
    """The same by blocks, as a merge writes them."""

    async def found() -> list[DueRecord]:
        writer = RunEncoder()
        blocks = [writer.add_block(block) async for block in merged_blocks(readers, position)]
        records = [record._replace(body=bytes(record.body)) for block in blocks for record in records_in(block)]
        assert len(records) == writer.count
        return records

    return asyncio.run(found())


BOTH = pytest.mark.parametrize("read_all", [read, read_blocks])


def body_at(place: Position) -> bytes:
    return b"%d,%d " % place * 9


def record_at(place: Position, *, is_cancellation: bool = False) -> DueRecord:
    return DueRecord(place.offset, place.due_ms, 0, b"" if is_cancellation else body_at(place), is_cancellation)


@BOTH
@given(st.sets(PLACES, min_size=1), st.sets(PLACES), PLACES, st.integers(0, 31), st.randoms(use_true_random=False))
def test_any_runs_give_what_is_pending_once_in_order(
    read_all: Callable[[list[RunReader], Position], list[DueRecord]],
    records: set[Position],
    cancels: set[Position],
    position: Position,
    end_offset: int,
    random: Random,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bmq.log.timers.run_file.BLOCK_BYTES", 200)
        patch.setattr("bmq.log.timers.run_merging.BLOCK_BYTES", 200)
        patch.setattr("bmq.log.timers.row_merging.BLOCK_BYTES", random.choice((30, 100, 200)))
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
        found = read_all(readers, position)
        assert all(bytes(one.body) == (b"" if one.is_cancellation else body_at(place_of(one))) for one in found)
        counted = {place for place in records | cancels if place > position and place.offset < end_offset}
        alone = {place for place in cancels - records if place in counted}
        assert [place_of(one) for one in found if not one.is_cancellation] == sorted((records - cancels) & counted)
        assert [place_of(one) for one in found if one.is_cancellation] == sorted(alone)


@BOTH
def test_a_record_that_two_runs_have_is_found(
    read_all: Callable[[list[RunReader]], list[DueRecord]],
) -> None:
    store = FakeStore()
    readers = [reader_of(store, number, [record_at(Position(5, 7))]) for number in range(2)]
    with pytest.raises(CorruptRun, match="two runs have the delayed record 7, due at 5"):
        read_all(readers)


@pytest.mark.parametrize("place", [8, 30, 50, 70, 100, 130])
def test_a_damaged_block_is_not_merged(place: int) -> None:
    store = FakeStore()
    readers = [reader_of(store, number, [record_at(Position(5, number))]) for number in range(3)]
    store.flip_bit("run1", place)
    with pytest.raises(CorruptRun):
        read_blocks(readers)


def test_a_merge_has_some_blocks_of_each_run_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.log.timers.run_file.BLOCK_BYTES", 200)
    monkeypatch.setattr("bmq.log.timers.row_merging.BLOCK_BYTES", 200)

    async def main() -> None:
        store = FakeStore()
        contents = [[record_at(Position(number, run)) for number in range(300)] for run in range(3)]
        readers = [reader_of(store, number, content) for number, content in enumerate(contents)]
        largest = 0
        async for block in merged_blocks(readers, START):
            largest = max(largest, len(block.body))
        assert largest < 400

    asyncio.run(main())


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
