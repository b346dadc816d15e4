"""The order in which partitions of a process are started, and when: those that somebody waits for first.

Starts run at once as far as `StartPace` allows. What starts left undone for later (indexes of what they had to read) waits
until no start does, so that it takes nothing from those.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final

from bmq.broker.metrics import PartitionCounts
from bmq.broker.start_pace import StartPace

LOOK_INTERVAL_S: Final = 0.05
LEFTOVERS_MAX: Final = 2
APPENDS_MIN: Final = 20
"""Of fewer appends it is not known what one takes."""


class StartQueue:
    """All calls come from one event loop, which runs when it is made. `counts`: of the process's appends."""

    def __init__(self, starts_max: int, counts: PartitionCounts) -> None:
        self._loop = asyncio.get_running_loop()
        self._pace = StartPace(starts_max)
        self._counts = counts
        self._running = 0
        self._awaited: dict[Hashable, asyncio.Future[None]] = {}  # in the order in which they came
        self._unasked: dict[Hashable, asyncio.Future[None]] = {}
        self._idle: asyncio.Future[None] | None = None
        self._leftovers = asyncio.Semaphore(LEFTOVERS_MAX)
        self._timer: asyncio.TimerHandle | None = None
        self._appends_before = (0, 0.0)

    @property
    def is_idle(self) -> bool:
        """Whether no start runs or waits."""
        return not self._running and not self._awaited and not self._unasked

    @asynccontextmanager
    async def slot(self, key: Hashable, *, is_awaited: bool) -> AsyncIterator[None]:
        """Runs its body when the start has its turn. `is_awaited`: somebody waits for it, so it passes those that nobody
        has asked for.
        """
        if self._running >= self._pace.allowed or self._awaited or (self._unasked and not is_awaited):
            await self._turn(key, is_awaited=is_awaited)
        else:
            self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._next()

    async def _turn(self, key: Hashable, *, is_awaited: bool) -> None:
        """Returns once it is this start's turn, which is counted as running then."""
        queue = self._awaited if is_awaited else self._unasked
        turn = queue[key] = self._loop.create_future()
        if self._timer is None:
            self._pace.begin(self._append_s())
            self._look_later()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._running -= 1
            self._awaited.pop(key, None)
            self._unasked.pop(key, None)
            self._next()
            raise

    def ask(self, key: Hashable) -> None:
        """Somebody waits for this start now."""
        turn = self._unasked.pop(key, None)
        if turn is not None:
            self._awaited[key] = turn

    def idle(self) -> asyncio.Future[None]:
        """Done once no start runs or waits, by the time of the call or later. Shared: not to be cancelled."""
        if self._idle is None or (self._idle.done() and not self.is_idle):
            self._idle = self._loop.create_future()
            self._tell_if_idle()
        return self._idle

    def leftover(self) -> asyncio.Semaphore:
        """Limits how much of what starts left undone is done at once."""
        return self._leftovers

    def _next(self) -> None:
        while self._running < self._pace.allowed and (queue := self._awaited or self._unasked):
            turn = queue.pop(next(iter(queue)))
            if not turn.done():
                self._running += 1
                turn.set_result(None)
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        if self._idle is not None and self.is_idle and not self._idle.done():
            self._idle.set_result(None)

    # --- the pace

    def _look_later(self) -> None:
        self._timer = self._loop.call_at(self._loop.time() + LOOK_INTERVAL_S, self._look, self._loop.time())

    def _look(self, begun_s: float) -> None:
        self._timer = None
        if not self._awaited and not self._unasked:
            self._pace.end()
            self._append_s()
            return
        self._pace.look(self._loop.time() - begun_s - LOOK_INTERVAL_S, self._append_s())
        self._next()
        self._look_later()

    def _append_s(self) -> float | None:
        """What an append took on average since the last call; None: there were too few."""
        count_before, sum_before_s = self._appends_before
        count, sum_s = self._counts.appends, self._counts.store_latency.sum_s
        if count - count_before < APPENDS_MIN:
            return None
        self._appends_before = count, sum_s
        return (sum_s - sum_before_s) / (count - count_before)
