"""Pending held records in the order of deliveries. Pure.

A record is one number made of its due time, its name and the place of its hold, so a sorted list of numbers is the order. A
longer hold is kept unsorted, in its announcement's form, with its first record in a heap. It is "opened" (its records become
numbers) when that record is next. Most holds are written to a run long before, and are never opened.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, overload

from sortedcontainers import SortedDict, SortedList

from bmq.log.timers.announcements import HeldColumns, HeldRecord, PackedHeld, Position

_OFFSET_BITS: Final = 63
_BEHIND_BITS: Final = 32
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_BEHIND_MASK: Final = (1 << _BEHIND_BITS) - 1
HOLD_MIN: Final = 8
"""A hold with fewer records is opened at once, because an unopened hold takes as much memory as some numbers."""


class Pending(NamedTuple):
    """A pending record. `hold_offset`: offset of the control batch that holds it; equal to `offset` if a run has the record."""

    due_ms: int
    offset: int
    hold_offset: int

    @property
    def position(self) -> Position:
        return Position(self.due_ms, self.offset)

    @property
    def is_in_run(self) -> bool:
        return self.hold_offset == self.offset


class Hold(Sequence[Pending]):
    """The records of one announcement, at least one, in the order of their names.

    `base_offset`: the base offset of the batch behind, to which the records' offset deltas are added.
    """

    __slots__ = ("_dues_ms", "_offset_deltas", "base_offset", "first", "hold_offset")

    def __init__(self, columns: HeldColumns, base_offset: int, hold_offset: int) -> None:
        self.base_offset = base_offset
        self.hold_offset = hold_offset
        self._dues_ms = columns.dues_ms
        self._offset_deltas = columns.offset_deltas
        first_ms = min(self._dues_ms)
        first = Position(first_ms, base_offset + self._offset_deltas[self._dues_ms.index(first_ms)])
        self.first = first

    def __len__(self) -> int:
        return len(self._dues_ms)

    @overload
    def __getitem__(self, index: int) -> Pending: ...
    @overload
    def __getitem__(self, index: slice) -> list[Pending]: ...
    def __getitem__(self, index: int | slice) -> Pending | list[Pending]:
        if isinstance(index, slice):
            return list(self)[index]
        return Pending(self._dues_ms[index], self.base_offset + self._offset_deltas[index], self.hold_offset)

    def __iter__(self) -> Iterator[Pending]:
        base_offset, hold_offset = self.base_offset, self.hold_offset
        for due_ms, delta in zip(self._dues_ms, self._offset_deltas, strict=True):
            yield Pending(due_ms, base_offset + delta, hold_offset)

    def has(self, place: Position) -> bool:
        delta = place.offset - self.base_offset
        index = bisect_left(self._offset_deltas, delta)
        return index < len(self) and self._offset_deltas[index] == delta and self._dues_ms[index] == place.due_ms

    def numbers(self) -> list[int]:
        base_offset, before = self.base_offset, self.base_offset - self.hold_offset
        return [
            ((due_ms << _OFFSET_BITS | base_offset + delta) << _BEHIND_BITS) | before + delta
            for due_ms, delta in zip(self._dues_ms, self._offset_deltas, strict=True)
        ]


def held_at(records: Sequence[HeldRecord], base_offset: int, hold_offset: int) -> Sequence[Pending]:
    """The records of the announcement at `hold_offset`, behind which the batch at `base_offset` lies."""
    if isinstance(records, PackedHeld) and records:
        return Hold(HeldColumns(records.entries), base_offset, hold_offset)
    return [Pending(record.due_ms, base_offset + record.offset_delta, hold_offset) for record in records]


class WaitingRecords:
    """Pending records, sorted as needed. Records are added in any order, holds in the order of the log."""

    __slots__ = ("_count", "_firsts", "_holds", "_numbers")

    def __init__(self) -> None:
        self._numbers: SortedList[int] = SortedList()
        self._holds: SortedDict[int, Hold] = SortedDict()  # by base offset
        self._firsts: list[tuple[int, Hold]] = []  # heap: (first record's number, hold), also opened ones
        self._count = 0  # records in unopened holds

    def __len__(self) -> int:
        return len(self._numbers) + self._count

    def add(self, record: Pending) -> None:
        self._numbers.add(_packed(record))

    def update(self, records: Iterable[Pending]) -> None:
        self._numbers.update(map(_packed, records))

    def load(self, places: Iterable[tuple[int, int]]) -> None:
        """Add records of runs, as (due time, name)."""
        self._numbers.update([(due_ms << _OFFSET_BITS | name) << _BEHIND_BITS for due_ms, name in places])

    def add_hold(self, hold: Hold) -> None:
        if len(hold) < HOLD_MIN:
            self._numbers.update(hold.numbers())
            return
        self._holds[hold.base_offset] = hold
        self._count += len(hold)
        heappush(self._firsts, (_packed(Pending(*hold.first, hold.hold_offset)), hold))

    def take_over(self, other: WaitingRecords) -> None:
        """Move the records of `other` here; `other` must not be used any more."""
        self._numbers.update(other._numbers)
        self._holds.update(other._holds)
        self._count += other._count
        self._firsts += other._firsts
        heapify(self._firsts)

    def clear(self) -> None:
        self._numbers.clear()
        self._holds.clear()
        self._firsts.clear()
        self._count = 0

    @property
    def first(self) -> Pending | None:
        """The first record in the order, whether its hold is opened or not; None without one."""
        self._forget_opened()
        if self._firsts and (not self._numbers or self._firsts[0][0] < self._numbers[0]):
            return pending_of(self._firsts[0][0])
        return pending_of(self._numbers[0]) if self._numbers else None

    def heads(self, before: Position, count_max: int) -> list[int]:
        """The first records before this place, at most `count_max`, in order, as numbers for `pending_of`. Removes nothing."""
        numbers, below = self._numbers, _packed_place(before)
        while True:
            count = min(count_max, numbers.bisect_left(below))
            bound = numbers[count - 1] if 0 < count == count_max else below
            self._forget_opened()
            if not self._firsts or self._firsts[0][0] >= bound:
                return list(numbers.islice(0, count))
            self._open(self._firsts[0][1])

    def drop(self, count: int) -> None:
        """Remove the first `count` records, which `heads` returned."""
        pop = self._numbers.pop
        for _ in range(count):
            pop(0)

    def open_due(self, before: Position, count_max: int) -> bool:
        """Open holds that have a record before this place, until `count_max` records are opened; whether such holds are left.

        Call until False before `heads`, which else opens them all at once.
        """
        below = _packed_place(before)
        while True:
            self._forget_opened()
            if not self._firsts or self._firsts[0][0] >= below:
                return False
            if count_max <= 0:
                return True
            hold = self._firsts[0][1]
            count_max -= len(hold)
            self._open(hold)

    def has(self, place: Position) -> bool:
        return self._hold_with(place) is not None or self._index_of(place) is not None

    def pop(self, place: Position) -> Pending | None:
        """Remove and return the record at this place; None if there is none."""
        hold = self._hold_with(place)
        if hold is not None:
            self._open(hold)
        index = self._index_of(place)
        return None if index is None else pending_of(self._numbers.pop(index))

    def open_some(self, count_max: int) -> bool:
        """Open holds, until `count_max` records are opened; whether unopened holds are left."""
        while self._holds and count_max > 0:
            hold = self._holds.peekitem(0)[1]
            count_max -= len(hold)
            self._open(hold)
        return bool(self._holds)

    def behind(self, after: Position) -> Iterator[Position]:
        """The places of the records behind `after`, in order. Opens all holds, so call `open_some` in turns before."""
        self.open_some(self._count)
        start = self._numbers.bisect_left(_packed(Pending(after.due_ms, after.offset + 1, after.offset + 1)))
        return (pending_of(number).position for number in self._numbers.islice(start))

    # --- inside

    def _open(self, hold: Hold) -> None:
        del self._holds[hold.base_offset]
        if not self._holds:
            self._firsts.clear()
        self._count -= len(hold)
        self._numbers.update(hold.numbers())

    def _forget_opened(self) -> None:
        while self._firsts and self._holds.get(self._firsts[0][1].base_offset) is not self._firsts[0][1]:
            heappop(self._firsts)

    def _hold_with(self, place: Position) -> Hold | None:
        index = self._holds.bisect_right(place.offset) - 1
        if index < 0:
            return None
        hold: Hold = self._holds.peekitem(index)[1]
        return hold if hold.has(place) else None

    def _index_of(self, place: Position) -> int | None:
        first = _packed_place(place)
        index: int = self._numbers.bisect_left(first)
        if index < len(self._numbers) and self._numbers[index] >> _BEHIND_BITS == first >> _BEHIND_BITS:
            return index
        return None


def _packed(record: Pending) -> int:
    behind = record.offset - record.hold_offset
    return (record.due_ms << _OFFSET_BITS | record.offset) << _BEHIND_BITS | behind


def _packed_place(place: Position) -> int:
    """The least number that a record at this place may have."""
    return (place.due_ms << _OFFSET_BITS | place.offset) << _BEHIND_BITS


def pending_of(number: int) -> Pending:
    """The record that a number of `heads` stands for."""
    offset = number >> _BEHIND_BITS & _OFFSET_MASK
    return Pending(number >> (_OFFSET_BITS + _BEHIND_BITS), offset, offset - (number & _BEHIND_MASK))
