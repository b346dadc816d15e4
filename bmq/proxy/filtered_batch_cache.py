"""A cache of filtered batches of views and of groups with lanes, so that many readers filter a batch once.

A process has one cache; only its event loop uses it. A key has everything that a result depends on.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from cachetools import LRUCache

from bmq.protocol.compression import Buffer

_ENTRY_BYTES: Final = 250
"""Memory of a cached batch besides its bytes."""


class AllPass(NamedTuple):
    """The result for a batch of which every record passes."""


ALL_PASS: Final = AllPass()
Filtered = Buffer | AllPass
"""The result of filtering a batch: the batch that replaces it, b"" if no record passes, or AllPass."""


class FilteredBatchCache:
    """The cache. The least recently used results are dropped first."""

    def __init__(self, bytes_max: int) -> None:
        self._batches: LRUCache[Hashable, Filtered] = LRUCache(bytes_max, _size)

    @property
    def used_bytes(self) -> int:
        return int(self._batches.currsize)

    def get(self, key: Hashable) -> Filtered | None:
        return self._batches.get(key)

    def put(self, key: Hashable, filtered: Filtered) -> None:
        """Add a result, unless it is longer than the whole cache."""
        if _size(filtered) <= self._batches.maxsize:
            self._batches[key] = filtered


def _size(filtered: Filtered) -> int:
    return _ENTRY_BYTES + (0 if isinstance(filtered, AllPass) else len(filtered))
