"""Slows deliveries down while many more records are overdue than one of them takes, so that producers keep their latency.

Then the process makes one such delivery at a time, for a part of the time only while there are producers. A backlog that stays gets
more of the time, because records may come due faster than this part allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

BUSY_SHARE: Final = 0.25
DOUBLED_AFTER_S: Final = 20.0
PAUSE_MAX_S: Final = 0.5
CAUGHT_UP_AFTER_S: Final = 2.0
"""Without an overdue delivery for so long, the next one begins a new backlog."""
DELIVERY_BATCHES: Final = 2
"""A delivery appends an announcement and a batch."""


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
        self._lock = asyncio.Lock()
        self._began_s = 0.0
        self._ended_s = -CAUGHT_UP_AFTER_S

    @asynccontextmanager
    async def turn(self, *, is_overdue: bool) -> AsyncIterator[None]:
        """Make one delivery inside of it. `is_overdue`: more than one delivery of this partition is due."""
        if not is_overdue:
            yield
            return
        async with self._lock:
            began_s, appended = self._loop.time(), self._counts.appended_batches
            if began_s - self._ended_s >= CAUGHT_UP_AFTER_S:
                self._began_s = began_s
            yield
            ended_s = self._loop.time()
            if self._counts.appended_batches - appended > DELIVERY_BATCHES:
                rest = 1 / share_of_time(ended_s - self._began_s) - 1
                await asyncio.sleep(min(PAUSE_MAX_S, rest * (ended_s - began_s)))
            self._ended_s = self._loop.time()
