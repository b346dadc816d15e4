"""Decides when a log's head may be deleted and when its segment has to roll. Times in milliseconds. Pure.

Source: Kafka's UnifiedLog.deleteOldSegments and LogSegment.shouldRoll.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bmq.log.config import LogConfig
from bmq.log.manifest import Extent

DELETE_POLICY = "delete"


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
