"""When the half messages of one partition are checked, and when they are given up. Pure.

The first check of a message is due `first_ms` after it was held, the next ones every `interval_ms`. A check counts once it was
taken from the schedule. A new owner does not know how many checks its predecessor made, so it counts those whose time has passed,
but never the last one: each owner checks a message at least once, an interval before it gives the message up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final, NamedTuple

from bmq.log.half.half_order import Half

_REBUILD_MIN: Final = 1_000


class CheckTerms(NamedTuple):
    """When half messages are checked, as the topic's configs say."""

    first_ms: int
    interval_ms: int
    checks_max: int


class DueCheck(NamedTuple):
    """A check that is due. `number`: from 1 up; None if all checks were made, so that the message is to be given up."""

    offset: int
    number: int | None


class _Scheduled(NamedTuple):
    at_ms: int
    made: int


class CheckSchedule:
    """The next check of each undecided half message."""

    def __init__(self, terms: CheckTerms) -> None:
        self.terms = terms
        self._scheduled: dict[int, _Scheduled] = {}
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._scheduled)

    @property
    def next_ms(self) -> int | None:
        """When the next check is due; None without one."""
        while self._heap:
            at_ms, offset = self._heap[0]
            scheduled = self._scheduled.get(offset)
            if scheduled is not None and scheduled.at_ms == at_ms:
                return at_ms
            heapq.heappop(self._heap)
        return None

    def add(self, half: Half, now_ms: int) -> None:
        """Schedule a message that was held just now, or by a former owner.

        Its next check is at most one interval (or `first_ms`, if longer) away, even if the former owner's clock was ahead.
        """
        first_ms, interval_ms, checks_max = self.terms
        first_at_ms = half.held_ms + first_ms
        passed = 0 if first_at_ms > now_ms else (now_ms - first_at_ms) // interval_ms + 1
        at_ms = min(first_at_ms + passed * interval_ms, now_ms + max(first_ms, interval_ms))
        self._set(half.offset, _Scheduled(at_ms, min(passed, checks_max - 1)))

    def forget(self, offset: int) -> None:
        """Remove a message, because it is decided."""
        self._scheduled.pop(offset, None)
        if len(self._heap) > 2 * len(self._scheduled) + _REBUILD_MIN:
            self._rebuild()

    def take(self, now_ms: int, count_max: int) -> list[DueCheck]:
        """Take due checks, `count_max` at most, and schedule each message's next one.

        A message to give up comes again after an interval, unless it was forgotten by then.
        """
        taken: list[DueCheck] = []
        interval_ms = self.terms.interval_ms
        while len(taken) < count_max and (at_ms := self.next_ms) is not None and at_ms <= now_ms:
            _, offset = heapq.heappop(self._heap)
            made = self._scheduled[offset].made
            # Checks that were missed are not made up for: the next one is in the future.
            next_ms = at_ms + interval_ms * ((now_ms - at_ms) // interval_ms + 1)
            if made < self.terms.checks_max:
                taken.append(DueCheck(offset, made + 1))
                made += 1
            else:
                taken.append(DueCheck(offset, None))
            self._set(offset, _Scheduled(next_ms, made))
        return taken

    def not_made(self, offsets: Iterable[int]) -> None:
        """Uncount the last checks of these messages: they were taken but could not be sent."""
        for offset in offsets:
            scheduled = self._scheduled.get(offset)
            if scheduled is not None and scheduled.made:
                self._scheduled[offset] = scheduled._replace(made=scheduled.made - 1)

    def _set(self, offset: int, scheduled: _Scheduled) -> None:
        self._scheduled[offset] = scheduled
        heapq.heappush(self._heap, (scheduled.at_ms, offset))

    def _rebuild(self) -> None:
        self._heap = [(scheduled.at_ms, offset) for offset, scheduled in self._scheduled.items()]
        heapq.heapify(self._heap)
