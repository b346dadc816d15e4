"""What each task reads: offset ranges of one partition, and where their records are. Pure.

A range [start, end) is cut into parts at offsets, and each part is covered with pieces: batches of closed files, read
from the store, and for the rest, reads through a proxy. Every offset is in exactly one piece, whatever the indexes say:
an index only tells which bytes of a file to read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from itertools import pairwise
from math import ceil
from typing import Final

from bmq.log.aborted_transactions import AbortedEntry, AbortedTransactions
from bmq.log.segment_index import SegmentIndex

ENTRY_BYTES_MIN: Final = 1 << 20
"""Index entries closer together than this are dropped: a read begins at most this much too early."""


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Offsets [first_offset, end_offset), contained in bytes [position, end_position) of a closed file.

    Both positions are starts of batches (or padding, or the end of the valid bytes). `path`: the file's path when this
    was planned; sealing its epoch's directory renames it.
    """

    path: str
    file_id: int
    position: int
    end_position: int
    first_offset: int
    end_offset: int

    @property
    def size_bytes(self) -> int:
        """Bytes read from the file."""
        return self.end_position - self.position


@dataclass(frozen=True, slots=True)
class ProxyPiece:
    """Offsets [first_offset, end_offset), to be fetched from a proxy; `size_bytes` is an estimate."""

    first_offset: int
    end_offset: int
    size_bytes: int = 0


Piece = FilePiece | ProxyPiece


