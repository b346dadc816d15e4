"""Replaces extents of a log by the segments that compaction made of them. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bmq.dataclass import dataclass
from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.manifest import Extent
from bmq.log.names import may_have_gaps
from bmq.log.segment_index import SegmentIndex
from bmq.log.store import CorruptFile, StorageUnavailable


class SwapNotBegun(StorageUnavailable):
    """The swap failed before any manifest that names the new segment was begun."""


class ExtentsChanged(SwapNotBegun):
    """Some of the extents to be replaced are no longer in the log: retention or DeleteRecords came first."""


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """A closed file that compaction made of some extents.

    `index`: names the file, and has the extents' first and last offset; its producers and aborted transactions are not used.
    `dropped_aborts`: offsets of the markers of aborted transactions that compaction dropped.
    """

    index: SegmentIndex
    dropped_aborts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Replacement:
    """A segment with a durable index, and the extents that it is to replace. `dropped_aborts`: as in CleanedSegment."""

    replaced: tuple[Extent, ...]
    extent: Extent
    dropped_aborts: tuple[int, ...]


def with_replacements(
    extents: Sequence[Extent], replacements: Sequence[Replacement], places: Sequence[int]
) -> tuple[Extent, ...]:
    """The extents after these replacements, which are in order. `places`: index of each replacement's first extent."""
    found: list[Extent] = []
    reached = 0
    for one, place in zip(replacements, places, strict=True):
        found += (*extents[reached:place], one.extent)
        reached = place + len(one.replaced)
    return (*found, *extents[reached:])


def place_of(extents: Sequence[Extent], replaced: Sequence[Extent], partition: str) -> int:
    """The index of the first of the `replaced` among the extents of a log. Raises ExtentsChanged, which names the partition."""
    wanted = [segment_of(extent) for extent in replaced]
    place = bisect_right(extents, replaced[0].base_offset, key=end_offset_of) if replaced else 0
    if not wanted or [segment_of(extent) for extent in extents[place : place + len(wanted)]] != wanted:
        raise ExtentsChanged(f"segments of {partition} were deleted while they were compacted")
    return place


def end_with_gaps(extents: Iterable[Extent]) -> int:
    """The end of the last one in which offsets may be missing; -1: none. A merged segment has the records of those before it."""
    return max((extent.end_offset for extent in extents if may_have_gaps(extent.roll)), default=-1)


def end_offset_of(extent: Extent) -> int:
    return extent.end_offset


def segment_of(extent: Extent) -> tuple[int, int]:
    """(leader epoch, roll), which name the extent's segment."""
    return extent.leader_epoch, extent.roll


def index_of_cleaned(
    cleaned: CleanedSegment, replaced: Sequence[Extent], aborted: AbortedTransactions, producers: bytes
) -> SegmentIndex:
    """The index of a segment that replaces these extents. `producers`: the producer state at their end. Raises CorruptFile."""
    base_offset, end_offset = replaced[0].base_offset, replaced[-1].end_offset
    summary = cleaned.index.summary
    if (summary.base_offset, summary.end_offset) != (base_offset, end_offset):
        raise CorruptFile(
            f"a compacted segment has [{summary.base_offset}, {summary.end_offset}), not [{base_offset}, {end_offset})"
        )
    left = aborted.between(base_offset, end_offset)
    for offset in cleaned.dropped_aborts:
        left.remove(offset)
    return replace(cleaned.index, aborted=left, producers=producers)
