"""Batches as views and groups with lanes see them, remembered: what one reader had filtered, the next has without that.

One memory for a process, for the event loop alone. A key has all that an answer depends on.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from cachetools import LRUCache

from bmq.protocol.compression import Buffer

_ENTRY_BYTES: Final = 250
"""What a remembered batch takes besides its bytes."""


class AllOfIt(NamedTuple):
    """Every record of the batch passes."""


ALL_OF_IT: Final = AllOfIt()
Filtered = Buffer | AllOfIt
"""A whole batch in place of another one; no bytes: none of its records passes."""


class FilteredBatches:
    """The least used go first."""

    def __init__(self, bytes_max: int) -> None:
        self._batches: LRUCache[Hashable, Filtered] = LRUCache(bytes_max, _size)

    @property
    def used_bytes(self) -> int:
        return int(self._batches.currsize)

    def get(self, key: Hashable) -> Filtered | None:
        return self._batches.get(key)

    def put(self, key: Hashable, filtered: Filtered) -> None:
        """Remember it, unless it is longer than all of the memory."""
        if _size(filtered) <= self._batches.maxsize:
            self._batches[key] = filtered


def _size(filtered: Filtered) -> int:
    return _ENTRY_BYTES + (0 if isinstance(filtered, AllOfIt) else len(filtered))
