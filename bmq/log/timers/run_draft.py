"""Gathers held records and cancellations from announcements, and sorts them for one run. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import compress, pairwise
from typing import Final

from bmq.log.timers.announcements import Held, Position
from bmq.log.timers.run_file import BLOCK_BYTES, RunBlock
from bmq.records.held_row_layout import CANCELS, ROW_FIELDS
from bmq.records.held_rows import held_rows, sort_rows, write_rows

ROW_BYTES: Final = 2 * ROW_FIELDS * 8
"""Memory for each record besides its body: twice its row, because sorting needs room for a second one."""


class RunDraft:
    """The content of one run. `cancelled`: the records that its cancellations name. `size_bytes`: memory in use.

    First `add` all announcements, then `sort`; `places` and `blocks` are valid after that.
    """

    def __init__(self) -> None:
        self.cancelled: set[Position] = set()
        self._rows = array("q")
        self._bodies = bytearray()

    def __len__(self) -> int:
        """How many records and cancellations were added."""
        return self.row_count + len(self.cancelled)

    @property
    def row_count(self) -> int:
        """How many records and cancellations the run will have, once sorted; before that, how many records were added."""
        return len(self._rows) // ROW_FIELDS

    @property
    def size_bytes(self) -> int:
        return len(self._bodies) + ROW_BYTES * len(self)

    def add(self, held: Held, base_offset: int, above: Position) -> None:
        """Add the announcement's records and cancellations whose places are above `above`.

        `base_offset`: of the batch behind the announcement. Raises CorruptRecords, BadCompressedData.
        """
        columns = held.columns
        rows = held_rows(columns.packed, base_offset, columns.bodies_bytes, len(self._bodies), above)
        if rows:
            self._rows += rows
            self._bodies += held.bodies
        self.cancelled.update(cancel.target for cancel in held.cancels if cancel.target > above)

    def sort(self) -> None:
        """Sort the records. A record and its cancellation, if both are here, are dropped; other cancellations stay."""
        sort_rows(self._rows)
        if not self.cancelled:
            return
        met: list[int] = []
        others = array("q")
        for target in sorted(self.cancelled):
            row = bisect_left(range(self.row_count), target, key=self._place)
            if row < self.row_count and self._place(row) == target:
                met.append(row)
            else:
                others.extend((*target, -1, 0, CANCELS))
        kept = array("q")
        for before, behind in pairwise((-1, *met, self.row_count)):
            kept += self._rows[(before + 1) * ROW_FIELDS : behind * ROW_FIELDS]
        self._rows = kept + others
        sort_rows(self._rows)

    @property
    def places(self) -> tuple[array[int], array[int]]:
        """(due times, names) of the records, in order."""
        dues_ms, names = self._rows[::ROW_FIELDS], self._rows[1::ROW_FIELDS]
        if not self.cancelled:
            return dues_ms, names
        is_record = [length != CANCELS for length in self._rows[ROW_FIELDS - 1 :: ROW_FIELDS]]
        return array("q", compress(dues_ms, is_record)), array("q", compress(names, is_record))

    def blocks(self) -> Iterator[RunBlock]:
        """The records and cancellations as blocks, in order."""
        row, count = 0, self.row_count
        while row < count:
            body, behind = write_rows(self._rows, row, self._bodies, BLOCK_BYTES)
            yield RunBlock(body, behind - row, self._place(row), self._place(behind - 1))
            row = behind

    def _place(self, row: int) -> Position:
        start = row * ROW_FIELDS
        return Position(self._rows[start], self._rows[start + 1])
