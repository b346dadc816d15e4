"""Merges runs of delayed records as rows of numbers, block by block, without an object for each record."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterable, Iterator
from itertools import groupby
from typing import Final

from bmq.log.timers.announcements import Position
from bmq.log.timers.run_file import BLOCK_BYTES, CorruptRun, RunBlock
from bmq.log.timers.run_reader import RunReader
from bmq.records.held_row_layout import BODY, CANCELS, ROW_FIELDS
from bmq.records.held_rows import sort_rows, write_rows

READ_BLOCKS: Final = 4
"""Blocks of each run in memory at a time."""


class Rows:
    """Rows and their bodies, gathered in any order and written out sorted."""

    def __init__(self) -> None:
        self.rows = array("q")
        self.bodies = bytearray()

    @property
    def size_bytes(self) -> int:
        return len(self.bodies) + self.rows.itemsize * len(self.rows)

    def add(self, rows: array[int], data: memoryview) -> None:
        """Add rows whose bodies lie in `data`, one behind the other."""
        start, end = rows[BODY], rows[-ROW_FIELDS + BODY] + max(rows[-1], 0)
        shift = len(self.bodies) - start
        rows[BODY::ROW_FIELDS] = array("q", [place + shift for place in rows[BODY::ROW_FIELDS]])
        self.rows += rows
        self.bodies += data[start:end]

    def blocks(self) -> Iterator[RunBlock]:
        """All rows in order, as blocks, without records that meet their cancellation.

        Raises CorruptRun for two records at one place.
        """
        try:
            sort_rows(self.rows)
        except ValueError:
            self.rows = _left(self.rows)
        row, count = 0, len(self.rows) // ROW_FIELDS
        while row < count:
            body, behind = write_rows(self.rows, row, self.bodies, BLOCK_BYTES)
            yield RunBlock(body, behind - row, _place(self.rows, row), _place(self.rows, behind - 1))
            row = behind


async def merged_blocks(readers: Iterable[RunReader], position: Position) -> AsyncGenerator[RunBlock, None]:
    """The records and cancellations above `position` of these runs, as blocks of one run.

    A record that meets its cancellation is left out with it. Several cancellations of one record become one. Raises as RunReader
    does, and CorruptRun for a record that two runs have.
    """
    closed = sorted((_Cursor(reader, position) for reader in readers), key=lambda one: one.reader.run.first)
    opened: list[_Cursor] = []
    gathered = Rows()
    while opened or closed:
        if not opened:
            opened.append(closed.pop(0))
        opened = [one for one in opened if await one.fill()]
        if not opened:
            continue
        bound = min(one.last for one in opened)
        if closed and closed[0].reader.run.first <= bound:
            opened.append(closed.pop(0))  # compute the bound again: this run's rows may end before it
            continue
        for one in opened:
            one.take(bound, gathered)
        if gathered.size_bytes >= READ_BLOCKS * BLOCK_BYTES:
            for block in gathered.blocks():
                yield block
            gathered = Rows()
    for block in gathered.blocks():
        yield block


class _Cursor:
    """The next blocks of one run. `last`: the place of the last row read so far."""

    def __init__(self, reader: RunReader, position: Position) -> None:
        self.reader = reader
        self.last = position
        self._position = position
        self._next_block = -1
        self._rows = array("q")
        self._data = memoryview(b"")
        self._at = 0

    async def fill(self) -> bool:
        """Read more blocks if no row is left in memory; False at the end of the run."""
        while self._at >= len(self._rows) // ROW_FIELDS:
            index = await self.reader.index()
            if self._next_block < 0:
                above = index.block_above(self._position)
                self._next_block = len(index) if above is None else above
            if self._next_block >= len(index):
                return False
            found = await self.reader.read_rows(self._next_block, self._position, READ_BLOCKS * BLOCK_BYTES)
            self._rows, self._data, self._next_block = found
            self._at = 0
            if self._rows:
                self.last = _place(self._rows, len(self._rows) // ROW_FIELDS - 1)
        return True

    def take(self, until: Position, gathered: Rows) -> None:
        """Move the rows up to `until` to `gathered`."""
        rows = self._rows
        behind = bisect_right(range(len(rows) // ROW_FIELDS), until, lo=self._at, key=lambda row: _place(rows, row))
        if behind > self._at:
            gathered.add(rows[self._at * ROW_FIELDS : behind * ROW_FIELDS], self._data)
            self._at = behind


def _left(rows: array[int]) -> array[int]:
    """Sorted rows without records that meet their cancellation, and with one of several equal cancellations."""
    left = array("q")
    each = zip(*(iter(rows),) * ROW_FIELDS, strict=True)
    for place, same in groupby(each, key=lambda row: row[:2]):
        found = list(same)
        records = sum(row[-1] != CANCELS for row in found)
        if records > 1:
            raise CorruptRun(f"two runs have the delayed record {place[1]}, due at {place[0]}")
        if records == 0 or len(found) == 1:
            left.extend(found[0])
    return left


def _place(rows: array[int], row: int) -> Position:
    start = row * ROW_FIELDS
    return Position(rows[start], rows[start + 1])
