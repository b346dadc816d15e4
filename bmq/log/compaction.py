"""Decides when a log is compacted, and how far. Times in milliseconds. Pure.

Source: Kafka's LogCleanerManager (cleanableOffsets, maxCompactionDelay) and Cleaner.groupSegmentsBySize.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import ClassVar, Final, Protocol

from bmq.dataclass import dataclass
from bmq.log.aborted_transactions import AbortedEntry
from bmq.log.config import LogConfig
from bmq.log.manifest import Extent
from bmq.log.segment_index import SegmentIndex
from bmq.log.store import Buffer
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

COMPACT_POLICY: Final = "compact"


@dataclass(frozen=True, slots=True)
class Cleanable:
    """The extents that a compaction of a log would read; those from index `dirty` on were not compacted yet.

    `first_dirty_offset`: where the last compaction ended. `dirty_ratio`: the share of bytes that was not compacted yet.
    """

    extents: tuple[Extent, ...]
    dirty: int
    first_dirty_offset: int

    @property
    def dirty_bytes(self) -> int:
        return sum(extent.length for extent in self.extents[self.dirty :])

    @property
    def dirty_ratio(self) -> float:
        total_bytes = sum(extent.length for extent in self.extents)
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    @property
    def end_offset(self) -> int:
        return self.extents[-1].end_offset if self.extents else self.first_dirty_offset


def cleanable(
    extents: Sequence[Extent],
    config: LogConfig,
    *,
    now_ms: int,
    first_dirty_offset: int,
    log_start_offset: int,
    last_stable_offset: int,
) -> Cleanable:
    """The closed segments that may be compacted: wholly below the last stable offset, and older than min.compaction.lag.ms."""
    first_dirty_offset = max(first_dirty_offset, log_start_offset)
    taken: list[Extent] = []
    dirty = 0
    for extent in extents:
        is_dirty = extent.end_offset > first_dirty_offset
        is_young = (
            is_dirty
            and config.min_compaction_lag_ms > 0
            and extent.max_timestamp_ms > now_ms - config.min_compaction_lag_ms
        )
        if extent.end_offset > last_stable_offset or is_young:
            break
        taken.append(extent)
        dirty += not is_dirty
    return Cleanable(tuple(taken), dirty, first_dirty_offset)


def is_due(found: Cleanable, config: LogConfig, *, now_ms: int, first_dirty_timestamp_ms: int | None) -> bool:
    """Whether to compact now: the dirty share is large enough, or a record has waited for max.compaction.lag.ms.

    `first_dirty_timestamp_ms`: timestamp of the first batch of the first dirty segment; None if it is not known.
    """
    if COMPACT_POLICY not in config.cleanup_policy or not found.dirty_bytes:
        return False
    if found.dirty_ratio > config.min_cleanable_dirty_ratio:
        return True
    return (
        first_dirty_timestamp_ms is not None and 0 <= first_dirty_timestamp_ms < now_ms - config.max_compaction_lag_ms
    )


def groups(extents: Sequence[Extent], segment_bytes: int) -> list[tuple[Extent, ...]]:
    """Groups of neighbouring extents; each group becomes one segment. It has at most `segment_bytes`, or is one longer extent."""
    found: list[tuple[Extent, ...]] = []
    group: list[Extent] = []
    size = 0
    for extent in extents:
        if group and size + extent.length > segment_bytes:
            found.append(tuple(group))
            group, size = [], 0
        group.append(extent)
        size += extent.length
    if group:
        found.append(tuple(group))
    return found


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """The plan of one compaction of a partition, which can be sent to another process.

    `groups`: extents, in the order of the log from its start; each group becomes one segment. `paths`: the extents' files.
    `delete_retention_ms`, `marker_retention_ms`: how long tombstones and markers stay. `last_records`: for each producer its
    id, the offset of its last record (None if its last batch was a marker), and its epoch.
    """

    topic: str
    partition: int
    groups: tuple[tuple[Extent, ...], ...]
    paths: tuple[tuple[str, ...], ...]
    first_dirty_offset: int
    now_ms: int
    delete_retention_ms: int
    marker_retention_ms: int
    aborted: tuple[AbortedEntry, ...]
    last_records: tuple[tuple[int, int | None, int], ...]
    map_bytes: int
    index_interval_bytes: int
    is_merge: bool = False
    """Each group becomes one segment with the very same batches: nothing is dropped (bmq.log.merging)."""


@dataclass(frozen=True, slots=True)
class CleanedBytes:
    """Whole batches to append to the present group's new segment."""

    data: Buffer


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """The present group is compacted. `index`: that of its new segment, without the file's place, which only the owner knows.

    `count`: how many extents of the group the segment replaces; the rest was not reached. `dropped_aborts`: offsets of the
    markers of aborted transactions that were dropped.
    """

    count: int
    index: SegmentIndex
    dropped_aborts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CleaningEnd:
    """The compaction is done up to `first_dirty_offset`, which is below the plan's end if the map of keys was full."""

    first_dirty_offset: int
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_kept: int


CleaningEvent = CleanedBytes | CleanedGroup | CleaningEnd


class CleaningInterrupted(BmqError):
    """The store did not answer, or the cleaner ended. A retry may succeed."""

    code: ClassVar[ErrorCode] = ErrorCode.KAFKA_STORAGE_ERROR


class CleanerUnavailable(CleaningInterrupted):
    """The cleaner cannot be started, or ended by itself, so that the next log would fail in the same way."""


class Uncleanable(BmqError):
    """The log has bytes that cannot be decoded; a retry does not help."""

    code: ClassVar[ErrorCode] = ErrorCode.CORRUPT_MESSAGE


class LogCleaning(Protocol):
    """Carries out plans, outside of this process's event loop if possible. It reads the store, and never writes to it."""

    def clean(self, plan: CleaningPlan) -> AsyncGenerator[CleaningEvent]:
        """The events of one compaction; the last one is a CleaningEnd. Close the generator to give up.

        Raises CleaningInterrupted, CleanerUnavailable, Uncleanable.
        """

    def use_share(self, share: float) -> None:
        """Use this share of the time from now on (above 0, at most 1), also for a compaction that is under way."""

    async def close(self) -> None:
        """End the cleaner: nothing more is to be compacted."""
