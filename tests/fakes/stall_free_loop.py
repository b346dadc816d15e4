"""An event loop on real time, less the time for which this process stood still. Unit tests run on it (tests/unit/conftest.py).

A time-out of the product ends a wait for somebody else. In a unit test that is mostly this same process, which a busy machine stops
for a second now and then: afterwards the time-out is due, and what was to come before it was not begun. So a step of the loop counts
as TURN_S_MAX at most, however long it took, and a wait for events as not much longer than it was to be. Time passes no faster than
on any other loop, and what waits for a process or a thread waits as long as there.

A test whose story is time itself moves it by hand: tests/fakes/loop_time.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from selectors import DefaultSelector, SelectorKey
from typing import Final

TURN_S_MAX: Final = 0.001
"""What the time from one look at the clock to the next counts at most, waits aside. A fifth of the shortest pause by which tests
let work be done that needs some turns: a processor that is taken away again and again does not end the pause before the work.
"""
WAIT_S_MAX: Final = 0.02
"""Waits are cut into pieces of this length, so that the process does not stand still for longer unnoticed."""


class StallFreeTime:
    """`real_s`: a clock that never goes back. The time begins as its, and is late by all stalls afterwards."""

    def __init__(self, real_s: Callable[[], float]) -> None:
        self._real_s = real_s
        self._looked_at_s = self._now_s = real_s()

    def now_s(self) -> float:
        self.pass_s_at_most(TURN_S_MAX)
        return self._now_s

    def pass_s_at_most(self, seconds: float) -> float:
        """Counts what passed since the last look; the seconds counted."""
        real_s = self._real_s()
        passed_s = min(real_s - self._looked_at_s, seconds)
        self._looked_at_s = real_s
        self._now_s += passed_s
        return passed_s


class _CountedWaits(DefaultSelector):
    def __init__(self, passing: StallFreeTime) -> None:
        super().__init__()
        self._passing = passing

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if timeout == 0:
            return super().select(0)
        self._passing.now_s()
        left_s = timeout
        while True:
            wait_s = WAIT_S_MAX if left_s is None else min(left_s, WAIT_S_MAX)
            events = super().select(wait_s)
            passed_s = self._passing.pass_s_at_most(max(wait_s, 0) + TURN_S_MAX)
            if left_s is not None:
                left_s -= passed_s
            if events or (left_s is not None and left_s <= 0):
                return events


class StallFreeLoop(asyncio.SelectorEventLoop):
    def __init__(self, real_s: Callable[[], float] | None = None) -> None:
        # Looked up now: the clocks of `time` may have been replaced (tests/support/jumping_clock.py).
        self._passing = StallFreeTime(real_s or time.monotonic)
        super().__init__(_CountedWaits(self._passing))

    def time(self) -> float:
        return self._passing.now_s()
