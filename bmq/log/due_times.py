"""The next time of each of many things, and which of them is due first. Pure."""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

K = TypeVar("K", int, str)

_REBUILD_MIN: Final = 1_000


class DueTimes(Generic[K]):
    """A heap in which the times of keys that were set anew, or forgotten, are left until they come up. Times in ms."""

    def __init__(self) -> None:
        self._times: dict[K, int] = {}
        self._heap: list[tuple[int, K]] = []

    @property
    def next_ms(self) -> int | None:
        """The earliest time; None without a key."""
        while self._heap:
            at_ms, key = self._heap[0]
            if self._times.get(key) == at_ms:
                return at_ms
            heapq.heappop(self._heap)
        return None

    def due(self, now_ms: int) -> K | None:
        """What `take` would take first; None: nothing is due."""
        at_ms = self.next_ms
        return None if at_ms is None or at_ms > now_ms else self._heap[0][1]

    def set(self, key: K, at_ms: int) -> None:
        """Give the key a time, in place of the one it has."""
        self._times[key] = at_ms
        heapq.heappush(self._heap, (at_ms, key))
        self._drop_stale()

    def forget(self, key: K) -> None:
        """Remove the key, if it is here."""
        self._times.pop(key, None)
        self._drop_stale()

    def _drop_stale(self) -> None:
        """Make the heap anew once most of it is stale."""
        if len(self._heap) > 2 * len(self._times) + _REBUILD_MIN:
            self._heap = [(at_ms, known) for known, at_ms in self._times.items()]
            heapq.heapify(self._heap)

    def take(self, now_ms: int, count_max: int, interval_ms: int) -> list[K]:
        """The first `count_max` keys whose times are due, the earliest first; their next times are in the future, whole intervals later.

        Times that were missed are not made up for.
        """
        times, heap = self._times, self._heap
        taken: list[K] = []
        while heap and len(taken) < count_max:
            at_ms, key = heap[0]
            if times.get(key) != at_ms:
                heapq.heappop(heap)
                continue
            if at_ms > now_ms:
                break
            times[key] = next_ms = at_ms + interval_ms * ((now_ms - at_ms) // interval_ms + 1)
            heapq.heapreplace(heap, (next_ms, key))
            taken.append(key)
        return taken
