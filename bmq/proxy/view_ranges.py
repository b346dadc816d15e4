"""What views show of ranges of offsets, remembered: what one reader had filtered, the next has without the base's bytes.

Sorted by offset for each view and partition, so that a reader begins anywhere in a range; the least used go first. Below the high
watermark a log only changes by compaction: the caller asks whether that has passed a range. Decisions only.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from bmq.log.partition_log import TopicPartition
from bmq.proxy.view_answer import Piece
from bmq.views.batch_filter import EmptyRun

RANGE_BYTES_MAX: Final = 64 * 1024
"""Ranges that follow each other become one up to this size."""
_RANGE_BYTES: Final = 500
_PIECE_BYTES: Final = 250
"""What these take besides the bytes of batches."""

RangeKey = tuple[UUID, TopicPartition, int]
"""View, partition of the base, leader epoch of its log."""


class ViewRange:
    """What a view shows of the offsets [base_offset, next_offset), without gaps. `asked_s`: when the log was last asked how far it
    is compacted.
    """

    __slots__ = ("_ends", "asked_s", "base_offset", "pieces", "size_bytes")

    def __init__(self, base_offset: int, pieces: Sequence[Piece], asked_s: float) -> None:
        self.base_offset = base_offset
        self.asked_s = asked_s
        self.pieces: list[Piece] = []
        self._ends: list[int] = []
        self.size_bytes = _RANGE_BYTES
        for piece in pieces:
            self._append(piece)

    @property
    def next_offset(self) -> int:
        return self._ends[-1] if self._ends else self.base_offset

    def shown(self, offset: int, bound_offset: int) -> Iterator[Piece]:
        """From the piece that holds `offset` on; no batch ends past the bound, and runs are cut at both."""
        for number in range(bisect_right(self._ends, offset), len(self._ends)):
            piece = self.pieces[number]
            if isinstance(piece, EmptyRun):
                piece = piece._replace(
                    base_offset=max(piece.base_offset, offset), next_offset=min(piece.next_offset, bound_offset)
                )
                if piece.base_offset >= piece.next_offset:
                    return
            elif piece.next_offset > bound_offset:
                return
            yield piece

    def extend(self, following: ViewRange) -> None:
        """With the range that begins where this one ends."""
        for piece in following.pieces:
            self._append(piece)
        self.asked_s = min(self.asked_s, following.asked_s)

    def _append(self, piece: Piece) -> None:
        if isinstance(piece, EmptyRun) and self.pieces and isinstance(last := self.pieces[-1], EmptyRun):
            joined = last.joined(piece)
            if joined is not None:
                self.pieces[-1], self._ends[-1] = joined, joined.next_offset
                return
        self.pieces.append(piece)
        self._ends.append(piece.next_offset)
        self.size_bytes += _PIECE_BYTES + (0 if isinstance(piece, EmptyRun) else len(piece.data))


class ViewRanges:
    """One for a process. `bytes_max`: of all ranges together."""

    def __init__(self, bytes_max: int) -> None:
        self.used_bytes = 0
        self._bytes_max = bytes_max
        self._ranges: OrderedDict[tuple[RangeKey, int], ViewRange] = OrderedDict()
        self._begins: dict[RangeKey, list[int]] = {}

    def find(self, key: RangeKey, offset: int) -> ViewRange | None:
        """The range that holds this offset."""
        found = self._before(key, offset)
        if found is None or found.next_offset <= offset:
            return None
        self._ranges.move_to_end((key, found.base_offset))
        return found

    def put(self, key: RangeKey, news: ViewRange) -> None:
        """Remember a range, as part of the one in front of it if both are small."""
        before = self._before(key, news.base_offset)
        if before is not None and before.next_offset == news.base_offset:
            size_bytes = before.size_bytes
            if size_bytes + news.size_bytes <= RANGE_BYTES_MAX:
                before.extend(news)
                self.used_bytes += before.size_bytes - size_bytes
                self._ranges.move_to_end((key, before.base_offset))
                self._evict()
                return
        elif before is not None and before.base_offset == news.base_offset:
            if before.next_offset >= news.next_offset:
                return
            self.drop(key, before)
        insort(self._begins.setdefault(key, []), news.base_offset)
        self._ranges[key, news.base_offset] = news
        self.used_bytes += news.size_bytes
        self._evict()

    def drop(self, key: RangeKey, known: ViewRange) -> None:
        """It is of no more use."""
        del self._ranges[key, known.base_offset]
        self._forgotten(key, known)

    def _before(self, key: RangeKey, offset: int) -> ViewRange | None:
        begins = self._begins.get(key)
        place = bisect_right(begins, offset) if begins else 0
        return self._ranges[key, begins[place - 1]] if begins and place else None

    def _evict(self) -> None:
        while self.used_bytes > self._bytes_max:
            (key, _), oldest = self._ranges.popitem(last=False)
            self._forgotten(key, oldest)

    def _forgotten(self, key: RangeKey, known: ViewRange) -> None:
        self.used_bytes -= known.size_bytes
        begins = self._begins[key]
        del begins[bisect_right(begins, known.base_offset) - 1]
        if not begins:
            del self._begins[key]
