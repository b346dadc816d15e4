"""When each of many groups wants to be looked at next: one heap, from which nothing is ever taken out of the middle."""

from __future__ import annotations

import heapq
from typing import Final

from bmq.coordinator.member import NEVER_MS

_STALE_MAX: Final = 64
"""Wake-ups that an earlier one replaced, beside as many as there are groups."""


class WakeUps:
    """Of each name the earliest wake-up counts."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._scheduled: dict[str, float] = {}

    @property
    def next_ms(self) -> float:
        """NEVER_MS: nobody wants any. It may be that of a name whose wake-up was replaced or forgotten."""
        return self._heap[0][0] if self._heap else NEVER_MS

    def schedule(self, name: str, wake_ms: float) -> bool:
        """Wake `name` at `wake_ms`, or before if it was to be; whether that is news."""
        if wake_ms >= self._scheduled.get(name, NEVER_MS):
            return False
        self._scheduled[name] = wake_ms
        if len(self._heap) > 2 * len(self._scheduled) + _STALE_MAX:
            self._heap = [(at_ms, scheduled) for scheduled, at_ms in self._scheduled.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (wake_ms, name))
        return True

    def forget(self, name: str) -> None:
        self._scheduled.pop(name, None)

    def due(self, loop_ms: float) -> list[str]:
        """The names to be woken now; what becomes due meanwhile has its turn after the event loop's others."""
        due = []
        while self._heap and self._heap[0][0] <= loop_ms:
            wake_ms, name = heapq.heappop(self._heap)
            if self._scheduled.get(name) == wake_ms:  # else an earlier one took its place
                del self._scheduled[name]
                due.append(name)
        return due
