"""Which held records of one partition are pending, which is next, and how far deliveries have come. Pure.

It follows the log: what is placed counts when it is durable, and is taken back when it is refused. A pending record is one
number: due time, name and where it is held, in this order, so that a heap of numbers is the order of deliveries.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bmq.log.timers.announcements import START, Position

_OFFSET_BITS: Final = 63
_BEHIND_BITS: Final = 32
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_BEHIND_MASK: Final = (1 << _BEHIND_BITS) - 1


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
    """On its way into the log. `end_offset`: when the high watermark is there, it counts. `first`: of what it holds."""

    start_offset: int
    end_offset: int
    first: Position | None = None
    held: tuple[Pending, ...] = ()
    delivered: tuple[Pending, ...] = ()


class DueOrder:
    """`position`: of what is durable."""

    def __init__(self, position: Position = START) -> None:
        self.position = position
        self._floor = position  # of all that was ever taken: the clock may be set back before that is placed
        self._heap: list[int] = []
        self._counts: dict[int, int] = {}  # how many of each hold are not delivered durably, in the order of the log
        self._placed: deque[_Placed] = deque()

    # --- what is there

    def __len__(self) -> int:
        """Records that wait, or are on their way to be held."""
        return len(self._heap) + sum(len(one.held) for one in self._placed)

    @property
    def floor_ms(self) -> int:
        """No record may be held with an earlier due time: a delivery would pass it."""
        return self._floor.due_ms

    @property
    def next_due_ms(self) -> int | None:
        """Of what may be delivered next; None: nothing may, until something is pending or has become durable."""
        if not self._heap:
            return None
        record, limit = _unpacked(self._heap[0]), self._limit()
        return None if limit is not None and record.position > limit else record.due_ms

    @property
    def is_delivering(self) -> bool:
        return any(one.delivered for one in self._placed)

    def oldest_needed(self, high_watermark: int) -> int:
        """The log is needed from this offset on: nothing pending, or on its way, is below it."""
        oldest = min(next(iter(self._counts), high_watermark), high_watermark)
        return min(oldest, self._placed[0].start_offset) if self._placed else oldest

    # --- what happens

    def recover(self, pending: Iterable[Pending]) -> None:
        """Records found in the log, in the order of their holds; those up to the position were delivered."""
        for record in pending:
            if record.position > self.position:
                self._wait(record)

    def take(self, now_ms: int, count_max: int) -> list[Pending]:
        """The next records that are due, in order; `placed` or `give_back` has to follow.

        None behind a record that is still on its way to be held: that one would count as delivered. The clock of deliveries
        is not behind the position: a due time that was reached once has been reached.
        """
        now_ms = max(now_ms, self.position.due_ms)
        limit = self._limit()
        taken: list[Pending] = []
        heap = self._heap
        while heap and len(taken) < count_max:
            record = _unpacked(heap[0])
            if record.due_ms > now_ms or (limit is not None and record.position > limit):
                break
            heapq.heappop(heap)
            taken.append(record)
        if taken:
            self._floor = max(self._floor, taken[-1].position)
        return taken

    def give_back(self, records: Iterable[Pending]) -> None:
        """They were taken, and are not on their way."""
        for record in records:
            heapq.heappush(self._heap, _packed(record))

    def place_held(self, records: Sequence[Pending], end_offset: int) -> None:
        """Their announcement and the batch behind it, which ends there, were given their offsets."""
        first = min(record.position for record in records)
        self._placed.append(_Placed(records[0].hold_offset, end_offset, first, held=tuple(records)))

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
            if one.delivered:
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
        heapq.heappush(self._heap, _packed(record))
        self._counts[record.hold_offset] = self._counts.get(record.hold_offset, 0) + 1

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
