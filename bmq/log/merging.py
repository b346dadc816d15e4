"""Decides which small closed segments of a log are merged into one. Times in milliseconds. Decisions only.

A merged segment is one that the owner could have written in one go: it is not longer than segment.bytes and does not cover a
longer time than segment.ms, so retention deletes its records when it would have deleted those of such a segment. The largest
segment of a group has at most half of its bytes. So each merge at least doubles the size of the file that a record is in, and a
record is copied at most log2(`segment_merge_max_bytes`) times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

from bmq.log.compaction import COMPACT_POLICY
from bmq.log.config import LogConfig
from bmq.log.manifest import Extent
from bmq.log.names import may_have_gaps
from bmq.log.retention import BELIEVED_FROM_MS, ExtentKey, key_of
from bmq.protocol.record_batch import NO_TIMESTAMP_MS

GROUP_COUNT_MAX: Final = 1_000
"""Most segments of one group: each is opened once, and is in the plan that the cleaning process gets."""


def is_merging(config: LogConfig) -> bool:
    """Whether the topic's segments are merged at all. Compaction merges those of compacted topics, snapshots replace state logs."""
    return (
        config.segment_merge_max_bytes > 0 and COMPACT_POLICY not in config.cleanup_policy and not config.is_state_log
    )


def find_segments_to_merge(
    extents: Sequence[Extent],
    config: LogConfig,
    *,
    now_ms: int,
    last_stable_offset: int,
    first_ms: Mapping[ExtentKey, int],
) -> tuple[Extent, ...] | Extent | None:
    """The first neighbours worth merging; an extent whose first timestamp must be known before; None if there are none.

    `first_ms`: the timestamps of the first batches of extents that were read; NO_TIMESTAMP_MS for a batch without one.
    """
    start = 0
    while start < len(extents):
        window = _window(extents, start, config, now_ms, last_stable_offset, first_ms)
        found, rest = _without_large(window, config.segment_merge_min_count)
        if not found:
            start += max(1, rest)
            continue
        first = found[0]
        if key_of(first) not in first_ms:
            return first
        in_time = _in_time(found, first_ms[key_of(first)], config)
        if len(in_time) == len(found):
            return found
        # The time is up earlier than its own greatest timestamp let expect: what is left is looked at anew.
        kept, _ = _without_large(in_time, config.segment_merge_min_count)
        if kept and kept[0] == first:
            return kept
        start += rest + 1
    return None


def _window(
    extents: Sequence[Extent],
    start: int,
    config: LogConfig,
    now_ms: int,
    last_stable_offset: int,
    first_ms: Mapping[ExtentKey, int],
) -> tuple[Extent, ...]:
    """The extents from `start` on that may be in one segment."""
    bytes_max = min(config.segment_merge_max_bytes, config.segment_bytes)
    window: list[Extent] = []
    size_bytes = 0
    begins_ms = NO_TIMESTAMP_MS
    for extent in extents[start : start + GROUP_COUNT_MAX]:
        size_bytes += extent.length
        is_old = BELIEVED_FROM_MS <= extent.max_timestamp_ms <= now_ms - config.segment_merge_lag_ms
        if size_bytes > bytes_max or not is_old or extent.end_offset > last_stable_offset or may_have_gaps(extent.roll):
            break
        if not window:
            begins_ms = first_ms.get(key_of(extent), extent.max_timestamp_ms)
        if not _is_in_time(extent, begins_ms, config):
            break
        window.append(extent)
    return tuple(window)


def _is_in_time(extent: Extent, begins_ms: int, config: LogConfig) -> bool:
    """Whether a segment whose first record has the timestamp `begins_ms` may have this extent."""
    return begins_ms >= 0 and extent.max_timestamp_ms - begins_ms <= config.segment_ms


def _in_time(window: Sequence[Extent], begins_ms: int, config: LogConfig) -> tuple[Extent, ...]:
    return tuple(takewhile(lambda extent: _is_in_time(extent, begins_ms, config), window))


def _without_large(window: tuple[Extent, ...], count_min: int) -> tuple[tuple[Extent, ...], int]:
    """(the part of the window without an extent that has more than half of its bytes, index of its first extent).

    The part is empty if too few are left; then the index is where to look for more.
    """
    begin = 0
    while len(window) >= count_min:
        lengths = [extent.length for extent in window]
        largest = max(lengths)
        if 2 * largest <= sum(lengths):
            return window, begin
        place = lengths.index(largest)
        if place >= count_min:
            window = window[:place]
        else:
            window, begin = window[place + 1 :], begin + place + 1
    return (), begin
