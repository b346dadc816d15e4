"""The newest durable batches of every partition in memory, under one byte budget; tail reads are served from here.

A batch enters when it is acknowledged, so nothing at or past the high watermark is ever in here (rule 13). Each
partition keeps one unbroken run of offsets. When the budget is used up, the batches that entered first leave first.

Batches are kept as views of the receive buffer they came in; a buffer counts once, whole, for as long as one of its
batches is here. These arrive together and leave together, so little memory is wasted, and nothing is copied.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

_TRIM_ENTRIES_MIN: Final = 256
_ENTRY_OVERHEAD_BYTES: Final = 300  # cost of a view, its list entries and its offsets besides the bytes
_NOTHING: Final[tuple[memoryview, ...]] = ()
_EMPTY: Final = memoryview(b"")


class TailCache:
    """The budget all partitions share. `bytes_used` counts the retained receive buffers, whole."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self.hits = 0
        self.misses = 0
        self.evicted_bytes = 0
        self._order: deque[PartitionTail] = deque()  # one entry for each batch, oldest first
        self._pins: dict[int, int] = {}  # number of batches kept of a buffer, by the buffer's id

    def partition(self) -> PartitionTail:
        """An empty tail for a partition that begins to be written here."""
        return PartitionTail(self)

    def entered(self, tail: PartitionTail, buffer: Any) -> None:
        """A batch of `tail` in `buffer` was added: count it, and evict the oldest if over budget."""
        self._order.append(tail)
        pins, key = self._pins, id(buffer)
        kept = pins.get(key)
        if kept is None:
            pins[key] = 1
            self.bytes_used += _size_of(buffer) + _ENTRY_OVERHEAD_BYTES
        else:
            pins[key] = kept + 1
            self.bytes_used += _ENTRY_OVERHEAD_BYTES
        if self.bytes_used > self.bytes_max:
            self._shrink()

    def left(self, buffer: Any) -> None:
        """A batch in `buffer` is not kept any more."""
        pins, key = self._pins, id(buffer)
        kept = pins[key] - 1
        if kept:
            pins[key] = kept
            self.bytes_used -= _ENTRY_OVERHEAD_BYTES
        else:
            del pins[key]
            self.bytes_used -= _size_of(buffer) + _ENTRY_OVERHEAD_BYTES

    def _shrink(self) -> None:
        before = self.bytes_used
        order = self._order
        while self.bytes_used > self.bytes_max and order:
            order.popleft().evict_first()
        self.evicted_bytes += before - self.bytes_used


def _size_of(buffer: Any) -> int:
    return len(buffer) if isinstance(buffer, bytes | bytearray) else memoryview(buffer).nbytes


class PartitionTail:
    """One partition's run of batches: offsets in sorted lists, so that a reader finds its place by bisection.

    `_first` is the list index of the oldest batch still kept; the lists are trimmed now and then. `_gone` batches were
    removed other than by eviction and still have their entries in the cache's order.
    """

    __slots__ = ("_cache", "_ends", "_first", "_gone", "_positions", "_start", "_views")

    def __init__(self, cache: TailCache) -> None:
        self._cache = cache
        self._first = 0
        self._gone = 0
        self._start = 0  # base offset of the batch at _first
        self._ends: list[int] = []
        self._views: list[memoryview] = []
        self._positions: list[int] = []

    def __len__(self) -> int:
        return len(self._ends) - self._first

    @property
    def start_offset(self) -> int | None:
        """The first offset in memory; None when there is none."""
        return self._start if self._first < len(self._ends) else None

    def append(self, base_offset: int, end_offset: int, view: memoryview, position: int) -> None:
        """Keep a durable batch whose bytes, `view`, never change again; `position` is its place in its segment file."""
        ends = self._ends
        if self._first == len(ends):
            self._start = base_offset
        elif ends[-1] != base_offset:
            self.clear()
            self._start = base_offset
        ends.append(end_offset)
        self._views.append(view)
        self._positions.append(position)
        self._cache.entered(self, view.obj)

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
        return views[place:stop]

    def position_of(self, offset: int) -> int | None:
        """Where in its segment file the batch that holds `offset` begins; None when it is not in memory."""
        place = bisect_right(self._ends, offset, self._first)
        if place == len(self._ends) or (place == self._first and offset < self._start):
            return None
        return self._positions[place]

    def drop_below(self, offset: int) -> None:
        """Retention or DeleteRecords removed the batches that end at or below `offset`."""
        while self._first < len(self._ends) and self._ends[self._first] <= offset:
            self._drop_first()
            self._gone += 1
        self._trim()

    def evict_first(self) -> None:
        """Eviction has reached this partition's oldest entry in the cache's order."""
        if self._gone:
            self._gone -= 1
        else:
            self._drop_first()
            self._trim()

    def clear(self) -> None:
        """Let go of everything."""
        left = self._cache.left
        for view in self._views[self._first :]:
            left(view.obj)
        self._gone += len(self)
        self._first = 0
        self._ends.clear()
        self._views.clear()
        self._positions.clear()

    def _drop_first(self) -> None:
        first = self._first
        self._start = self._ends[first]
        self._cache.left(self._views[first].obj)
        self._views[first] = _EMPTY
        self._first = first + 1

    def _trim(self) -> None:
        first = self._first
        if first == len(self._ends) or (first >= _TRIM_ENTRIES_MIN and 2 * first > len(self._ends)):
            for entries in (self._ends, self._views, self._positions):
                del entries[:first]
            self._first = 0
