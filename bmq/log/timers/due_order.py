"""Which held records of one partition are pending, which is next, and how far deliveries have come. Pure.

It follows the log: what is placed counts when it is durable, and is taken back when it is refused. A pending record is one
number: due time, name and where it is held, in this order, so that a sorted list of numbers is the order of deliveries.

A cancelled record is not pending any more when its cancellation is durable. Until then no delivery passes it, so the log never
has a delivery of a record behind a cancellation of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sortedcontainers import SortedList

from bmq.log.timers.announcements import START, Position

_OFFSET_BITS: Final = 63
_BEHIND_BITS: Final = 32
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_BEHIND_MASK: Final = (1 << _BEHIND_BITS) - 1
CANCELLED_MAX: Final = 10_000
"""Cancelled records that are remembered, so that a cancellation may be sent again."""


_LAST: Final = Position(2**63, 0)


class Pending(NamedTuple):
    """A record that waits. `hold_offset`: of the control batch that has it."""

    due_ms: int
    offset: int
    hold_offset: int

    @property
    def position(self) -> Position:
        return Position(self.due_ms, self.offset)


@dataclass(slots=True)
class _Placed:
    """On its way into the log. `end_offset`: when the high watermark is there, it counts.

    `first`: of what it holds or cancels.
    """

    start_offset: int
    end_offset: int
    first: Position | None = None
    held: tuple[Pending, ...] = ()
    delivered: tuple[Pending, ...] = ()
    cancelled: tuple[Position, ...] = ()


class DueOrder:
    """`position`: of what is durable. `delivered_count`, `cancelled_count`: since the partition is owned."""

    def __init__(self, position: Position = START) -> None:
        self.position = position
        self._floor = position  # of all that was ever taken: the clock may be set back before that is placed
        self._waiting: SortedList[int] = SortedList()
        self._cancelled: dict[Position, None] = {}  # the last ones, oldest first
        self.delivered_count = 0
        self.cancelled_count = 0
        self._counts: dict[int, int] = {}  # how many of each hold are not delivered durably, in the order of the log
        self._placed: deque[_Placed] = deque()

    # --- what is there

    def __len__(self) -> int:
        """Records that wait, or are on their way to be held."""
        return len(self._waiting) + sum(len(one.held) for one in self._placed)

    @property
    def floor_ms(self) -> int:
        """No record may be held with an earlier due time: a delivery would pass it."""
        return self._floor.due_ms

    @property
    def next_due_ms(self) -> int | None:
        """Of what may be delivered next; None: nothing may, until something is pending or has become durable."""
        if not self._waiting:
            return None
        record, limit = _unpacked(self._waiting[0]), self._limit()
        return None if limit is not None and record.position >= limit else record.due_ms

    @property
    def waiting_count(self) -> int:
        """Records that wait, durably."""
        return len(self._waiting)

    @property
    def first_due_ms(self) -> int | None:
        """Of the first record that waits; None: none does."""
        return _unpacked(self._waiting[0]).due_ms if self._waiting else None

    def listed(self, after: Position, limit: int) -> tuple[Position, ...]:
        """The first ones that wait behind this place in the order."""
        start = self._waiting.bisect_left(_packed(Pending(after.due_ms, after.offset + 1, after.offset + 1)))
        return tuple(_unpacked(number).position for number in self._waiting[start : start + limit])

    @property
    def is_delivering(self) -> bool:
        return any(one.delivered for one in self._placed)

    def oldest_needed(self, high_watermark: int) -> int:
        """The log is needed from this offset on: nothing pending, or on its way, is below it."""
        oldest = min(next(iter(self._counts), high_watermark), high_watermark)
        return min(oldest, self._placed[0].start_offset) if self._placed else oldest

    def why_not_cancelled(self, target: Position) -> str:
        """Why the record cannot be cancelled, in words; empty: it can, or it was."""
        if target in self._cancelled or self._index_of(target) is not None:
            return ""
        if target <= self.position:
            return f"too late: what was due at {target.due_ms} has been delivered"
        if target <= self._floor:
            return f"too late: what was due at {target.due_ms} is being delivered"
        return f"no delayed record of this partition has offset {target.offset} and is due at {target.due_ms}"

    def _index_of(self, target: Position) -> int | None:
        first = _packed(Pending(*target, target.offset))
        index: int = self._waiting.bisect_left(first)
        if index < len(self._waiting) and self._waiting[index] >> _BEHIND_BITS == first >> _BEHIND_BITS:
            return index
        return None

    # --- what happens

    def recover(self, pending: Iterable[Pending], cancelled: Collection[Position] = ()) -> None:
        """Records found in the log, in the order of their holds, and what cancellations in it name.

        Those up to the position were delivered.
        """
        for record in pending:
            if record.position > self.position and record.position not in cancelled:
                self._wait(record)
        for target in cancelled:
            self._remember(target)

    def take(self, now_ms: int, count_max: int) -> list[Pending]:
        """The next records that are due, in order; `placed` or `give_back` has to follow.

        None behind a record that is still on its way to be held: that one would count as delivered. The clock of deliveries
        is not behind the position: a due time that was reached once has been reached.
        """
        now_ms = max(now_ms, self.position.due_ms)
        limit = self._limit()
        taken: list[Pending] = []
        for number in self._waiting:
            record = _unpacked(number)
            if len(taken) == count_max or record.due_ms > now_ms or (limit is not None and record.position >= limit):
                break
            taken.append(record)
        del self._waiting[: len(taken)]
        if taken:
            self._floor = max(self._floor, taken[-1].position)
        return taken

    def give_back(self, records: Iterable[Pending]) -> None:
        """They were taken, and are not on their way."""
        self._waiting.update(map(_packed, records))

    def place_held(self, records: Sequence[Pending], end_offset: int) -> None:
        """Their announcement and the batch behind it, which ends there, were given their offsets."""
        self.place(records[0].hold_offset, records, (), end_offset)

    def place(
        self, hold_offset: int, records: Sequence[Pending], cancelled: Sequence[Position], end_offset: int
    ) -> None:
        """The same of records that are held and others that are cancelled."""
        first = min(*(record.position for record in records), *cancelled, _LAST)
        self._placed.append(_Placed(hold_offset, end_offset, first, tuple(records), cancelled=tuple(cancelled)))

    def place_delivery(self, records: Sequence[Pending], start_offset: int, end_offset: int) -> None:
        """The same of a delivery of these records, which were taken."""
        self._placed.append(_Placed(start_offset, end_offset, delivered=tuple(records)))

    def synced(self, high_watermark: int) -> None:
        """Everything below is durable."""
        placed = self._placed
        while placed and placed[0].end_offset <= high_watermark:
            one = placed.popleft()
            for record in one.held:
                self._wait(record)
            for target in one.cancelled:
                self._cancel(target)
            if one.delivered:
                self.delivered_count += len(one.delivered)
                self.position = one.delivered[-1].position
                for record in one.delivered:
                    self._uncount(record)

    def rollback(self, end_offset: int) -> None:
        """What was placed at or past this offset is not in the log. No high watermark has passed it."""
        placed = self._placed
        while placed and placed[-1].end_offset > end_offset:
            one = placed.pop()
            if one.delivered:
                self.give_back(one.delivered)

    def _limit(self) -> Position | None:
        """No delivery passes it."""
        return min((one.first for one in self._placed if one.first is not None), default=None)

    def _wait(self, record: Pending) -> None:
        self._waiting.add(_packed(record))
        self._counts[record.hold_offset] = self._counts.get(record.hold_offset, 0) + 1

    def _cancel(self, target: Position) -> None:
        index = self._index_of(target)
        if index is not None:
            self._uncount(_unpacked(self._waiting.pop(index)))
            self.cancelled_count += 1
        self._remember(target)

    def _remember(self, target: Position) -> None:
        self._cancelled[target] = None
        if len(self._cancelled) > CANCELLED_MAX:
            del self._cancelled[next(iter(self._cancelled))]

    def _uncount(self, record: Pending) -> None:
        left = self._counts[record.hold_offset] - 1
        if left:
            self._counts[record.hold_offset] = left
        else:
            del self._counts[record.hold_offset]


def _packed(record: Pending) -> int:
    behind = record.offset - record.hold_offset
    return (record.due_ms << _OFFSET_BITS | record.offset) << _BEHIND_BITS | behind


def _unpacked(number: int) -> Pending:
    offset = number >> _BEHIND_BITS & _OFFSET_MASK
    return Pending(number >> (_OFFSET_BITS + _BEHIND_BITS), offset, offset - (number & _BEHIND_MASK))
