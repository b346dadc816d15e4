"""The order in which partitions of a process are started, and when: those that callers wait for come first.

Starts run at once as far as `StartPace` allows. One that lasts longer than START_SLOW_S (for a lease, or a store that does
not answer) waits more than it works, so it is not counted and another one may begin. While a caller waits for one that
runs, no start that nobody waits for makes more than STARTS_AT_FIRST: each start that runs beside it makes it longer, and
after the end of a node there are dozens of empty shards that nobody misses. Work that starts leave for later
(indexes of what they had to read) waits until no start does, so that it takes nothing from those, and is done with rests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from math import inf
from typing import Final

from bmq.aio.duty_pauses import pause_after
from bmq.broker.metrics import PartitionCounts
from bmq.broker.start_pace import STARTS_AT_FIRST, StartPace

ADJUST_INTERVAL_S: Final = 0.05
START_SLOW_S: Final = 1.0
LEFTOVERS_MAX: Final = 1
LEFTOVERS_SHARE: Final = 1 / 3
"""Share of the time in which leftovers are written. No client waits for them, and other partitions have traffic."""
LEFTOVERS_REST_MAX_S: Final = 1.0
APPENDS_MIN: Final = 20
"""Of fewer appends it is not known what one takes."""
QUIET_S: Final = 0.5
"""After so long without the end of any append nobody is taken to append."""


class StartQueue:
    """All calls come from one event loop, which runs when it is made. `counts`: of the process's appends."""

    def __init__(self, starts_max: int, counts: PartitionCounts) -> None:
        self._loop = asyncio.get_running_loop()
        self._pace = StartPace(starts_max)
        self._counts = counts
        self._starts_max = starts_max
        self._running: dict[Hashable, float] = {}  # when each began, the oldest first
        self._missed: set[Hashable] = set()  # those of them that callers wait for
        self._paced: dict[Hashable, asyncio.Future[None]] = {}  # in the order in which they came
        self._awaited: dict[Hashable, asyncio.Future[None]] = {}
        self._unasked: dict[Hashable, asyncio.Future[None]] = {}
        self._idle: asyncio.Future[None] | None = None
        self.leftovers = asyncio.Semaphore(LEFTOVERS_MAX)
        """Limits how much of what starts left undone is done at once. Held for one try: the store may fail for long."""
        self._timer: asyncio.TimerHandle | None = None
        self._appends_before = (0, 0.0)
        self._appends_seen = (0, -inf)  # how many, and when that was new

    @property
    def is_idle(self) -> bool:
        """Whether no start runs or waits."""
        return not self._running and not self.waiting_count

    @property
    def waiting_count(self) -> int:
        """How many starts wait for their turn."""
        return len(self._paced) + len(self._awaited) + len(self._unasked)

    @asynccontextmanager
    async def slot(self, key: Hashable, *, is_awaited: bool, is_paced: bool = False) -> AsyncIterator[None]:
        """Runs its body when the start has its turn. `is_awaited`: somebody waits for it, so it passes those that nobody
        has asked for. `is_paced`: the controller hands partitions over only as fast as they are started, so it begins
        first, while fewer than `starts_max` run.
        """
        queue = self._paced if is_paced else self._awaited if is_awaited else self._unasked
        if self._must_wait(queue):
            await self._turn(key, queue)
        else:
            self._begin(key, is_missed=queue is not self._unasked)
        try:
            yield
        finally:
            self._end(key)
            self._next()

    def _begin(self, key: Hashable, *, is_missed: bool) -> None:
        self._running[key] = self._loop.time()
        if is_missed:
            self._missed.add(key)

    def _end(self, key: Hashable) -> None:
        del self._running[key]
        self._missed.discard(key)

    @property
    def _is_full(self) -> bool:
        count = len(self._running)
        if count < self._pace.allowed or count >= self._starts_max:
            return count >= self._starts_max
        return len(self._quick()) >= self._pace.allowed

    def _quick(self) -> set[Hashable]:
        """The starts that have not lasted long."""
        slow_since_s = self._loop.time() - START_SLOW_S
        return {key for key, began_s in self._running.items() if began_s > slow_since_s}

    def _would_delay(self) -> bool:
        """Whether a start that nobody waits for would take time from one that a caller waits for."""
        quick = self._quick()
        return len(quick) >= STARTS_AT_FIRST and not quick.isdisjoint(self._missed)

    def _must_wait(self, queue: dict[Hashable, asyncio.Future[None]]) -> bool:
        if queue is self._paced:
            return bool(queue) or len(self._running) >= self._starts_max
        if self._is_full or self._paced or self._awaited:
            return True
        return queue is self._unasked and (bool(queue) or self._would_delay())

    async def _turn(self, key: Hashable, queue: dict[Hashable, asyncio.Future[None]]) -> None:
        """Returns once it is this start's turn; it counts as running then."""
        turn = queue[key] = self._loop.create_future()
        if self._timer is None:
            self._pace.begin(self._append_s())
            self._adjust_later()
        try:
            await turn
        except asyncio.CancelledError:
            if key in self._running:
                self._end(key)
            for waiting in (self._paced, self._awaited, self._unasked):
                waiting.pop(key, None)
            self._next()
            raise

    def ask(self, key: Hashable) -> None:
        """A caller waits for this start now."""
        turn = self._unasked.pop(key, None)
        if turn is not None:
            self._awaited[key] = turn
            self._next()
        elif key in self._running:
            self._missed.add(key)

    def idle(self) -> asyncio.Future[None]:
        """Done once no start runs or waits, by the time of the call or later. Shared: not to be cancelled."""
        if self._idle is None or (self._idle.done() and not self.is_idle):
            self._idle = self._loop.create_future()
            self._tell_if_idle()
        return self._idle

    def leftover_done(self, began_s: float) -> None:
        """Give back a turn of `leftovers` that was taken at that time, after a rest."""
        rest_s = pause_after(self._loop.time() - began_s, LEFTOVERS_SHARE, LEFTOVERS_REST_MAX_S)
        self._loop.call_later(rest_s, self.leftovers.release)

    def _next(self) -> None:
        while self._paced and len(self._running) < self._starts_max:
            self._begin_first(self._paced)
        while not self._is_full:
            queue = self._awaited or self._unasked
            if not queue or (queue is self._unasked and self._would_delay()):
                break
            self._begin_first(queue)
        self._tell_if_idle()

    def _begin_first(self, queue: dict[Hashable, asyncio.Future[None]]) -> None:
        key = next(iter(queue))
        turn = queue.pop(key)
        if not turn.done():
            self._begin(key, is_missed=queue is not self._unasked)
            turn.set_result(None)

    def _tell_if_idle(self) -> None:
        if self._idle is not None and self.is_idle and not self._idle.done():
            self._idle.set_result(None)

    # --- the pace

    def _adjust_later(self) -> None:
        self._timer = self._loop.call_at(self._loop.time() + ADJUST_INTERVAL_S, self._adjust_pace, self._loop.time())

    def _adjust_pace(self, begun_s: float) -> None:
        self._timer = None
        if not self.waiting_count:
            self._pace.end()
            self._append_s()
            return
        late_s = self._loop.time() - begun_s - ADJUST_INTERVAL_S
        self._pace.adjust(late_s, self._append_s(), is_quiet=self._is_quiet())
        self._next()
        self._adjust_later()

    def _is_quiet(self) -> bool:
        now_s, (count, since_s) = self._loop.time(), self._appends_seen
        if self._counts.appends != count:
            self._appends_seen = self._counts.appends, now_s
            return False
        return now_s - since_s >= QUIET_S

    def _append_s(self) -> float | None:
        """What an append took on average since the last call; None: there were too few."""
        count_before, sum_before_s = self._appends_before
        count, sum_s = self._counts.appends, self._counts.store_latency.sum_s
        if count - count_before < APPENDS_MIN:
            return None
        self._appends_before = count, sum_s
        return (sum_s - sum_before_s) / (count - count_before)
