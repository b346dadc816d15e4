"""Segment indexes kept in memory, shared by all partitions of a process, least recently used first out, by bytes."""

from __future__ import annotations

from typing import Final

from cachetools import LRUCache

from bmq.log.segment_index import SegmentIndex

INDEX_CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
IndexKey = tuple[str, int, int]  # partition's directory, leader epoch, roll


class IndexCache:
    """Keeps about `bytes_max`, and always the newest index: one larger than the whole budget counts as `bytes_max`."""

    def __init__(self, bytes_max: int = INDEX_CACHE_BYTES_MAX) -> None:
        bytes_max = max(1, bytes_max)  # with 0 every index would count as 0 bytes, and any number would fit
        self._indexes: LRUCache[IndexKey, SegmentIndex] = LRUCache(
            bytes_max, getsizeof=lambda index: min(index.memory_bytes, bytes_max)
        )

    def __len__(self) -> int:
        return len(self._indexes)

    @property
    def held_bytes(self) -> float:
        return self._indexes.currsize

    def get(self, key: IndexKey) -> SegmentIndex | None:
        return self._indexes.get(key)

    def put(self, key: IndexKey, index: SegmentIndex) -> None:
        """The producer state is left out: readers do not need it."""
        self._indexes[key] = index.without_producers()

    def drop(self, key: IndexKey) -> None:
        self._indexes.pop(key, None)

    def drop_partition(self, partition_directory: str) -> None:
        """Forget the indexes of a partition that is no longer served here."""
        for key in [key for key in self._indexes if key[0] == partition_directory]:
            self.drop(key)
