"""Decides which extents at a log's head may be deleted. Times are in milliseconds. Pure.

Source: Kafka's UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bmq.log.config import LogConfig
from bmq.log.manifest import Extent

DELETE_POLICY = "delete"
BELIEVED_FROM_MS: Final = 365 * 86_400_000
"""A segment's greatest time before 1971 is doubted: older releases believed batch headers with 0 or -1."""

ExtentKey = tuple[int, int]
"""(leader epoch, roll) of an extent's file."""


def retained_from(
    extents: Sequence[Extent], config: LogConfig, *, now_ms: int, log_start_offset: int, open_bytes: int
) -> int:
    """The log start offset that retention asks for; never below the present one. The open segment is never dropped.

    `open_bytes`: valid bytes of segments that are not closed yet, which count for retention.bytes.
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
    """The first extent whose greatest time must be read from its file before retention by time can decide; None without one.

    `known_ms`: greatest times of the extents that were read.
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
    """The extents with doubted times replaced by known ones, or by -1 (no time, so that it is kept) if not known yet."""
    if all(extent.max_timestamp_ms >= BELIEVED_FROM_MS for extent in extents):
        return extents
    return [
        extent
        if extent.max_timestamp_ms >= BELIEVED_FROM_MS
        else replace(extent, max_timestamp_ms=known_ms.get(key_of(extent), -1))
        for extent in extents
    ]


def droppable(extents: Sequence[Extent], log_start_offset: int) -> int:
    """How many extents lie wholly below the log start offset; they may be dropped under any cleanup policy."""
    count = 0
    while count < len(extents) and extents[count].end_offset <= log_start_offset:
        count += 1
    return count


def _expired(extents: Sequence[Extent], config: LogConfig, now_ms: int, start: int) -> int:
    """Index behind the expired extents from `start` on. A young extent, or one without a timestamp, ends them."""
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
