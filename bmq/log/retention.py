"""Decides when a log's head may be deleted and when its segment has to roll. Times in milliseconds. Pure.

Source: Kafka's UnifiedLog.deleteOldSegments and LogSegment.shouldRoll.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from bmq.log.config import LogConfig
from bmq.log.manifest import Extent

DELETE_POLICY = "delete"
BELIEVED_FROM_MS: Final = 365 * 86_400_000
"""The greatest time of a segment is doubted before 1971: producers' headers with 0 or -1 were once believed."""

ExtentKey = tuple[int, int]
"""Leader epoch and roll of an extent's file."""


def retained_from(
    extents: Sequence[Extent], config: LogConfig, *, now_ms: int, log_start_offset: int, open_bytes: int
) -> int:
    """The log start offset that retention asks for, at least the present one. The open segment is never dropped.

    `open_bytes`: valid bytes of segments that are not closed yet; they count for retention.bytes.
    """
    dropped = 0
    if DELETE_POLICY in config.cleanup_policy:
        dropped = _expired(extents, config, now_ms, _over_size(extents, config, open_bytes))
    if not dropped:
        return log_start_offset
    return max(log_start_offset, extents[dropped - 1].end_offset)


def key_of(extent: Extent) -> ExtentKey:
    return extent.leader_epoch, extent.roll


def in_doubt(
    extents: Sequence[Extent], config: LogConfig, *, now_ms: int, known_ms: Mapping[ExtentKey, int]
) -> Extent | None:
    """The first extent that retention by time must know more of before it goes on; None without one.

    `known_ms`: greatest times of those that were looked at.
    """
    if DELETE_POLICY not in config.cleanup_policy or config.retention_ms < 0:
        return None
    for extent in extents:
        told_ms = known_ms.get(key_of(extent))
        if told_ms is None and extent.max_timestamp_ms < BELIEVED_FROM_MS:
            return extent
        newest_ms = extent.max_timestamp_ms if told_ms is None else told_ms
        if newest_ms < 0 or now_ms - newest_ms <= config.retention_ms:
            return None
    return None


def with_known_times(extents: Sequence[Extent], known_ms: Mapping[ExtentKey, int]) -> Sequence[Extent]:
    """The extents with the times that are known better; one in doubt has none yet, so that it is kept."""
    if all(extent.max_timestamp_ms >= BELIEVED_FROM_MS for extent in extents):
        return extents
    return [
        extent
        if extent.max_timestamp_ms >= BELIEVED_FROM_MS
        else replace(extent, max_timestamp_ms=known_ms.get(key_of(extent), -1))
        for extent in extents
    ]


def droppable(extents: Sequence[Extent], log_start_offset: int) -> int:
    """How many extents lie wholly below the log start, whatever the cleanup policy."""
    count = 0
    while count < len(extents) and extents[count].end_offset <= log_start_offset:
        count += 1
    return count


def _expired(extents: Sequence[Extent], config: LogConfig, now_ms: int, start: int) -> int:
    """The end of the run of too old extents from `start` on; a young one, or one without a timestamp, ends it."""
    if config.retention_ms < 0:
        return start
    end = start
    for extent in extents[start:]:
        if extent.max_timestamp_ms < 0 or now_ms - extent.max_timestamp_ms <= config.retention_ms:
            break
        end += 1
    return end


def _over_size(extents: Sequence[Extent], config: LogConfig, open_bytes: int) -> int:
    if config.retention_bytes < 0:
        return 0
    excess = sum(extent.length for extent in extents) + open_bytes - config.retention_bytes
    count = 0
    for extent in extents:
        excess -= extent.length
        if excess < 0:
            break
        count += 1
    return count


def roll_due_ms(
    config: LogConfig,
    *,
    opened_ms: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    valid_bytes: int,
    check_interval_ms: int,
) -> int | None:
    """From when on an open segment should be closed though it is not full; None: never, as it is now.

    By age (it, or the time between its records, is older than segment.ms), or because everything in it is past
    retention.ms: only a closed segment can be deleted. An empty segment never rolls, and old records alone roll none: a
    backfill would roll each segment at its first record. `base_timestamp_ms`: see `roll_base_after`; -1: by its own age
    alone. `check_interval_ms`: a segment whose records are all past retention.ms stays open at least this long.
    """
    if not valid_bytes:
        return None
    if base_timestamp_ms >= 0 and max_timestamp_ms - base_timestamp_ms > config.roll_ms:
        return 0
    due_ms = opened_ms + config.roll_ms + 1
    if DELETE_POLICY in config.cleanup_policy and config.retention_ms >= 0 and max_timestamp_ms >= 0:
        expired_ms = max_timestamp_ms + config.retention_ms + 1
        due_ms = min(due_ms, max(expired_ms, opened_ms + check_interval_ms))
    return due_ms


class SegmentTimes(Protocol):
    """The timestamps of a segment's batches: an IndexBuilder."""

    roll_base_ms: int | None

    def first_above(self, timestamp_ms: int) -> int:
        """The first timestamp above this one; -1: there is none."""


def roll_base_after(closed: SegmentTimes, config: LogConfig) -> int | None:
    """The base timestamp of the segment that follows `closed`; None: its own first batch has it.

    Kafka compares before it appends: a batch too far from its segment's first one begins the next segment, and is what
    that one's batches are compared with. Here that batch lies in `closed` still, because the next segment has to be opened
    first. Without its timestamp a transaction of old records, whose marker has the present time, would roll every segment.
    """
    base_ms, found = closed.roll_base_ms, None
    while base_ms is not None and base_ms >= 0 and (later_ms := closed.first_above(base_ms + config.roll_ms)) >= 0:
        base_ms = found = later_ms
    return found


def is_full(config: LogConfig, *, valid_bytes: int, batch_bytes: int) -> bool:
    """Whether a batch of this size has to go into the next segment. A segment takes at least one batch."""
    return valid_bytes > 0 and valid_bytes + batch_bytes > config.segment_bytes
