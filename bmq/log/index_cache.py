"""Segment indexes kept in memory, shared by all partitions of a process, least recently used first out, by bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from bmq.log.segment_index import SegmentIndex

INDEX_CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
IndexKey = tuple[str, int, int]  # partition's directory, leader epoch, roll


class IndexCache:
    """At most about `bytes_max`, but always the newest one."""

    def __init__(self, bytes_max: int = INDEX_CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._indexes: OrderedDict[IndexKey, SegmentIndex] = OrderedDict()
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._indexes)

    def get(self, key: IndexKey) -> SegmentIndex | None:
        index = self._indexes.get(key)
        if index is not None:
            self._indexes.move_to_end(key)
        return index

    def put(self, key: IndexKey, index: SegmentIndex) -> None:
        """The producer state is left out: nobody who reads needs it."""
        self.drop(key)
        kept = index.without_producers()
        self._indexes[key] = kept
        self.held_bytes += kept.memory_bytes
        while self.held_bytes > self._bytes_max and len(self._indexes) > 1:
            _, oldest = self._indexes.popitem(last=False)
            self.held_bytes -= oldest.memory_bytes

    def drop(self, key: IndexKey) -> None:
        index = self._indexes.pop(key, None)
        if index is not None:
            self.held_bytes -= index.memory_bytes

    def drop_partition(self, partition_directory: str) -> None:
        """Forget everything of a partition that is served here no more."""
        for key in [key for key in self._indexes if key[0] == partition_directory]:
            self.drop(key)
