"""Reads a run of delayed records from the store, a few blocks at a time."""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import NamedTuple

from bmq.log.store import SegmentStore
from bmq.log.timers.announcements import Position
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.run_file import TAIL_BYTES, CorruptRun, RunIndex, block_body, decode_tail, records_in
from bmq.log.timers.run_reference import RunReference
from bmq.records.held_row_layout import BODY, ROW_FIELDS
from bmq.records.held_rows import block_rows


class Blocks(NamedTuple):
    """Blocks that were read.

    `records`: those above the wanted position that the log has not lost. `next_block`: number of the block behind, perhaps past
    the end. `size_bytes`: bytes that were read.
    """

    records: list[DueRecord]
    next_block: int
    size_bytes: int


class RowBlocks(NamedTuple):
    """Blocks that were read, as rows (records/held_row_layout) whose bodies lie in `data`. `next_block`: as in Blocks."""

    rows: array[int]
    data: memoryview
    next_block: int


class RunReader:
    """Reads the run at `path`. All methods raise CorruptRun, FileMissing, CorruptFile, StorageUnavailable."""

    def __init__(self, store: SegmentStore, path: str, run: RunReference) -> None:
        self.path = path
        self.run = run
        self._store = store
        self._index: RunIndex | None = None

    async def index(self) -> RunIndex:
        """The run's index, read at the first call."""
        if self._index is None:
            run = self.run
            tail_start = run.length - TAIL_BYTES
            if tail_start < 0:
                raise CorruptRun(f"{self.path} has {run.length} bytes")
            position, length = decode_tail(await self._read(tail_start, TAIL_BYTES))
            if position + length != tail_start:
                raise CorruptRun(f"the index of {self.path} does not end where its tail begins")
            index = RunIndex.decode(await self._read(position, length), position)
            if (index.count, index.first_of(0), index.last) != (run.count, run.first, run.last):
                raise CorruptRun(f"{self.path} is not the run that the manifest names")
            self._index = index
        return self._index

    async def read(self, block: int, position: Position, *, until_ms: int, bytes_max: int) -> Blocks:
        """The records above `position` of this block, and of following blocks whose first record is due by `until_ms`.

        All blocks together have at most `bytes_max`, except if `block` alone is longer.
        """
        index = await self.index()
        count = _blocks_count(index, block, until_ms, bytes_max)
        start, length = index.span(block, count)
        data = memoryview(await self._read(start, length))
        records: list[DueRecord] = []
        for number in range(block, block + count):
            at, size = index.span(number)
            records += self._checked(index, number, data[at - start : at - start + size], position)
        return Blocks(records, block + count, length)

    async def read_rows(self, block: int, above: Position, bytes_max: int, *, until_ms: int | None = None) -> RowBlocks:
        """Read as `read` does, into rows. `until_ms` None: no bound by due time."""
        index = await self.index()
        count = _blocks_count(index, block, until_ms, bytes_max)
        start, length = index.span(block, count)
        data = memoryview(await self._read(start, length))
        rows = array("q")
        for number in range(block, block + count):
            at, size = index.span(number)
            rows += self._rows(index, number, data[at - start : at - start + size], at - start)
        return RowBlocks(self._that_count(rows, above), data, block + count)

    def _rows(self, index: RunIndex, number: int, block: memoryview, start: int) -> array[int]:
        """The rows of block `number`, which begins at `start` in the buffer that the rows' places refer to."""
        body, said = block_body(block)
        behind = index.counts[number + 1] if number + 1 < len(index) else index.count
        try:
            rows = block_rows(body, said)
        except ValueError as error:
            raise CorruptRun(f"block {number} of {self.path}: {error}") from error
        if said != behind - index.counts[number]:
            raise CorruptRun(f"block {number} of {self.path} has {said} records")
        first, last = Position(rows[0], rows[1]), Position(rows[-ROW_FIELDS], rows[1 - ROW_FIELDS])
        is_last = number + 1 == len(index)
        if first != index.first_of(number) or (last != index.last if is_last else last >= index.first_of(number + 1)):
            raise CorruptRun(f"block {number} of {self.path} begins or ends elsewhere than its index says")
        shift = start + len(block) - len(body)
        rows[BODY::ROW_FIELDS] = array("q", [place + shift for place in rows[BODY::ROW_FIELDS]])
        return rows

    def _that_count(self, rows: array[int], above: Position) -> array[int]:
        end_offset = self.run.end_offset
        if Position(rows[0], rows[1]) > above and max(rows[1::ROW_FIELDS]) < end_offset:
            return rows
        kept = array("q")
        for at in range(0, len(rows), ROW_FIELDS):
            if (rows[at], rows[at + 1]) > above and rows[at + 1] < end_offset:
                kept += rows[at : at + ROW_FIELDS]
        return kept

    def _checked(self, index: RunIndex, number: int, block: memoryview, above: Position) -> list[DueRecord]:
        records = list(records_in(block))
        behind = index.counts[number + 1] if number + 1 < len(index) else index.count
        if len(records) != behind - index.counts[number]:
            raise CorruptRun(f"block {number} of {self.path} has {len(records)} records")
        places = [Position(record.due_ms, record.offset) for record in records]
        is_last = number + 1 == len(index)
        places.append(index.last if is_last else index.first_of(number + 1))
        if is_last and places.pop(-2) != index.last:
            raise CorruptRun(f"{self.path} ends elsewhere than its index says")
        if places[0] != index.first_of(number) or any(one >= other for one, other in pairwise(places)):
            raise CorruptRun(f"block {number} of {self.path} is out of order")
        end_offset = self.run.end_offset
        return [one for one in records if (one.due_ms, one.offset) > above and one.offset < end_offset]

    async def _read(self, position: int, length_bytes: int) -> bytes | bytearray | memoryview:
        return await self._store.read(self.path, file_id=self.run.file_id, position=position, length_bytes=length_bytes)


def _blocks_count(index: RunIndex, block: int, until_ms: int | None, bytes_max: int) -> int:
    """How many blocks to read from `block` on: it, and those due by `until_ms`, while they have at most `bytes_max` together."""
    count = 1
    while (
        block + count < len(index)
        and (until_ms is None or index.dues_ms[block + count] <= until_ms)
        and index.span(block, count + 1)[1] <= bytes_max
    ):
        count += 1
    return count