@dataclass(frozen=True, slots=True)
class RangeToRead:
    """The work of one task: offsets [start_offset, end_offset) of a partition, in consecutive pieces.

    `aborted`: the aborted transactions that overlap its file pieces, if only committed records are wanted.
    """

    topic: str
    topic_id: str
    partition: int
    start_offset: int
    end_offset: int
    pieces: tuple[Piece, ...]
    aborted: tuple[AbortedEntry, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class ClosedSegment:
    """Offsets [base_offset, end_offset) in bytes [0, valid_bytes) of a closed file.

    `offsets` and `positions`: thinned entries of its index; without any, it is read from its start.
    """

    path: str
    file_id: int
    base_offset: int
    end_offset: int
    valid_bytes: int
    offsets: array[int]
    positions: array[int]

    def piece(self, first_offset: int, end_offset: int) -> FilePiece:
        """The piece for offsets within this segment."""
        first = bisect_right(self.offsets, first_offset) - 1
        behind = bisect_left(self.offsets, end_offset)
        is_rest = end_offset >= self.end_offset or behind == len(self.offsets)
        return FilePiece(
            self.path,
            self.file_id,
            self.positions[first] if first >= 0 else 0,
            self.valid_bytes if is_rest else self.positions[behind],
            first_offset,
            end_offset,
        )

    def offset_at(self, position: int) -> int:
        """The first offset of a batch at or after this byte, as far as the index knows."""
        place = bisect_left(self.positions, position)
        return self.offsets[place] if place < len(self.offsets) else self.end_offset


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """A partition's closed segments in log order, and what is needed to read them.

    `decided_offset`: from here on the files do not show which transactions were aborted, so committed records have to
    be read through a proxy. `open_bytes`: estimated bytes after the last closed segment.
    """

    topic: str
    topic_id: str
    partition: int
    segments: tuple[ClosedSegment, ...] = ()
    decided_offset: int = (1 << 63) - 1
    open_bytes: int = 0
    aborted: AbortedTransactions | None = None


def closed_segment(
    path: str, index: SegmentIndex | None, file_id: int, base_offset: int, end_offset: int, valid_bytes: int
) -> ClosedSegment:
    """A segment with its thinned index entries; none if the index is unknown."""
    offsets, positions = array("q"), array("q")
    if index is not None:
        place = 0
        while place < len(index.positions):
            offsets.append(index.offsets[place])
            positions.append(index.positions[place])
            place = bisect_left(index.positions, index.positions[place] + ENTRY_BYTES_MIN)
    return ClosedSegment(path, file_id, base_offset, end_offset, valid_bytes, offsets, positions)


def needs_index(
    base_offset: int, end_offset: int, valid_bytes: int, *, start: int, end: int, bytes_per_partition: int
) -> bool:
    """Whether a segment with these offsets has to be cut to read [start, end)."""
    is_whole = start <= base_offset and end_offset <= end
    is_small = valid_bytes <= (bytes_per_partition // 2 if is_whole else ENTRY_BYTES_MIN)
    return not is_small and base_offset < end and end_offset > start


def cover(snapshot: PartitionSnapshot, start: int, end: int) -> tuple[Piece, ...]:
    """Consecutive pieces that contain each offset of [start, end) once."""
    pieces: list[Piece] = []
    at = start
    for segment in snapshot.segments:
        segment_end = min(segment.end_offset, snapshot.decided_offset, end)
        if segment_end <= at or segment.base_offset >= segment_end:
            continue
        if segment.base_offset > at:
            pieces.append(ProxyPiece(at, segment.base_offset))
            at = segment.base_offset
        pieces.append(segment.piece(at, segment_end))
        at = segment_end
    if at < end:
        pieces.append(ProxyPiece(at, end, snapshot.open_bytes))
    return tuple(pieces)


def cut_by_bytes(snapshot: PartitionSnapshot, start: int, end: int, count: int) -> list[int]:
    """Offsets within (start, end) that cut it into at most `count` parts of about equally many bytes.

    Files are cut at index entries, proxy reads anywhere.
    """
    pieces = cover(snapshot, start, end)
    total_bytes = sum(piece.size_bytes for piece in pieces)
    count = min(count, end - start)
    if count < 2:
        return []
    if not total_bytes:
        return cut_by_offsets(start, end, count)
    cuts = [offset_after(snapshot, pieces, total_bytes * number // count) for number in range(1, count)]
    return sorted({cut for cut in cuts if start < cut < end})


def cut_further(
    parts: Sequence[tuple[PartitionSnapshot, int, int]], count: int
) -> list[tuple[PartitionSnapshot, int, int]]:
    """`count` parts of these ranges, or one per offset if there are fewer: the largest are cut at offsets first."""
    sizes = [(sum(piece.size_bytes for piece in cover(*one)), one[2] - one[1]) for one in parts]
    heap = [(-size, -offsets, place, 1) for place, (size, offsets) in enumerate(sizes) if offsets > 1]
    heapify(heap)
    counts = [1] * len(parts)
    for _ in range(count - len(parts)):
        if not heap:
            break
        place, cut_into = heap[0][2], heap[0][3] + 1
        counts[place] = cut_into
        size, offsets = sizes[place]
        if cut_into < offsets:
            heapreplace(heap, (-size // cut_into, -offsets // cut_into, place, cut_into))
        else:
            heappop(heap)
    return [
        (snapshot, first, last)
        for (snapshot, start, end), cut_into in zip(parts, counts, strict=True)
        for first, last in pairwise((start, *cut_by_offsets(start, end, cut_into), end))
    ]


def cut_by_offsets(start: int, end: int, count: int) -> list[int]:
    """Offsets that cut [start, end) into `count` parts of equally many offsets, or one per offset if it has fewer."""
    count = min(count, end - start)
    cuts = {start + (end - start) * number // count for number in range(1, count)}
    return sorted(cut for cut in cuts if start < cut < end)


def offset_after(snapshot: PartitionSnapshot, pieces: Sequence[Piece], size_bytes: int) -> int:
    """The offset reached after reading this many bytes of the pieces, exact to an index entry."""
    segments = {segment.path: segment for segment in snapshot.segments}
    for piece in pieces:
        if size_bytes >= piece.size_bytes:
            size_bytes -= piece.size_bytes
            continue
        if isinstance(piece, FilePiece):
            found = segments[piece.path].offset_at(piece.position + size_bytes)
        else:
            found = piece.first_offset + (piece.end_offset - piece.first_offset) * size_bytes // piece.size_bytes
        return min(max(found, piece.first_offset), piece.end_offset)
    return pieces[-1].end_offset if pieces else 0


def plan(
    wanted: Iterable[tuple[PartitionSnapshot, int, int]],
    *,
    bytes_per_partition: int,
    records_per_partition: int | None = None,
    min_partitions: int = 1,
) -> list[RangeToRead]:
    """The tasks for the partitions' ranges [start, end): parts of about `bytes_per_partition`.

    No part has more than `records_per_partition` offsets. If there would be fewer parts than `min_partitions`, all are
    made smaller, in proportion to their bytes (or their offsets if bytes are unknown), to get that number or somewhat
    more, as far as there are offsets. Where the index has too few entries, tasks then read the same bytes.
    """
    ranges = [(snapshot, start, end) for snapshot, start, end in wanted if start < end]
    sizes = [sum(piece.size_bytes for piece in cover(*one)) for one in ranges]
    counts = [max(1, ceil(size / bytes_per_partition)) for size in sizes]
    if sum(counts) < min_partitions:
        weights = sizes if sum(sizes) else [end - start for _, start, end in ranges]
        whole = sum(weights) or 1
        counts = [
            max(count, ceil(min_partitions * weight / whole)) for count, weight in zip(counts, weights, strict=True)
        ]
    parts = [
        (snapshot, first, last)
        for (snapshot, start, end), count in zip(ranges, counts, strict=True)
        for first, last in pairwise((start, *cut_by_bytes(snapshot, start, end, count), end))
    ]
    if len(parts) < min_partitions:
        parts = cut_further(parts, min_partitions)
    planned: list[RangeToRead] = []
    for snapshot, first, last in parts:
        pieces = ceil((last - first) / records_per_partition) if records_per_partition else 1
        for part_start, part_end in pairwise((first, *cut_by_offsets(first, last, pieces), last)):
            planned.append(part(snapshot, part_start, part_end))
    return planned


def part(snapshot: PartitionSnapshot, start: int, end: int) -> RangeToRead:
    """One task for all of [start, end)."""
    pieces = cover(snapshot, start, end)
    in_files = [piece for piece in pieces if isinstance(piece, FilePiece)]
    aborted: tuple[AbortedEntry, ...] = ()
    if snapshot.aborted is not None and in_files:
        first, last = in_files[0].first_offset, in_files[-1].end_offset
        aborted = tuple(entry for entry in snapshot.aborted if entry.last_offset >= first and entry.first_offset < last)
    return RangeToRead(snapshot.topic, snapshot.topic_id, snapshot.partition, start, end, pieces, aborted)


def share(limit: int, sizes: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Each partition's share of a limit, in proportion to its size, as the connector does for maxOffsetsPerTrigger.

    Each non-empty partition gets at least 1, so that every partition advances. Source: KafkaMicroBatchStream.rateLimit.
    """
    total = sum(sizes.values())
    if total <= limit:
        return dict(sizes)
    return {one: min(size, max(1, limit * size // total)) for one, size in sizes.items() if size > 0}
