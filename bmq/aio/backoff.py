"""Pauses between tries: short at first, doubling, with jitter so that many do not try together.

Two rivals that undo each other's tries need pauses that are as long as their tries: then one of them gets through a whole
try while the other waits.
"""

from __future__ import annotations

import asyncio
from random import Random


class Backoff:
    """One sequence of tries. `failures`: in a row so far. Without `random` there is no jitter.

    `tries_max`: a pause may take as long as so many tries: at random up to 1, 2, 4 ... of them.
    """

    __slots__ = ("_first_s", "_max_s", "_next_s", "_random", "_tries_max", "failures")

    def __init__(self, random: Random | None, *, first_s: float, max_s: float, tries_max: int = 0) -> None:
        self._random = random
        self._first_s = self._next_s = min(first_s, max_s)
        self._max_s = max_s
        self._tries_max = tries_max
        self.failures = 0

    def reset(self) -> None:
        """A try succeeded: the next failure begins with a short pause again."""
        self._next_s = self._first_s
        self.failures = 0

    def next_s(self, try_s: float = 0.0) -> float:
        """A try failed: the pause before the next one, in seconds. `try_s`: how long that try took."""
        pause_s, spread_s = self._next_s, try_s * min(1 << min(self.failures, 30), self._tries_max)
        self._next_s = min(self._next_s * 2, self._max_s)
        self.failures += 1
        if self._random is None:
            return max(pause_s, spread_s)
        pause_s *= self._random.uniform(0.5, 1.0)
        return max(pause_s, self._random.uniform(0, spread_s)) if self._tries_max else pause_s

    async def pause(self, try_s: float = 0.0) -> None:
        await asyncio.sleep(self.next_s(try_s))
