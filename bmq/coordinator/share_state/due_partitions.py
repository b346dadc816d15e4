"""Finds the share partitions of a shard whose locks or back-offs have ended."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from bmq.coordinator.runtime.moment import NEVER_MS
from bmq.coordinator.share_state.partition import SharePartition

_HEAP_MIN: Final = 1_024


class DuePartitions:
    """A heap by the loop's clock, of share partitions that have locks or delays. A partition's `wake_ms` is its present entry;
    what it had before stays in the heap until it is due, or until such entries outweigh the rest.
    """

    __slots__ = ("_entries", "_entries_max", "_number")

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, SharePartition]] = []
        self._number = 0
        self._entries_max = _HEAP_MIN

    @property
    def next_ms(self) -> float:
        """NEVER_MS if there is none. The partition's own deadline may be later: locks end before they run out."""
        return self._entries[0][0] if self._entries else NEVER_MS

    def watch(self, partition: SharePartition) -> None:
        """The partition has other holds, or has been popped."""
        window = partition.window
        next_ms = NEVER_MS if window is None else window.holds.next_due_ms
        if next_ms >= partition.wake_ms:
            return
        partition.wake_ms = next_ms
        self._number += 1
        heappush(self._entries, (next_ms, self._number, partition))
        if len(self._entries) > self._entries_max:
            present = {entry[2]: entry for entry in self._entries if entry[0] == entry[2].wake_ms}
            self._entries = list(present.values())
            heapify(self._entries)
            self._entries_max = max(_HEAP_MIN, 2 * len(self._entries))

    def pop_due(self, now_ms: float) -> SharePartition | None:
        """A partition whose time has come; None: there is none. It has to be watched again."""
        while self.next_ms <= now_ms:
            at_ms, _, partition = heappop(self._entries)
            if at_ms == partition.wake_ms:
                partition.wake_ms = NEVER_MS
                return partition
        return None

    def clear(self) -> None:
        self._entries.clear()
