"""The newest records of one partition, which all its subscribers share. Pure.

The window is complete from `low` to `high`: every record with such an offset is in it. Offsets without a record
(compaction, control batches) are covered as well. It forgets the oldest records when it is full.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from bmq.gateway.byte_budget import ByteBudget
from bmq.gateway.held_records import HeldRecord

_COMPACTED_FROM = 256


class TailWindow:
    """`start`: the offset of the first record that will be added, or less. `budget`: what all windows share."""

    def __init__(self, start: int, bytes_max: int, budget: ByteBudget) -> None:
        self.low = start
        self.high = start
        self.held_bytes = 0
        self._bytes_max = bytes_max
        self._budget = budget
        self._records: list[HeldRecord] = []
        self._sizes: list[int] = []
        self._first = 0

    def __len__(self) -> int:
        return len(self._records) - self._first

    def covers(self, offset: int) -> bool:
        """Whether no record between `offset` and the end is missing."""
        return self.low <= offset <= self.high

    def add(self, record: HeldRecord) -> None:
        """The next record. One that is there already is left out."""
        if record.offset < self.high:
            return
        size = record.size_bytes
        self._records.append(record)
        self._sizes.append(size)
        self.held_bytes += size
        self._budget.take(size)
        self.high = record.offset + 1
        while len(self) > 1 and (self.held_bytes > self._bytes_max or not self._budget.has_room(0)):
            self._forget()

    def advance(self, offset: int) -> None:
        """There is no record before `offset` beside those that are here."""
        self.high = max(self.high, offset)

    def read(self, offset: int, count_max: int) -> Sequence[HeldRecord]:
        """Up to so many records from `offset` on. Raises ValueError unless it is covered."""
        if not self.covers(offset):
            raise ValueError(f"offset {offset} is not between {self.low} and {self.high}")
        at = bisect_left(self._records, offset, lo=self._first, key=lambda one: one.offset)
        return self._records[at : at + count_max]

    def clear(self) -> None:
        """Give all memory back."""
        self._budget.give_back(self.held_bytes)
        self.held_bytes = 0
        self._records.clear()
        self._sizes.clear()
        self._first = 0
        self.low = self.high

    def _forget(self) -> None:
        record, size = self._records[self._first], self._sizes[self._first]
        self.low = record.offset + 1
        self.held_bytes -= size
        self._budget.give_back(size)
        self._records[self._first] = None  # type: ignore[call-overload]
        self._first += 1
        if self._first >= _COMPACTED_FROM and self._first * 2 >= len(self._records):
            del self._records[: self._first]
            del self._sizes[: self._first]
            self._first = 0
