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
