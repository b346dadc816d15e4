"""The next wake-up of each of many groups: one heap, whose entries are never removed from the middle. Pure."""

from __future__ import annotations

import heapq
from typing import Final

from bmq.coordinator.runtime.moment import NEVER_MS

_STALE_MAX: Final = 64
"""Replaced wake-ups allowed in the heap, besides as many as there are groups."""


class WakeUps:
    """The earliest wake-up of each name counts."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._scheduled: dict[str, float] = {}

    @property
    def next_ms(self) -> float:
        """NEVER_MS: none is scheduled. May belong to a wake-up that was replaced or forgotten."""
        return self._heap[0][0] if self._heap else NEVER_MS

    def schedule(self, name: str, wake_ms: float) -> bool:
        """Wake `name` at `wake_ms`, or earlier if already scheduled so; returns whether this changed anything."""
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
        """The names to wake now; names that become due meanwhile wait for the event loop's next turn."""
        due = []
        while self._heap and self._heap[0][0] <= loop_ms:
            wake_ms, name = heapq.heappop(self._heap)
            if self._scheduled.get(name) == wake_ms:  # else an earlier wake-up replaced it
                del self._scheduled[name]
                due.append(name)
        return due
