"""Pauses of a thread that works through many records, so that the event loop's thread answers applications meanwhile.

Threads of CPython share one lock. The loop takes it anew for each callback, and a thread that computes gives it up only when
the switch interval is over: while a lane reads some thousand records, the loop serves a few thousand callbacks
a second. A thread that sleeps as long as it has worked, every few records, leaves it enough. Nobody waits while no
application hands records over: a lane that works off a backlog then has all of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

RECORDS_BETWEEN: Final = 16
PAUSE_S_MAX: Final = 0.002


class LoopPauses:
    """Of one thread. `handed_over`: a number that changes whenever the loop has taken records."""

    def __init__(
        self,
        handed_over: Callable[[], int],
        *,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._handed_over, self._now_s, self._sleep = handed_over, now_s, sleep
        self._seen = handed_over()
        self._worked_since_s = now_s()

    def pause(self) -> None:
        """Sleep as long as the work since the last call took, PAUSE_S_MAX at most, if the loop had records meanwhile."""
        seen = self._handed_over()
        if seen != self._seen:
            self._seen = seen
            self._sleep(min(PAUSE_S_MAX, self._now_s() - self._worked_since_s))
        self._worked_since_s = self._now_s()
