"""A cache of segment indexes for all partitions of a process, bounded by bytes; the least recently used one goes first."""

from __future__ import annotations

from typing import Final

from cachetools import LRUCache

from bmq.log.segment_index import SegmentIndex

INDEX_CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
IndexKey = tuple[str, int, int]  # partition's directory, leader epoch, roll


class IndexCache:
    """Keeps about `bytes_max` of indexes. The newest is always kept: an index above the budget counts as `bytes_max`."""

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
        """Add an index, without its producer state, which readers do not need."""
        self._indexes[key] = index.without_producers()

    def drop(self, key: IndexKey) -> None:
        self._indexes.pop(key, None)

    def drop_partition(self, partition_directory: str) -> None:
        """Forget the indexes of a partition that is no longer served here."""
        for key in [key for key in self._indexes if key[0] == partition_directory]:
            self.drop(key)
