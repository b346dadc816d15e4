"""When the half messages of one partition are checked, and when they are given up. Pure.

The first check of a message is due `first_ms` after it was held, the next ones every `interval_ms`. A check counts once it was
taken from the schedule. A new owner does not know how many checks its predecessor made, so it counts those whose time has passed,
but never the last one: each owner checks a message at least once, an interval before it gives the message up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bmq.log.due_times import DueTimes
from bmq.log.half.half_order import HalfMessage


class CheckTerms(NamedTuple):
    """When half messages are checked, as the topic's configs say."""

    first_ms: int
    interval_ms: int
    checks_max: int


class DueCheck(NamedTuple):
    """A check that is due. `number`: from 1 up; None if all checks were made, so that the message is to be given up."""

    offset: int
    number: int | None


class CheckSchedule:
    """The next check of each undecided half message."""

    def __init__(self, terms: CheckTerms) -> None:
        self.terms = terms
        self._times: DueTimes[int] = DueTimes()
        self._made: dict[int, int] = {}  # checks of each message, by offset

    def __len__(self) -> int:
        return len(self._made)

    @property
    def next_ms(self) -> int | None:
        """When the next check is due; None without one."""
        return self._times.next_ms

    def add(self, half: HalfMessage, now_ms: int) -> None:
        """Schedule a message that was held just now, or by a former owner.

        Its next check is at most one interval (or `first_ms`, if longer) away, even if the former owner's clock was ahead.
        """
        first_ms, interval_ms, checks_max = self.terms
        first_at_ms = half.held_ms + first_ms
        passed = 0 if first_at_ms > now_ms else (now_ms - first_at_ms) // interval_ms + 1
        at_ms = min(first_at_ms + passed * interval_ms, now_ms + max(first_ms, interval_ms))
        self._times.set(half.offset, at_ms)
        self._made[half.offset] = min(passed, checks_max - 1)

    def forget(self, offset: int) -> None:
        """Remove a message, because it is decided."""
        self._made.pop(offset, None)
        self._times.forget(offset)

    def take(self, now_ms: int, count_max: int) -> list[DueCheck]:
        """Take due checks, `count_max` at most, and schedule each message's next one.

        A message to give up comes again after an interval, unless it was forgotten by then.
        """
        made, checks_max = self._made, self.terms.checks_max
        taken: list[DueCheck] = []
        for offset in self._times.take(now_ms, count_max, self.terms.interval_ms):
            number = made[offset] + 1
            if number > checks_max:
                taken.append(DueCheck(offset, None))
            else:
                made[offset] = number
                taken.append(DueCheck(offset, number))
        return taken

    def not_made(self, offsets: Iterable[int]) -> None:
        """Uncount the last checks of these messages: they were taken but could not be sent."""
        for offset in offsets:
            if made := self._made.get(offset):
                self._made[offset] = made - 1
