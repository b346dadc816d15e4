"""Slows deliveries down while records are overdue, so that producers keep their latency.

Beside producers a process makes one overdue delivery at a time, for a part of the time only. A backlog that stays gets more of the
time and in the end all of it, because records may come due faster than this part allows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

BUSY_SHARE: Final = 0.25
DOUBLED_AFTER_S: Final = 20.0
PAUSE_MAX_S: Final = 0.5
HOLD_MAX_S: Final = 1.0
"""A delivery that takes longer, with its pause, lets the next one begin."""
CAUGHT_UP_AFTER_S: Final = 2.0
"""Without an overdue delivery for so many seconds, the next one begins a new backlog."""
PRODUCERS_SEEN_S: Final = 1.0
"""Producers count as there for so many seconds after their last batch."""
DELIVERY_BATCHES: Final = 2
"""A delivery appends an announcement and a batch."""
_ANY_NUMBER: Final = 1 << 30


class AppendCounts(Protocol):
    appended_batches: int


def share_of_time(behind_s: float) -> float:
    """`behind_s`: for how long there have been overdue records."""
    return min(1.0, BUSY_SHARE * float(1 << int(min(behind_s / DOUBLED_AFTER_S, 64.0))))


class OverduePace:
    """One for a process."""

    def __init__(self, counts: AppendCounts) -> None:
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._delivered_batches = 0
        self._others_batches_max = 0
        self._producers_until_s = 0.0
        self._began_s = 0.0  # of the backlog
        self._ended_s = -CAUGHT_UP_AFTER_S  # of the last overdue delivery
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def delivered(self) -> None:
        """A delivery is in the log, an overdue one or not: its batches are no producer's."""
        self._delivered_batches += DELIVERY_BATCHES

    @asynccontextmanager
    async def turn(self, *, is_overdue: bool) -> AsyncIterator[None]:
        """Make one delivery inside of it. `is_overdue`: the last one of this partition left overdue records behind."""
        if not is_overdue:
            yield
            return
        await self._enter()
        is_held = True

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._running -= 1
                self._wake()

        releasing = self._loop.call_later(HOLD_MAX_S, release)
        try:
            began_s = self._loop.time()
            if began_s - self._ended_s >= CAUGHT_UP_AFTER_S:
                self._began_s = began_s
            yield
            ended_s = self._loop.time()
            self._note_producers(ended_s)
            if ended_s < self._producers_until_s:
                rest = 1 / share_of_time(ended_s - self._began_s) - 1
                await asyncio.sleep(min(PAUSE_MAX_S, rest * (ended_s - began_s)))
        finally:
            self._ended_s = self._loop.time()
            releasing.cancel()
            release()

    def _note_producers(self, now_s: float) -> None:
        """What deliveries in flight have appended, and not yet reported, is taken for a producer's at most once."""
        others = self._counts.appended_batches - self._delivered_batches
        if others > self._others_batches_max:
            self._others_batches_max, self._producers_until_s = others, now_s + PRODUCERS_SEEN_S

    def _places(self) -> int:
        now_s = self._loop.time()
        if now_s >= self._producers_until_s:
            return _ANY_NUMBER
        share = share_of_time(now_s - self._began_s)
        return _ANY_NUMBER if share == 1 else int(share / BUSY_SHARE)

    async def _enter(self) -> None:
        while self._running >= self._places():
            waiting = self._loop.create_future()
            self._waiting.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting.done() and not waiting.cancelled():
                    self._wake()
                raise
        self._running += 1

    def _wake(self) -> None:
        room = self._places() - self._running
        while self._waiting and room > 0:
            waiting = self._waiting.popleft()
            if not waiting.done():  # else its task was cancelled
                waiting.set_result(None)
                room -= 1
