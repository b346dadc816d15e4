"""A cache of what views show of ranges of offsets, so that later readers need neither the filter nor the base's bytes.

Ranges are sorted by offset for each view and partition, so that a reader may begin anywhere in one; the least recently used go
first. Below the high watermark a log changes only by compaction, and the caller checks whether that has passed a range. Decisions
only.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from bmq.log.partition_log import TopicPartition
from bmq.proxy.view_answer import BatchInFile, Piece, ViewBatch
from bmq.views.batch_filter import EmptyRun

RANGE_BYTES_MAX: Final = 64 * 1024
"""Neighbouring ranges are joined up to this size."""
COPIED_BYTES_MAX: Final = 4 * 1024
"""Neighbouring batches that pass as a whole are copied up to this size; longer ones are read again from the base."""
_RANGE_BYTES: Final = 500
_PIECE_BYTES: Final = 250
"""Memory of a cached piece besides its bytes."""

RangeKey = tuple[UUID, TopicPartition, int]
"""(view, partition of the base, leader epoch of its log)."""


class UnfilteredRange(NamedTuple):
    """All records of the base at [base_offset, next_offset) pass, so these offsets are read from the base."""

    base_offset: int
    next_offset: int


CachedPiece = EmptyRun | ViewBatch | UnfilteredRange
"""A cached piece: offsets without records, a batch, or offsets to be read from the base."""


def cached_pieces_of(pieces: Sequence[Piece], first_offset: int) -> list[CachedPiece]:
    """The cache's form of pieces that follow each other from `first_offset` on."""
    known: list[CachedPiece] = []
    for is_whole, some in groupby(pieces, _is_whole):
        group = list(some)
        if is_whole and sum(map(_bytes_of, group)) > COPIED_BYTES_MAX:
            known.append(UnfilteredRange(first_offset, group[-1].next_offset))
        else:
            # Copy the bytes: a view of the base would keep all of the base's buffer in memory.
            for one in group:
                assert not isinstance(one, BatchInFile), "a batch in a file is longer"
                known.append(ViewBatch(bytes(one.data), one.next_offset) if isinstance(one, ViewBatch) else one)
        first_offset = group[-1].next_offset
    return known


def copied_bytes(known: Iterable[CachedPiece]) -> int:
    return sum(len(one.data) for one in known if isinstance(one, ViewBatch))


def _is_whole(piece: Piece) -> bool:
    return isinstance(piece, BatchInFile) or (isinstance(piece, ViewBatch) and piece.is_whole)


def _bytes_of(piece: Piece) -> int:
    if isinstance(piece, BatchInFile):
        return piece.end - piece.begin
    return len(piece.data) if isinstance(piece, ViewBatch) else 0


class ViewRange:
    """What a view shows of all offsets in [base_offset, next_offset).

    `asked_s`: when the log was last asked how far it is compacted.
    """

    __slots__ = ("_ends", "asked_s", "base_offset", "pieces", "size_bytes")

    def __init__(self, base_offset: int, pieces: Sequence[CachedPiece], asked_s: float) -> None:
        self.base_offset = base_offset
        self.asked_s = asked_s
        self.pieces: list[CachedPiece] = []
        self._ends: list[int] = []
        self.size_bytes = _RANGE_BYTES
        for piece in pieces:
            self._append(piece)

    @property
    def next_offset(self) -> int:
        return self._ends[-1] if self._ends else self.base_offset

    def shown(self, offset: int, bound_offset: int) -> Iterator[CachedPiece]:
        """The pieces from the one that has `offset` on. No batch ends past the bound, and runs are cut at both offsets."""
        for number in range(bisect_right(self._ends, offset), len(self._ends)):
            piece = self.pieces[number]
            if not isinstance(piece, ViewBatch):
                piece = piece._replace(
                    base_offset=max(piece.base_offset, offset), next_offset=min(piece.next_offset, bound_offset)
                )
                if piece.base_offset >= piece.next_offset:
                    return
            elif piece.next_offset > bound_offset:
                return
            yield piece

    def extend(self, following: ViewRange) -> None:
        """Append the range that begins where this one ends."""
        for piece in following.pieces:
            self._append(piece)
        self.asked_s = min(self.asked_s, following.asked_s)

    def _append(self, piece: CachedPiece) -> None:
        joined = _joined(self.pieces[-1], piece) if self.pieces else None
        if joined is not None:
            self.pieces[-1], self._ends[-1] = joined, joined.next_offset
            return
        self.pieces.append(piece)
        self._ends.append(piece.next_offset)
        self.size_bytes += _PIECE_BYTES + (len(piece.data) if isinstance(piece, ViewBatch) else 0)


def _joined(one: CachedPiece, following: CachedPiece) -> CachedPiece | None:
    if isinstance(one, EmptyRun) and isinstance(following, EmptyRun):
        return one.joined(following)
    if isinstance(one, UnfilteredRange) and isinstance(following, UnfilteredRange):
        return UnfilteredRange(one.base_offset, following.next_offset)
    return None


class ViewRanges:
    """The cache of a process. `bytes_max`: most bytes of all ranges together."""

    def __init__(self, bytes_max: int) -> None:
        self.used_bytes = 0
        self._bytes_max = bytes_max
        self._ranges: OrderedDict[tuple[RangeKey, int], ViewRange] = OrderedDict()
        self._begins: dict[RangeKey, list[int]] = {}

    def find(self, key: RangeKey, offset: int) -> ViewRange | None:
        """The range that has this offset, or None."""
        found = self._before(key, offset)
        if found is None or found.next_offset <= offset:
            return None
        self._ranges.move_to_end((key, found.base_offset))
        return found

    def put(self, key: RangeKey, news: ViewRange) -> None:
        """Add a range, joined to the one in front of it if both are small."""
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
        """Remove a range."""
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
