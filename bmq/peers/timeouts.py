"""Many deadlines behind one timer: most requests are answered long before theirs, so a timer for each would be waste.

An entry whose request was answered is not searched for; it is dropped when it comes up, or when such entries outnumber
the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush
from typing import Final

_STALE_MAX: Final = 64
_RESOLUTION_S: Final = 0.001
"""Of uvloop's timers, which may fire by so much too early."""


class Timeouts:
    """`waiting`: the keys that are not answered yet; `expired(key, timeout_s)` has to take its key out of them."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, waiting: Collection[int], expired: Callable[[int, float], None]
    ) -> None:
        self._loop = loop
        self._waiting = waiting
        self._expired = expired
        self._deadlines: list[tuple[float, int, float]] = []  # a heap: when (seconds), key, timeout_s
        self._timer: asyncio.Handle | None = None
        self._timer_s = 0.0  # when it fires

    def __len__(self) -> int:
        """Entries kept, answered ones included."""
        return len(self._deadlines)

    def add(self, key: int, timeout_s: float) -> None:
        """`key` is to be answered within `timeout_s` seconds."""
        deadlines = self._deadlines
        if len(deadlines) > 2 * len(self._waiting) + _STALE_MAX:
            deadlines[:] = [entry for entry in deadlines if entry[1] in self._waiting]
            heapify(deadlines)
        deadline_s = self._loop.time() + timeout_s
        heappush(deadlines, (deadline_s, key, timeout_s))
        if self._timer is None or deadline_s < self._timer_s:
            self._set_timer(deadline_s)

    def close(self) -> None:
        """Nothing expires any more."""
        self._deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when_s, self._fire)
        self._timer_s = when_s

    def _fire(self) -> None:
        self._timer = None
        due_s = self._loop.time() + _RESOLUTION_S
        deadlines = self._deadlines
        while deadlines and (deadlines[0][0] <= due_s or deadlines[0][1] not in self._waiting):
            _, key, timeout_s = heappop(deadlines)
            if key in self._waiting:
                self._expired(key, timeout_s)
        if deadlines:
            self._set_timer(deadlines[0][0])
