"""Decides when a segment is rolled for its age, the time between its records, or retention. Times in ms. Pure.

Source: Kafka's LogSegment.shouldRoll. For its size it is rolled where batches are taken into it (broker/in_flight_batches.py).
"""

from __future__ import annotations

from typing import Protocol

from bmq.log.config import LogConfig
from bmq.log.retention import DELETE_POLICY


def roll_due_ms(
    config: LogConfig,
    *,
    opened_ms: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    valid_bytes: int,
    check_interval_ms: int,
) -> int | None:
    """The time from which an open segment should be rolled although it is not full; None if it should not, as it is now.

    It rolls when it was open for segment.ms, when its records' timestamps span more than segment.ms, or when all its records are
    past retention.ms, because only a closed segment can be deleted. An empty segment never rolls. Old timestamps alone do not
    roll a segment: a backfill would roll at each record. `base_timestamp_ms`: see `roll_base_after`; -1: no span is compared.
    `check_interval_ms`: a segment whose records are all past retention.ms stays open at least this long.
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
    """The timestamps of a segment's batches; implemented by IndexBuilder."""

    roll_base_ms: int | None

    def first_above(self, timestamp_ms: int) -> int:
        """The first timestamp above this one; -1 without one."""


def roll_base_after(closed: SegmentTimes, config: LogConfig) -> int | None:
    """The base timestamp of the segment behind `closed`, with which its records' span begins; None: its first batch's own.

    Kafka compares before it appends: a batch too far from its segment's first one begins the next segment, whose span begins
    with it. Here that batch is still in `closed`, because the next segment has to be opened first. If its timestamp were not
    used, a transaction of old records, whose marker has the present time, would roll every segment.
    """
    base_ms, found = closed.roll_base_ms, None
    while base_ms is not None and base_ms >= 0 and (later_ms := closed.first_above(base_ms + config.roll_ms)) >= 0:
        base_ms = found = later_ms
    return found
