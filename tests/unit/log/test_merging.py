"""Which small closed segments are merged: neighbours of like size, old enough, within segment.bytes and segment.ms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.config import LogConfig
from bmq.log.manifest import Extent
from bmq.log.merging import GROUP_COUNT_MAX, find_segments_to_merge, is_merging
from bmq.log.names import CLEANED_ROLL_MIN, MERGED_ROLL_MIN
from bmq.log.retention import ExtentKey, key_of

pytestmark = pytest.mark.unit

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
CONFIG = LogConfig(
    segment_merge_max_bytes=1_000, segment_merge_min_count=3, segment_merge_lag_ms=HOUR_MS, segment_ms=100 * HOUR_MS
)


def extents_of(lengths: Sequence[int], *, hours_apart: float = 0.01, oldest_hours: float = 50.0) -> list[Extent]:
    """Segments of ten offsets each."""
    return [
        Extent(
            leader_epoch=1,
            roll=number,
            index_epoch=1,
            file_id=number,
            file_bytes=length,
            position=0,
            length=length,
            base_offset=10 * number,
            end_offset=10 * number + 10,
            max_timestamp_ms=NOW_MS - int((oldest_hours - number * hours_apart) * HOUR_MS),
        )
        for number, length in enumerate(lengths)
    ]


def group_of(
    extents: Sequence[Extent],
    config: LogConfig = CONFIG,
    first_ms: Mapping[ExtentKey, int] | None = None,
    stable_offset: int = 10**9,
) -> list[int]:
    """Rolls of the group; the first timestamp of each extent is its greatest one, if nothing else is said."""
    known = dict(first_ms or {})
    for _ in range(len(extents) + 1):
        found = find_segments_to_merge(extents, config, now_ms=NOW_MS, last_stable_offset=stable_offset, first_ms=known)
        if not isinstance(found, Extent):
            return [] if found is None else [extent.roll for extent in found]
        assert key_of(found) not in known, "asked again"
        known[key_of(found)] = found.max_timestamp_ms
    raise AssertionError("it asks on and on")


def test_neighbours_of_like_size_become_one() -> None:
    assert group_of(extents_of([100, 100, 100])) == [0, 1, 2]
    assert group_of(extents_of([100, 100])) == []
    assert group_of(extents_of([300] * 5)) == [0, 1, 2], "at most 1000 bytes"
    assert group_of(extents_of([300] * 5), replace(CONFIG, segment_bytes=800)) == []


def test_a_large_segment_is_not_copied_for_the_sake_of_small_ones() -> None:
    assert group_of(extents_of([600, 10, 10])) == []
    assert group_of(extents_of([600, 10, 10, 10])) == [1, 2, 3]
    assert group_of(extents_of([10, 10, 10, 600])) == [0, 1, 2]
    assert group_of(extents_of([10, 10, 600, 10, 10])) == []
    assert group_of(extents_of([2_000, 100, 100, 100])) == [1, 2, 3]


def test_what_is_young_or_may_still_change_is_left_alone() -> None:
    young = extents_of([100] * 4, oldest_hours=1.025)
    assert group_of(young) == [0, 1, 2], "the last one is younger than the lag"
    assert group_of(extents_of([100] * 4), stable_offset=35) == [0, 1, 2]
    assert group_of(extents_of([100] * 4), stable_offset=25) == []


def test_a_segment_whose_time_is_in_doubt_or_that_has_gaps_divides_the_log() -> None:
    for changes in ({"max_timestamp_ms": -1}, {"max_timestamp_ms": 5}, {"roll": CLEANED_ROLL_MIN}):
        log = extents_of([100] * 5)
        log[1] = replace(log[1], **changes)
        assert group_of(log) == [2, 3, 4], changes
    log[1] = replace(log[1], roll=MERGED_ROLL_MIN)
    assert group_of(log) == [0, MERGED_ROLL_MIN, 2, 3, 4]


def test_a_merged_segment_covers_no_longer_time_than_segment_ms() -> None:
    """From its first record on, which is older than what the first extent's greatest timestamp tells."""
    log = extents_of([100] * 6, hours_apart=1)
    assert group_of(log, replace(CONFIG, segment_ms=2 * HOUR_MS)) == [0, 1, 2]
    assert group_of(log, replace(CONFIG, segment_ms=2 * HOUR_MS - 1)) == []
    began_ms = {key_of(log[0]): log[0].max_timestamp_ms - HOUR_MS}
    assert group_of(log, replace(CONFIG, segment_ms=2 * HOUR_MS), began_ms) == [1, 2, 3]
    assert group_of(log, replace(CONFIG, segment_ms=3 * HOUR_MS), began_ms) == [0, 1, 2]
    assert group_of(log, CONFIG, {key_of(log[0]): -1}) == [1, 2, 3, 4, 5], "it does not say when it begins"


def test_compacted_topics_and_state_logs_are_not_merged() -> None:
    assert is_merging(CONFIG)
    assert not is_merging(LogConfig())
    assert not is_merging(replace(CONFIG, cleanup_policy=frozenset({"compact", "delete"})))
    assert not is_merging(replace(CONFIG, is_state_log=True))


def test_a_group_has_a_bound() -> None:
    config = replace(CONFIG, segment_merge_max_bytes=10**9)
    assert len(group_of(extents_of([100] * (GROUP_COUNT_MAX + 50), hours_apart=0.001), config)) == GROUP_COUNT_MAX


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(0, 3)), max_size=60),
    st.integers(2, 5),
    st.integers(200, 4_000),
    st.integers(1, 200),
)
def test_merging_ends_with_few_segments_and_few_copies(
    segments: list[tuple[int, int]], count_min: int, bytes_max: int, segment_hours: int
) -> None:
    """Merged again and again: within the bounds, the same offsets, no byte copied more often than its file can double."""
    config = replace(
        CONFIG,
        segment_merge_max_bytes=bytes_max,
        segment_merge_min_count=count_min,
        segment_ms=segment_hours * HOUR_MS,
    )
    log = extents_of([length for length, _ in segments], oldest_hours=500)
    time_ms = NOW_MS - 500 * HOUR_MS
    began_ms: dict[ExtentKey, int] = {}
    for place, (_, hours) in enumerate(segments):
        began_ms[key_of(log[place])] = time_ms
        time_ms += hours * HOUR_MS
        log[place] = replace(log[place], max_timestamp_ms=time_ms)
    copies = dict.fromkeys((key_of(extent) for extent in log), 0)
    rolls = iter(range(MERGED_ROLL_MIN, MERGED_ROLL_MIN + 1_000))
    while group := find_segments_to_merge(log, config, now_ms=NOW_MS, last_stable_offset=10**9, first_ms=began_ms):
        assert isinstance(group, tuple) and len(group) >= count_min
        size_bytes = sum(extent.length for extent in group)
        assert size_bytes <= bytes_max and 2 * max(extent.length for extent in group) <= size_bytes
        assert group[-1].max_timestamp_ms - began_ms[key_of(group[0])] <= config.segment_ms
        place = log.index(group[0])
        assert tuple(log[place : place + len(group)]) == group
        made = replace(
            group[-1], roll=next(rolls), base_offset=group[0].base_offset, length=size_bytes, file_bytes=size_bytes
        )
        copies[key_of(made)] = 1 + max(copies[key_of(extent)] for extent in group)
        began_ms[key_of(made)] = began_ms[key_of(group[0])]
        log[place : place + len(group)] = [made]
    assert all(copies[key_of(extent)] <= log2(bytes_max) + 1 for extent in log)
    assert sum(extent.length for extent in log) == sum(length for length, _ in segments)
