"""When a log is compacted, and how far."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.compaction import Cleanable, cleanable, groups, is_due
from bmq.log.config import LogConfig
from bmq.log.manifest import Extent

pytestmark = pytest.mark.unit

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}))
NOW_MS = 1_000_000


def log_of(*lengths: int, timestamps: tuple[int, ...] = ()) -> list[Extent]:
    """Segments of ten offsets each."""
    return [
        Extent(1, number, 1, number, length, 0, length, 10 * number, 10 * (number + 1), timestamp_ms)
        for number, (length, timestamp_ms) in enumerate(zip(lengths, timestamps or (1,) * len(lengths), strict=True))
    ]


def found(extents: list[Extent], config: LogConfig = CONFIG, *, dirty: int = 0, stable: int = 1_000) -> Cleanable:
    return cleanable(
        extents, config, now_ms=NOW_MS, first_dirty_offset=dirty, log_start_offset=0, last_stable_offset=stable
    )


def test_the_dirty_part_begins_where_the_last_compaction_ended() -> None:
    for dirty, first in ((0, 0), (9, 0), (10, 1), (15, 1), (20, 2), (30, 3)):
        one = found(log_of(100, 200, 300), dirty=dirty)
        assert (one.dirty, one.first_dirty_offset, one.end_offset) == (first, dirty, 30)
        assert one.dirty_bytes == sum((100, 200, 300)[first:])
        assert one.dirty_ratio == one.dirty_bytes / 600
    assert found([]).dirty_ratio == 0


def test_a_deleted_head_is_not_dirty() -> None:
    one = cleanable(
        log_of(100, 100)[1:], CONFIG, now_ms=NOW_MS, first_dirty_offset=0, log_start_offset=13, last_stable_offset=99
    )
    assert (one.first_dirty_offset, one.dirty) == (13, 0)


def test_nothing_past_the_last_stable_offset_is_taken() -> None:
    extents = log_of(100, 100, 100)
    assert [len(found(extents, stable=stable).extents) for stable in (0, 9, 10, 19, 20, 30)] == [0, 0, 1, 1, 2, 3]


def test_young_segments_wait_if_they_are_dirty() -> None:
    config = replace(CONFIG, min_compaction_lag_ms=500)
    extents = log_of(100, 100, 100, timestamps=(NOW_MS - 100, NOW_MS - 501, NOW_MS - 499))
    assert len(found(extents, config).extents) == 0
    assert len(found(extents, config, dirty=10).extents) == 2
    assert len(found(extents, config, dirty=30).extents) == 3


def test_enough_has_to_be_dirty() -> None:
    half = replace(CONFIG, min_cleanable_dirty_ratio=0.5)
    for dirty, due in ((0, True), (10, False), (20, False)):
        one = found(log_of(100, 50, 50), dirty=dirty)
        assert is_due(one, half, now_ms=NOW_MS, first_dirty_timestamp_ms=None) is due
    nothing = replace(CONFIG, min_cleanable_dirty_ratio=0.0)
    assert is_due(found(log_of(100, 1), dirty=10), nothing, now_ms=NOW_MS, first_dirty_timestamp_ms=None)
    assert not is_due(found(log_of(100), dirty=10), nothing, now_ms=NOW_MS, first_dirty_timestamp_ms=None)
    deleted = replace(nothing, cleanup_policy=frozenset({"delete"}))
    assert not is_due(found(log_of(100)), deleted, now_ms=NOW_MS, first_dirty_timestamp_ms=None)


@pytest.mark.parametrize(("timestamp_ms", "due"), [(None, False), (-1, False), (NOW_MS - 500, False), (1, True)])
def test_or_a_record_has_waited_for_the_longest_lag(timestamp_ms: int | None, due: bool) -> None:
    config = replace(CONFIG, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=500)
    one = found(log_of(100, 1), dirty=10)
    assert is_due(one, config, now_ms=NOW_MS, first_dirty_timestamp_ms=timestamp_ms) is due


@given(lengths=st.lists(st.integers(0, 50), max_size=12), segment_bytes=st.integers(1, 100))
def test_groups_are_neighbours_that_fit_into_a_segment(lengths: list[int], segment_bytes: int) -> None:
    extents = log_of(*lengths)
    made = groups(extents, segment_bytes)
    assert [extent for group in made for extent in group] == extents
    sizes = [sum(extent.length for extent in group) for group in made]
    assert all(size <= segment_bytes or len(group) == 1 for size, group in zip(sizes, made, strict=True))
    # None could have taken the first of the next one.
    assert all(size + following[0].length > segment_bytes for size, following in zip(sizes, made[1:], strict=False))
