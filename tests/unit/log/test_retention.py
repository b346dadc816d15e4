"""What retention drops, rule by rule and against plain sums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.config import LogConfig
from bmq.log.manifest import Extent
from bmq.log.retention import droppable, retained_from

pytestmark = pytest.mark.unit

# (bytes, greatest timestamp) of each extent; ten offsets each
EXTENTS = st.lists(st.tuples(st.integers(1, 100), st.integers(-1, 1_000)), max_size=8)


def extents_of(facts: list[tuple[int, int]]) -> list[Extent]:
    return [
        Extent(1, roll, 1, roll, size, 0, size, roll * 10, roll * 10 + 10, timestamp_ms)
        for roll, (size, timestamp_ms) in enumerate(facts)
    ]


@given(EXTENTS, st.integers(-1, 1_000), st.integers(-1, 500), st.integers(0, 80), st.integers(0, 200))
def test_the_oldest_go_first(
    facts: list[tuple[int, int]], retention_ms: int, retention_bytes: int, log_start: int, open_bytes: int
) -> None:
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes)
    extents = extents_of(facts)
    now_ms = 1_000
    log_start = min(log_start, len(facts) * 10)
    floor = retained_from(extents, config, now_ms=now_ms, log_start_offset=log_start, open_bytes=open_bytes)
    left = list(facts)
    while left:
        _, time = left[0]
        is_old = retention_ms >= 0 and 0 <= time < now_ms - retention_ms
        is_too_much = retention_bytes >= 0 and sum(size for size, _ in left[1:]) + open_bytes >= retention_bytes
        if not is_old and not is_too_much:
            break
        del left[0]
    assert floor == max(log_start, 10 * (len(facts) - len(left)))
    count = droppable(extents, floor)
    assert count == floor // 10
    assert droppable(extents, log_start) == log_start // 10


@given(EXTENTS)
def test_without_the_delete_policy_only_the_log_start_counts(facts: list[tuple[int, int]]) -> None:
    config = LogConfig(retention_ms=0, retention_bytes=0, cleanup_policy=frozenset({"compact"}))
    assert retained_from(extents_of(facts), config, now_ms=10**6, log_start_offset=7, open_bytes=0) == 7


def test_nothing_is_dropped_without_limits() -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=-1)
    extents = extents_of([(10, 0), (10, 0)])
    assert retained_from(extents, config, now_ms=10**12, log_start_offset=0, open_bytes=0) == 0
