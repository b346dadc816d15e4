"""A wall clock that stands still until it is moved."""

from __future__ import annotations


class FakeClock:
    """Implements bmq.log.clock.Clock."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        self._now_ms += by_ms
