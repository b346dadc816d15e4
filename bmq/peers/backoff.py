"""Pauses between tries: short at first, doubling, with jitter so that many nodes do not try together."""

from __future__ import annotations

import asyncio
from random import Random


class Backoff:
    """One sequence of tries."""

    def __init__(self, random: Random, *, min_ms: int, max_ms: int) -> None:
        self._random = random
        self._min_s = min_ms / 1000
        self._max_s = max_ms / 1000
        self._next_s = self._min_s

    def reset(self) -> None:
        """It worked: the next failure begins with a short pause again."""
        self._next_s = self._min_s

    def next_s(self) -> float:
        """The pause before the next try, in seconds."""
        pause_s = self._next_s * self._random.uniform(0.5, 1.0)
        self._next_s = min(self._next_s * 2, self._max_s)
        return pause_s

    async def pause(self) -> None:
        await asyncio.sleep(self.next_s())
