"""The newest durable batches of every partition in memory, under one byte budget: what tail reads are served from.

A batch enters when it is acknowledged, so nothing at or past the high watermark is ever in here (rule 13). Each
partition keeps one unbroken run of offsets. When the budget is used up, the partition that was touched longest ago
loses its oldest batches first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

_TRIM_ENTRIES_MIN: Final = 256
_ENTRY_OVERHEAD_BYTES: Final = 300  # what a view, its tuple and its offsets cost besides the bytes
_NOTHING: Final[tuple[memoryview, ...]] = ()


class TailCache:
    """The budget all partitions share. `bytes_used` counts what is retained, pinned receive buffers included."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self.hits = 0
        self.misses = 0
        self.evicted_bytes = 0
        self._warmth: OrderedDict[PartitionTail, None] = OrderedDict()  # coldest first

    def partition(self) -> PartitionTail:
        """An empty tail for a partition that begins to be written here."""
        return PartitionTail(self)

    def touch(self, tail: PartitionTail) -> None:
        self._warmth[tail] = None
        self._warmth.move_to_end(tail)

    def shrink(self) -> None:
        """Evict until the budget holds again."""
        while self.bytes_used > self.bytes_max and self._warmth:
            coldest = next(iter(self._warmth))
            self.evicted_bytes += coldest.drop_oldest(self.bytes_used - self.bytes_max)
            if not coldest:
                del self._warmth[coldest]

    def forget(self, tail: PartitionTail) -> None:
        self._warmth.pop(tail, None)


class PartitionTail:
    """One partition's run of batches: offsets in sorted lists, so that a reader finds its place by bisection.

    `_first` is the list index of the oldest batch that is left; the lists are trimmed now and then.
    """

    __slots__ = ("_cache", "_ends", "_first", "_positions", "_retained", "_start", "_views")

    def __init__(self, cache: TailCache) -> None:
        self._cache = cache
        self._first = 0
        self._start = 0  # base offset of the batch at _first
        self._ends: list[int] = []
        self._views: list[memoryview] = []
        self._positions: list[int] = []
        self._retained: list[int] = []

    def __len__(self) -> int:
        return len(self._ends) - self._first

    @property
    def start_offset(self) -> int | None:
        """The first offset in memory; None when there is none."""
        return self._start if self._first < len(self._ends) else None

    def append(self, base_offset: int, end_offset: int, view: memoryview, position: int) -> None:
        """Keep a durable batch whose bytes, `view`, never change again; `position` is its place in its segment file.

        A batch that is a small part of a big receive buffer is copied, or it would pin the whole buffer.
        """
        cache = self._cache
        ends = self._ends
        if self._first == len(ends):
            self._start = base_offset
        elif ends[-1] != base_offset:
            self.clear()
            self._start = base_offset
        size = view.nbytes
        owner = view.obj
        retained = memoryview(owner).nbytes if not isinstance(owner, bytes | bytearray) else len(owner)
        if retained > 2 * size:
            view = memoryview(bytes(view))
            retained = size
        retained += _ENTRY_OVERHEAD_BYTES
        self._ends.append(end_offset)
        self._views.append(view)
        self._positions.append(position)
        self._retained.append(retained)
        cache.touch(self)
        cache.bytes_used += retained
        if cache.bytes_used > cache.bytes_max:
            cache.shrink()

    def read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
        """As PartitionLog.tail_read."""
        if offset >= bound_offset:
            return _NOTHING
        ends = self._ends
        cache = self._cache
        place = bisect_right(ends, offset, self._first)
        if place == len(ends) or (place == self._first and offset < self._start):
            cache.misses += 1
            return None
        cache.hits += 1
        views = self._views
        size = views[place].nbytes
        if ends[place] > bound_offset:
            return _NOTHING
        stop = place + 1
        count = len(ends)
        while stop < count and ends[stop] <= bound_offset:
            size += views[stop].nbytes
            if size > length_bytes_max:
                break
            stop += 1
        cache.touch(self)
        return views[place:stop]

    def position_of(self, offset: int) -> int | None:
        """Where in its segment file the batch that holds `offset` begins; None when it is not in memory."""
        place = bisect_right(self._ends, offset, self._first)
        if place == len(self._ends) or (place == self._first and offset < self._start):
            return None
        return self._positions[place]

    def drop_below(self, offset: int) -> None:
        """Retention or DeleteRecords removed what ends at or below `offset`."""
        while self._first < len(self._ends) and self._ends[self._first] <= offset:
            self._drop_first()
        self._trim()

    def drop_oldest(self, bytes_wanted: int) -> int:
        """Let go of at least this many bytes, or of everything; how many it were."""
        dropped = 0
        while dropped < bytes_wanted and self._first < len(self._ends):
            dropped += self._drop_first()
        self._trim()
        return dropped

    def clear(self) -> None:
        """Let go of everything."""
        self._cache.bytes_used -= sum(self._retained[self._first :])
        self._cache.forget(self)
        self._first = 0
        self._ends.clear()
        self._views.clear()
        self._positions.clear()
        self._retained.clear()

    def _drop_first(self) -> int:
        first = self._first
        retained = self._retained[first]
        self._start = self._ends[first]
        self._views[first] = memoryview(b"")
        self._first = first + 1
        self._cache.bytes_used -= retained
        return retained

    def _trim(self) -> None:
        first = self._first
        if first == len(self._ends) or (first >= _TRIM_ENTRIES_MIN and 2 * first > len(self._ends)):
            for entries in (self._ends, self._views, self._positions, self._retained):
                del entries[:first]
            self._first = 0
