"""Pauses between tries: short at first, doubling, with jitter so that many do not try together."""

from __future__ import annotations

import asyncio
from random import Random


class Backoff:
    """One sequence of tries. `failures`: in a row so far. Without `random` there is no jitter."""

    __slots__ = ("_first_s", "_max_s", "_next_s", "_random", "failures")

    def __init__(self, random: Random | None, *, first_s: float, max_s: float) -> None:
        self._random = random
        self._first_s = self._next_s = min(first_s, max_s)
        self._max_s = max_s
        self.failures = 0

    def reset(self) -> None:
        """A try succeeded: the next failure begins with a short pause again."""
        self._next_s = self._first_s
        self.failures = 0

    def next_s(self) -> float:
        """A try failed: the pause before the next one, in seconds."""
        pause_s = self._next_s
        self._next_s = min(self._next_s * 2, self._max_s)
        self.failures += 1
        return pause_s if self._random is None else pause_s * self._random.uniform(0.5, 1.0)

    async def pause(self) -> None:
        await asyncio.sleep(self.next_s())
