"""A wall clock that stands still until it is moved."""

from __future__ import annotations

import asyncio


class FakeClock:
    """Implements bmq.log.clock.Clock."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._slept_s = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def elapsed_s(self) -> float:
        """As the running loop's clock, but for the time that the machine slept."""
        return asyncio.get_running_loop().time() + self._slept_s

    def sleep(self, seconds: float) -> None:
        """The machine sleeps: its event loop's clock stands still."""
        self._now_ms += int(seconds * 1000)
        self._slept_s += seconds

    def advance(self, by_ms: int) -> None:
        self._now_ms += by_ms
