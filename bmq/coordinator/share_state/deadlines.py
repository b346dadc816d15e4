"""When locks of a shard run out and back-offs are over, for all its share partitions."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from bmq.coordinator.runtime.moment import NEVER_MS
from bmq.coordinator.share_state.partition import SharePartition
from bmq.coordinator.share_state.window import Delay, Lock

_HEAP_MIN: Final = 1_024


class Deadlines:
    """A heap by the loop's clock. What has ended meanwhile stays in it until it is due, or until it outweighs the rest."""

    __slots__ = ("_entries", "_entries_max", "_number")

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, SharePartition, Lock | Delay]] = []
        self._number = 0
        self._entries_max = _HEAP_MIN

    @property
    def next_ms(self) -> float:
        """NEVER_MS if there is none."""
        return self._entries[0][0] if self._entries else NEVER_MS

    def push(self, deadline_ms: float, partition: SharePartition, timed: Lock | Delay) -> None:
        self._number += 1
        heappush(self._entries, (deadline_ms, self._number, partition, timed))
        if len(self._entries) > self._entries_max:
            self._entries = [entry for entry in self._entries if entry[3].held]
            heapify(self._entries)
            self._entries_max = max(_HEAP_MIN, 2 * len(self._entries))

    def pop_due(self, now_ms: float) -> tuple[SharePartition, Lock | Delay] | None:
        """The earliest that is due; None: none is."""
        if self.next_ms > now_ms:
            return None
        _, _, partition, timed = heappop(self._entries)
        return partition, timed

    def clear(self) -> None:
        self._entries.clear()
