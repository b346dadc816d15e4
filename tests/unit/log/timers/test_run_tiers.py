"""Which runs are merged: few overlap at any time, and a record is not written again and again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.timers.run_reference import RunReference
from bmq.log.timers.run_tiers import (
    FILE_BYTES,
    RUNS_OVERLAPPING_MAX,
    TIER_MAX,
    file_bytes_of,
    next_merge,
    tier_of_merged,
)

pytestmark = pytest.mark.unit


def run(number: int, first_ms: int, last_ms: int, tier: int = 0) -> RunReference:
    return RunReference(1, number, number, 100, tier, 2, first_ms, 0, last_ms, 1, end_offset=2)


def overlapping_most(runs: list[RunReference], tier: int) -> int:
    here = [one for one in runs if one.tier == tier]
    return max((sum(other.first <= one.first <= other.last for other in here) for one in here), default=0)


def test_runs_that_do_not_overlap_are_left() -> None:
    assert next_merge([run(number, 10 * number, 10 * number + 9) for number in range(500)]) == ()
    assert next_merge([run(number, number, 1000) for number in range(RUNS_OVERLAPPING_MAX)]) == ()


def test_those_next_due_are_merged_of_the_lowest_tier() -> None:
    late = [run(number, 900, 1000, tier=1) for number in range(40)]
    later = [run(100 + number, 500, 600) for number in range(40)]
    first = [run(200 + number, 10, 50) for number in range(40)]
    assert set(next_merge([*late, *later, *first])) <= set(first)
    assert len(next_merge([*late, *later, *first])) == RUNS_OVERLAPPING_MAX + 1


def test_a_higher_tier_has_longer_files_up_to_the_last_one() -> None:
    assert [file_bytes_of(tier) // FILE_BYTES for tier in range(5)] == [1, 1, 8, 16, 16]
    assert tier_of_merged([run(0, 1, 2, tier=2), run(1, 1, 2, tier=1)]) == 3
    assert tier_of_merged([run(0, 1, 2, tier=TIER_MAX)]) == TIER_MAX


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=300))
def test_merging_ends_with_few_at_each_time(spans: list[tuple[int, int]]) -> None:
    runs = [run(number, start, start + length) for number, (start, length) in enumerate(spans)]
    for step in range(1000):
        merged = next_merge(runs)
        if not merged:
            break
        assert len(merged) > RUNS_OVERLAPPING_MAX
        first, last = min(one.first_due_ms for one in merged), max(one.last_due_ms for one in merged)
        runs = [one for one in runs if one not in merged]
        runs.append(run(1000 + step, first, last, tier_of_merged(merged)))
    assert not next_merge(runs)
    assert all(overlapping_most(runs, tier) <= RUNS_OVERLAPPING_MAX for tier in range(TIER_MAX + 1))
