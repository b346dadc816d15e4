"""Segments that compaction made, and their places among the extents of a log. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.manifest import Extent
from bmq.log.segment_index import SegmentIndex
from bmq.log.store import CorruptFile, StorageUnavailable


class SwapNotBegun(StorageUnavailable):
    """No manifest was begun that names the new segment."""


class ExtentsChanged(SwapNotBegun):
    """Extents that were to be replaced are not all there any more: retention, or DeleteRecords, came first."""


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """A closed file that compaction made of some extents. `dropped_aborts`: offsets of markers that are gone with it.

    `index` names the file; it begins and ends where the extents do. Its producers and aborted transactions do not count.
    """

    index: SegmentIndex
    dropped_aborts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Replacement:
    """A segment whose index is durable, and the extents that it is to replace. `dropped_aborts`: as in CleanedSegment."""

    replaced: tuple[Extent, ...]
    extent: Extent
    dropped_aborts: tuple[int, ...]


def with_replacements(
    extents: Sequence[Extent], replacements: Sequence[Replacement], places: Sequence[int]
) -> tuple[Extent, ...]:
    """The extents with each replacement at its place; they are in order."""
    found: list[Extent] = []
    reached = 0
    for one, place in zip(replacements, places, strict=True):
        found += (*extents[reached:place], one.extent)
        reached = place + len(one.replaced)
    return (*found, *extents[reached:])


def end_offset_of(extent: Extent) -> int:
    return extent.end_offset


def segment_of(extent: Extent) -> tuple[int, int]:
    """Its leader epoch and roll, which name the segment."""
    return extent.leader_epoch, extent.roll


def index_of_cleaned(
    cleaned: CleanedSegment, replaced: Sequence[Extent], aborted: AbortedTransactions, producers: bytes
) -> SegmentIndex:
    """The index of a segment that replaces these extents. `producers`: the state at their end. Raises CorruptFile."""
    base_offset, end_offset = replaced[0].base_offset, replaced[-1].end_offset
    summary = cleaned.index.summary
    if (summary.base_offset, summary.end_offset) != (base_offset, end_offset):
        raise CorruptFile(
            f"a compacted segment has [{summary.base_offset}, {summary.end_offset}) for [{base_offset}, {end_offset})"
        )
    left = aborted.between(base_offset, end_offset)
    for offset in cleaned.dropped_aborts:
        left.remove(offset)
    return replace(cleaned.index, aborted=left, producers=producers)
