"""Pauses of a thread that works through many records, so that the event loop's thread answers applications meanwhile.

Threads of CPython share one lock. The loop takes it anew for each callback, and a thread that computes gives it up only when
the switch interval is over: while a lane reads and produces some thousand records, the loop serves a few thousand callbacks
a second. A thread that sleeps three times as long as it has worked, every few records, leaves it enough: the loop itself
needs half of the time for 10,000 records a second. A lane that falls behind sleeps as long as it works, and while no
application hands records over it has all of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

RECORDS_BETWEEN: Final = 16
PAUSE_S_MAX: Final = 0.002
PAUSE_TO_WORK: Final = 3.0
PAUSE_TO_WORK_BEHIND: Final = 1.0

_Item = TypeVar("_Item")


class LoopPauses:
    """Of one thread. `handed_over`: a number that changes whenever the loop has taken records. `is_behind`: whether records
    wait for the thread for long.
    """

    def __init__(
        self,
        handed_over: Callable[[], int],
        is_behind: Callable[[], bool],
        *,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._handed_over, self._is_behind = handed_over, is_behind
        self._now_s, self._sleep = now_s, sleep
        self._seen = handed_over()
        self._worked_since_s = now_s()

    def pause(self) -> None:
        """Sleep for a multiple of the work since the last call, PAUSE_S_MAX at most, if the loop had records meanwhile."""
        seen = self._handed_over()
        if seen != self._seen:
            self._seen = seen
            ratio = PAUSE_TO_WORK_BEHIND if self._is_behind() else PAUSE_TO_WORK
            self._sleep(min(PAUSE_S_MAX, ratio * (self._now_s() - self._worked_since_s)))
        self._worked_since_s = self._now_s()

    def between(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """The same items, with a pause before each RECORDS_BETWEEN of them."""
        for place, item in enumerate(items):
            if place % RECORDS_BETWEEN == 0:
                self.pause()
            yield item
