"""Reads several runs of delayed records as one, in order, with one block of each run in memory."""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Iterable, Sequence

from bmq.log.timers.announcements import Position
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.run_file import BLOCK_BYTES, CorruptRun
from bmq.log.timers.run_reader import RunReader


async def merged(readers: Iterable[RunReader], position: Position) -> AsyncGenerator[DueRecord, None]:
    """The records and cancellations above `position` of these runs, in order.

    A record that meets its cancellation is left out with it. Several cancellations of one record become one. A run is first read
    when its first record is next. Raises as RunReader does, and CorruptRun for a record that two runs have.
    """
    cursors = [_Cursor(reader, position) for reader in readers]
    heads = [(*cursor.reader.run.first, number) for number, cursor in enumerate(cursors)]
    heapq.heapify(heads)
    same: list[DueRecord] = []
    while heads:
        due_ms, offset, number = heads[0]
        if same and (same[0].due_ms, same[0].offset) < (due_ms, offset):
            if (one := _left_of(same)) is not None:
                yield one
            same = []
        cursor = cursors[number]
        if cursor.has_head and cursor.head == (due_ms, offset):
            same.append(cursor.records.pop())
        if await cursor.fill():
            heapq.heapreplace(heads, (*cursor.head, number))
        else:
            heapq.heappop(heads)
    if same and (one := _left_of(same)) is not None:
        yield one


def _left_of(same: Sequence[DueRecord]) -> DueRecord | None:
    """The entry to keep of all that runs have at one place: the record or a cancellation; None if both are there."""
    records = sum(not one.is_cancellation for one in same)
    if records > 1:
        raise CorruptRun(f"two runs have the delayed record {same[0].offset}, due at {same[0].due_ms}")
    return same[0] if records == 0 or len(same) == 1 else None


class _Cursor:
    """One block of a run in memory. `records`: from the last to the first, so that the next is at the end."""

    def __init__(self, reader: RunReader, position: Position) -> None:
        self.reader = reader
        self.records: list[DueRecord] = []
        self._position = position
        self._next_block = -1

    @property
    def has_head(self) -> bool:
        return bool(self.records)

    @property
    def head(self) -> tuple[int, int]:
        return self.records[-1].due_ms, self.records[-1].offset

    async def fill(self) -> bool:
        """Read the next block if no record is left in memory; False at the end of the run."""
        while not self.records:
            index = await self.reader.index()
            if self._next_block < 0:
                above = index.block_above(self._position)
                self._next_block = len(index) if above is None else above
            if self._next_block >= len(index):
                return False
            blocks = await self.reader.read(self._next_block, self._position, until_ms=-1, bytes_max=BLOCK_BYTES)
            self._next_block = blocks.next_block
            self.records = blocks.records[::-1]
        return True
