"""What groups hold back, and what goes beyond a quota, against plain walks over single offsets."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.log.config import LogConfig
from bmq.log.consumed_retention import (
    BacklogSize,
    SlowestGroup,
    bytes_of_extent_from,
    consumed_by_all,
    evicted_to,
    excess_of,
    held_back,
    slowest_group,
)
from bmq.log.manifest import Extent

pytestmark = pytest.mark.unit

NOW_MS = 1_000
FACTS = st.lists(st.tuples(st.integers(1, 100), st.integers(-1, NOW_MS)), max_size=8)
OFFSETS = st.integers(0, 90)


def extents_of(facts: list[tuple[int, int]]) -> list[Extent]:
    """Ten offsets each, of the given size and newest timestamp."""
    return [
        Extent(1, roll, 1, roll, size, 0, size, roll * 10, roll * 10 + 10, timestamp_ms)
        for roll, (size, timestamp_ms) in enumerate(facts)
    ]


@given(FACTS, st.integers(0, 8), OFFSETS, st.integers(-1, 500), OFFSETS)
@example([(1, -1)], 1, 5, -1, 0)  # the group stands within the only segment
@example([(1, 900), (1, 900), (1, 900)], 3, 15, 500, 0)
@example([(1, 900), (1, 100), (1, 900)], 3, 5, 500, 0)  # what is past the limit lies behind what is not
def test_what_a_group_has_not_consumed_stays_until_the_limit(
    facts: list[tuple[int, int]], wanted_extents: int, consumed: int, limit_ms: int, log_start: int
) -> None:
    wanted_extents = min(wanted_extents, len(facts))
    log_start = min(log_start, 10 * len(facts))
    wanted = max(log_start, 10 * wanted_extents)
    allowed = held_back(
        extents_of(facts),
        wanted,
        LogConfig(retention_groups=("g",), retention_groups_max_ms=limit_ms),
        consumed_offset=consumed,
        now_ms=NOW_MS,
        log_start_offset=log_start,
    )
    assert log_start <= allowed <= wanted
    gone = set(range(log_start, allowed))
    for offset in gone - set(range(consumed)):
        _, newest_ms = facts[offset // 10]
        assert newest_ms >= 0 and 0 <= limit_ms < NOW_MS - newest_ms, "unconsumed, and not past the limit"
    if consumed >= wanted:
        assert allowed == wanted, "all of it is consumed, so nothing is held back"
    if allowed < 10 * wanted_extents:
        _, newest_ms = facts[allowed // 10]
        held_end = allowed // 10 * 10 + 10
        is_past = newest_ms >= 0 and 0 <= limit_ms < NOW_MS - newest_ms
        assert held_end > consumed and not is_past, "held back without a reason"


@pytest.mark.parametrize(
    ("consumed", "allowed"), [(0, 0), (1, 0), (9, 0), (10, 10), (15, 10), (19, 10), (20, 20), (30, 20)]
)
def test_a_segment_consumed_in_part_stays(consumed: int, allowed: int) -> None:
    config = LogConfig(retention_groups=("g",), retention_groups_max_ms=-1)
    extents = extents_of([(100, NOW_MS)] * 3)
    assert held_back(extents, 20, config, consumed_offset=consumed, now_ms=NOW_MS, log_start_offset=0) == allowed


@given(FACTS, OFFSETS, OFFSETS, st.integers(-1, 400), st.integers(-1, 500), st.integers(0, 50))
@example([(100, 900), (100, 900)], 5, 0, 120, -1, 0)  # the group stands within the first segment
@example([(100, 900), (100, 900)], 15, 0, 20, -1, 0)
@example([(100, 100), (100, 900)], 5, 0, -1, 500, 0)
def test_eviction_drops_no_more_than_the_quotas_ask_for(
    facts: list[tuple[int, int]], consumed: int, log_start: int, quota_bytes: int, quota_ms: int, open_bytes: int
) -> None:
    extents = extents_of(facts)
    log_start = min(log_start, 10 * len(facts))
    config = LogConfig(backlog_quota_bytes=quota_bytes, backlog_quota_ms=quota_ms)

    def backlog_from(offset: int) -> int:
        return sum(bytes_of_extent_from(extent, max(offset, consumed)) for extent in extents) + open_bytes

    def is_over(offset: int) -> bool:
        """With what is left from this offset on; `offset` is not past the closed segments."""
        newest_ms = facts[max(offset, consumed) // 10][1]
        is_old = newest_ms >= 0 and 0 <= quota_ms < NOW_MS - newest_ms
        return 0 <= quota_bytes < backlog_from(offset) or is_old

    evicted = evicted_to(
        extents,
        config,
        backlog_bytes=backlog_from(log_start),
        consumed_offset=consumed,
        log_start_offset=log_start,
        now_ms=NOW_MS,
    )
    closed_end = 10 * len(facts)
    assert evicted >= log_start
    if evicted > log_start:
        assert evicted % 10 == 0 and evicted > consumed, "whole extents only, and none that is consumed for nothing"
        assert is_over(max(log_start, evicted - 10)), "the last one dropped was over a quota"
    if max(evicted, consumed) < closed_end:
        assert not is_over(evicted)


@given(st.integers(1, 10**6), st.integers(0, 120), st.integers(1, 100))
def test_the_share_of_an_extent(length: int, offset: int, count: int) -> None:
    extent = Extent(1, 0, 1, 0, length, 0, length, 10, 10 + count, 0)
    size = bytes_of_extent_from(extent, offset)
    assert 0 <= size <= length
    assert (size == length) if offset <= 10 else (size < length)
    assert size >= bytes_of_extent_from(extent, offset + 1)
    assert bytes_of_extent_from(extent, 10 + count) == 0


def test_what_is_more_than_a_quota_allows() -> None:
    config = LogConfig(backlog_quota_bytes=10, backlog_quota_ms=100)
    assert excess_of(BacklogSize(10, NOW_MS - 100), config, NOW_MS) is None
    assert excess_of(BacklogSize(10, -1), config, NOW_MS) is None
    assert (
        excess_of(BacklogSize(11, NOW_MS), config, NOW_MS)
        == "11 bytes left to consume, bmq.backlog.quota.bytes allows 10"
    )
    assert (
        excess_of(BacklogSize(1, NOW_MS - 101), config, NOW_MS)
        == "records of 101 ms ago left to consume, bmq.backlog.quota.ms allows 100"
    )
    assert excess_of(BacklogSize(10**9, 0), LogConfig(), NOW_MS) is None


def test_the_slowest_group() -> None:
    assert slowest_group({"a": 7, "b": 3}, ("a", "b")) == SlowestGroup("b", 3)
    assert slowest_group({"a": 7, "b": -1}, ("a", "b")) == SlowestGroup("b", 0)
    assert slowest_group({"a": 7}, ("a", "b")) is None
    assert slowest_group({}, ()) is None
    assert consumed_by_all({"a": 7, "b": 3}, ("a", "b")) == 3
    assert consumed_by_all({"a": 7}, ("a", "b")) == 0
    assert consumed_by_all({"a": 7, "b": -1}, ("a", "b")) == 0
