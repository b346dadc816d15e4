"""Gaps between acknowledgements, what of them counts, and what a load knows of its records."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cluster.acknowledgements import UNKNOWN_OFFSET, Acknowledgements
from bench.cluster.gaps import allowed_gap, excess_gap, longest_gap, lost_or_doubled, partition_gaps, producer_gap

pytestmark = pytest.mark.campaign("unit")

TIMES = st.lists(st.floats(0, 100, allow_nan=False), max_size=30).map(sorted)


def test_the_gap_is_between_acknowledgements_that_follow_each_other() -> None:
    assert longest_gap([1.0, 1.1, 3.1, 3.2], 0.9, 3.3) == 2.0
    assert longest_gap([1.0, 2.0, 2.5], 2.1, 2.6) == 0.5


def test_a_gap_begins_with_the_last_acknowledgement_before_the_window() -> None:
    assert longest_gap([1.0, 4.0, 4.1], 2.0, 5.0) == 3.0
    assert longest_gap([4.0, 4.5], 2.0, 5.0) == 2.0  # nothing came before: it counts from the window's begin


def test_what_never_comes_back_has_a_gap_up_to_the_end() -> None:
    assert longest_gap([1.0, 2.0], 1.5, 9.0) == 7.0
    assert longest_gap([], 1.0, 9.0) == 8.0
    assert longest_gap([1.0, 20.0], 1.5, 9.0) == 8.0


def test_what_lies_outside_does_not_count() -> None:
    assert longest_gap([0.0, 50.0, 50.1, 50.2, 99.0], 50.05, 50.3) == pytest.approx(0.1)


@pytest.mark.parametrize(("begin", "end"), [(1.0, 1.0), (2.0, 1.0)])
def test_an_empty_window_is_refused(begin: float, end: float) -> None:
    with pytest.raises(ValueError, match="no window"):
        longest_gap([1.0], begin, end)


@given(TIMES, st.floats(0, 99), st.floats(0.01, 50))
def test_a_gap_is_what_a_look_at_every_pair_finds(times: list[float], begin: float, length: float) -> None:
    end = begin + length
    before = [time for time in times if time <= begin]
    points = [before[-1] if before else begin, *(time for time in times if begin < time < end), end]
    assert longest_gap(times, begin, end) == max(later - earlier for earlier, later in pairwise(points))


@given(TIMES, TIMES, st.floats(0, 99), st.floats(0.01, 50))
def test_all_partitions_together_have_no_longer_gap_than_the_worst(
    one: list[float], other: list[float], begin: float, length: float
) -> None:
    times = {0: one, 1: other}
    assert producer_gap(times, begin, begin + length) <= max(partition_gaps(times, begin, begin + length).values())


def test_only_what_goes_beyond_the_undisturbed_run_is_an_excess() -> None:
    assert allowed_gap(0.03) == 0.2
    assert allowed_gap(0.3) == 0.6
    assert excess_gap(0.19, 0.03) == 0
    assert excess_gap(0.5, 0.03) == pytest.approx(0.3)
    assert excess_gap(0.5, 0.3) == 0
    assert excess_gap(0.2, 0.1) == 0


def test_lost_and_doubled_records_are_counted() -> None:
    acknowledged = {(0, 0): 10, (0, 1): 11, (1, 0): 12}
    assert lost_or_doubled(acknowledged, set(), {(0, 0): 10, (0, 1): 11, (1, 0): 12, (1, 1): 13}) == 0
    assert lost_or_doubled(acknowledged, set(), {(0, 0): 10, (1, 0): 12}) == 1
    assert lost_or_doubled(acknowledged, set(), {(0, 0): 11, (0, 1): 10, (1, 0): 12}) == 2
    assert lost_or_doubled(acknowledged, set(), {**acknowledged, (1, 1): 12}) == 1


def test_what_was_acknowledged_without_its_place_may_be_anywhere_and_must_be_somewhere() -> None:
    assert lost_or_doubled({(0, 0): 10}, {11}, {(0, 0): 10, (0, 1): 11}) == 0
    assert lost_or_doubled({(0, 0): 10}, {11, 12}, {(0, 0): 10, (0, 1): 11}) == 1
    assert lost_or_doubled({}, {11}, {(0, 0): 11, (0, 1): 11}) == 1


def test_a_record_without_an_offset_is_acknowledged_and_has_no_place() -> None:
    seen = Acknowledgements(2)
    for number, offset in enumerate((7, UNKNOWN_OFFSET, None)):
        seen.sent(1.0)
        if offset is not None:
            seen.acknowledged(number, 2.0, 1.0, offset)
    assert (seen.places(), seen.placeless(), seen.acknowledged_count) == ({(0, 7): 0}, {1}, 2)


def seen_of(rows: list[tuple[float, float | None]], partitions: int = 2) -> Acknowledgements:
    """Records sent at the first time and acknowledged at the second, None: not at all."""
    seen = Acknowledgements(partitions)
    for sent_at, _ in rows:
        seen.sent(sent_at)
    for number, (sent_at, answered_at) in enumerate(rows):
        if answered_at is not None:
            seen.acknowledged(number, answered_at, answered_at - sent_at, 100 + number // partitions)
    return seen


def test_records_are_known_by_partition_time_and_place() -> None:
    seen = seen_of([(1.0, 1.2), (1.1, None), (1.2, 1.3), (1.3, 1.4), (1.4, 2.9)])
    assert (seen.sent_count, seen.acknowledged_count) == (5, 4)
    assert seen.times() == {0: [1.2, 1.3, 2.9], 1: [1.4]}
    assert seen.times(since=1.3) == {0: [2.9], 1: [1.4]}
    assert seen.places() == {(0, 100): 0, (0, 101): 2, (1, 101): 3, (0, 102): 4}
    assert seen.gaps(1.0, 3.0) == {"gap_s": 1.6, "producer_gap_s": 1.5, "longest_wait_s": 1.9}


def test_a_partition_is_silent_until_something_sent_later_is_acknowledged() -> None:
    seen = seen_of([(1.0, 5.0), (1.1, 5.1), (2.0, None), (2.1, 5.2)])
    assert seen.silent_since(0.5) == []
    assert seen.silent_since(1.5) == [0]
    assert seen.silent_since(3.0) == [0, 1]


def test_a_wait_counts_in_every_window_it_reaches_into() -> None:
    seen = seen_of([(1.0, 1.1), (2.0, 4.0), (4.0, 4.1)])
    assert seen.longest_wait_s(0.5, 1.5) == pytest.approx(0.1)
    assert seen.longest_wait_s(2.5, 3.0) == 2.0
    assert seen.longest_wait_s(4.05, 5.0) == pytest.approx(0.1)
    assert seen.longest_wait_s(5.0, 6.0) == 0
    assert seen_of([(1.0, None)]).longest_wait_s(0.5, 3.5) == 2.5


def test_latencies_are_those_of_what_was_sent_in_the_window() -> None:
    seen = seen_of([(1.0, 9.0), (2.0, 2.5), (2.1, None), (3.0, 3.25), (4.0, 9.0)])
    found = seen.latencies(2.0, 4.0)
    assert found.pop("histogram_us") == "268545:1 523319:1"
    assert found == {"count": 2, "p50_ms": 250.0, "p90_ms": 500.0, "p99_ms": 500.0, "max_ms": 500.0}
