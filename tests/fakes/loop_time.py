"""The time of the running event loop, which stands still until a test moves it. Sockets, threads and files stay real.

The product waits by its loop's clock (`call_later`, `asyncio.timeout`, `asyncio.sleep`), so this is the clock that a test hands in
where there is a real connection. A test waits for what happens (a request that came, a connection that closed), and then moves
the time over the time-out that it is about:

    calling = asyncio.ensure_future(delete(connection, timeout_s=5))
    await server.received(1)
    await loop_time.pass_s(5)

A machine that stands still, or is busy, moves nothing here. What never happens is ended by the test's own limit of time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")

TURNS: Final = 20
"""What a timer sets off in this process has run after so many turns of the loop; what a socket brings may come later."""
LATE_S: Final = 1e-6
"""A timer runs so long after it was due, as no real one is early; sums of seconds differ by less."""


class LoopTime:
    """Made by `stopped`."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._now_s: float = loop.time()

    @classmethod
    @contextmanager
    def stopped(cls) -> Iterator[Self]:
        """The clock of the running loop, one of asyncio's own, stands still from here to the end of the block."""
        loop: Any = asyncio.get_running_loop()
        made = cls(loop)
        loop.time = made.now_s
        try:
            yield made
        finally:
            del loop.time

    def now_s(self) -> float:
        return self._now_s

    def jump(self, seconds: float) -> None:
        """As if this process had stood still: all timers that are due by then are late, and run in one turn."""
        self._now_s += seconds

    async def pass_s(self, seconds: float) -> None:
        """What was begun begins; then each timer that is due by then, also one that is set meanwhile, runs in time."""
        await self._settle()
        end_s = self._now_s + seconds
        while (due_s := self._next_due_s()) is not None and due_s <= end_s + LATE_S:
            self._now_s = max(self._now_s, due_s + LATE_S)
            await self._settle()
        self._now_s = max(self._now_s, end_s)
        await self._settle()

    async def result(self, awaitable: Awaitable[T], *, pauses_s_max: float) -> T:
        """Its result. Each timer that is due within `pauses_s_max` when it comes up runs at once; time-outs are to be longer."""
        waited = asyncio.ensure_future(awaitable)
        try:
            while not waited.done():
                due_s = self._next_due_s()
                if due_s is not None and due_s <= self._now_s + pauses_s_max + LATE_S:
                    self._now_s = max(self._now_s, due_s + LATE_S)
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            waited.cancel()
            await asyncio.wait((waited,))
            raise
        return waited.result()

    async def _settle(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def _next_due_s(self) -> float | None:
        return min((timer.when() for timer in self._loop._scheduled if not timer.cancelled()), default=None)
