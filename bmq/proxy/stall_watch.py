"""Detects stalls of the event loop: the process was stopped, its machine slept, or one callback took too long.

Data that clients and nodes sent meanwhile is of unknown age, and so are requests that waited here: a sender may have given up and
gone on. So all of them are dropped unread (`on_stall`).

A timer runs all the time, and is late after a stall. Code that is about to act on received data asks `is_stalled` first, because
after a stall the event loop may deliver received bytes before it runs the timer. Asking reads a clock once.

`now_s` should be a clock that advances while the machine sleeps (Clock.elapsed_s; the event loop's own does not). Ages of
requests are measured by the same clock: with two clocks, a request could be too old by neither. While a host pauses a virtual
machine, no clock inside advances, so that is not detected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final

import structlog

LOOP_STALL_MAX_MS: Final = 5_000
"""Longest stall without consequences. docs/architecture/cluster.md, "Requests that are too old", gives the reason."""

_BEATS_PER_BOUND: Final = 4
_SETTLE_S: Final = 0.1
"""Time after a stall in which connections that were made during the stall are accepted."""

_log = structlog.get_logger("bmq.proxy")


class StallWatch:
    """Notices each stall longer than `stall_ms_max`, and none shorter than three quarters of it. It is idle before `start`."""

    def __init__(self, stall_ms_max: int = LOOP_STALL_MAX_MS, now_s: Callable[[], float] | None = None) -> None:
        self._stall_s_max = stall_ms_max / 1000
        self._clock_s = now_s
        self._limit_s = inf  # a beat after this means that the loop stalled
        self._dropping: list[Callable[[float], None]] = []
        self._beat_timer: asyncio.TimerHandle | None = None
        self._settle_timer: asyncio.TimerHandle | None = None
        self.stall_count = 0
        self._last_stall_s: float | None = None

    def now_s(self) -> float:
        """The time by the clock that stalls are measured with; the event loop's if none was given."""
        return asyncio.get_running_loop().time() if self._clock_s is None else self._clock_s()

    def on_stall(self, drop: Callable[[float], None]) -> None:
        """Call `drop` after each stall with its length in seconds (at least the bound), in the order of registration."""
        self._dropping.append(drop)

    def start(self) -> None:
        """Start to watch the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._expect_beat()

    def close(self) -> None:
        self._limit_s = inf
        for timer in (self._beat_timer, self._settle_timer):
            if timer is not None:
                timer.cancel()
        self._beat_timer = self._settle_timer = None

    def is_stalled(self) -> bool:
        """Whether the loop has just stalled. If so, all data from before is dropped when this returns."""
        return self._limit_s != inf and self.now_s() > self._limit_s and self._notice()

    @property
    def is_settling(self) -> bool:
        """Whether a connection that is accepted now may have been made during a stall."""
        return self.is_stalled() or self._settle_timer is not None

    @property
    def stalled_ago_s(self) -> float | None:
        """How long ago the last stall ended; None: there was none."""
        return None if self._last_stall_s is None else self.now_s() - self._last_stall_s

    def _beat(self) -> None:
        if not self.is_stalled():
            self._expect_beat()

    def _expect_beat(self) -> None:
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        self._limit_s = self.now_s() + self._stall_s_max
        self._beat_timer = self._loop.call_later(self._stall_s_max / _BEATS_PER_BOUND, self._beat)

    def _notice(self) -> bool:
        stall_s = self.now_s() - self._limit_s + self._stall_s_max
        self._limit_s = inf  # set until all callbacks are done: a `drop` callback may ask again
        self.stall_count += 1
        self._last_stall_s = self.now_s()
        _log.warning("loop_stalled", seconds=round(stall_s, 3))
        for drop in self._dropping:
            drop(stall_s)
        if self._settle_timer is not None:
            self._settle_timer.cancel()
        # A timer instead of a time: before the timer runs, the loop polls its sockets at least once.
        self._settle_timer = self._loop.call_later(_SETTLE_S, self._settled)
        self._expect_beat()
        return True

    def _settled(self) -> None:
        self._settle_timer = None
