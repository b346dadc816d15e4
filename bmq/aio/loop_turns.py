"""Turns of one event loop for all long work in it: of everything that waits, one part is done in each turn.

So however many clients send long requests at once, a turn of the loop is lengthened by one part of one of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Final, Protocol, TypeVar

T = TypeVar("T")


class Turns(Protocol):
    """The same as bmq.protocol.turns.Turns."""

    async def next(self) -> None: ...


class LoopTurns:
    """Implements bmq.protocol.turns.Turns: first come, first served."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_due = False

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    async def next(self) -> None:
        """Return in a later turn of the loop, alone among those who wait here."""
        turn = self._loop.create_future()
        self._waiting.append(turn)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._give)
        await turn

    def _give(self) -> None:
        """The woken task runs in the next turn, in which this method runs again."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else its task was cancelled
                turn.set_result(None)
                break
        self._is_due = bool(self._waiting)
        if self._is_due:
            self._loop.call_soon(self._give)


class NextTurns:
    """Turns for work that seldom has a like of it beside: each is simply the next turn of the loop."""

    async def next(self) -> None:
        await asyncio.sleep(0)


NEXT_TURNS: Final[Turns] = NextTurns()


async def run_in_turns(work: Generator[None, None, T], turns: Turns = NEXT_TURNS) -> T:
    """The result of a generator that yields where others may have their turn."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await turns.next()
