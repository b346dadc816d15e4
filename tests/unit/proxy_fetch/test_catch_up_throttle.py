"""Produces that get slow hold catch-up reads back, and nothing else does."""

from __future__ import annotations

from bisect import bisect_left
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.proxy.catch_up_throttle import (
    ADJUST_INTERVAL_S,
    BOUNDS_S,
    CREDIT_STEPS,
    QUIET_STEPS_MAX,
    SETTLING_STEPS,
    TURNS_AHEAD_MAX_S,
    CatchUpThrottle,
)

pytestmark = pytest.mark.unit

MIB = 1024 * 1024
MIN_BYTES_PER_S = 16 * MIB
SLICE_BYTES = 512 * 1024
CALM_S = 0.002
SLOW_S = 0.030


def throttle(ratio_max: float = 1.5) -> CatchUpThrottle:
    return CatchUpThrottle(ratio_max=ratio_max, bytes_per_s_min=MIN_BYTES_PER_S, slice_bytes=SLICE_BYTES)


def produces(latency_s: float, count: int = 100, *, slow: int = 0, slow_s: float = SLOW_S) -> list[int]:
    counts = [0] * (len(BOUNDS_S) + 1)
    counts[bisect_left(BOUNDS_S, latency_s)] += count
    counts[bisect_left(BOUNDS_S, slow_s)] += slow
    return counts


def look(one: CatchUpThrottle, seen: list[int], *, bytes_per_s: float = 0.0) -> float:
    if bytes_per_s:
        one.settle(0.0, round(bytes_per_s * ADJUST_INTERVAL_S))
    one.adjust(seen, ADJUST_INTERVAL_S)
    return one.limit_bytes_per_s


def calm(ratio_max: float = 1.5) -> CatchUpThrottle:
    one = throttle(ratio_max)
    for _ in range(QUIET_STEPS_MAX + 1):
        look(one, produces(CALM_S))
    return one


def limited() -> CatchUpThrottle:
    """At 500 MiB/s, half of what was too much."""
    one = calm()
    drain(one, produces(SLOW_S))
    return one


def drain(one: CatchUpThrottle, seen: list[int]) -> float:
    """A look during which readers took all they might."""
    return look(one, seen, bytes_per_s=min(one.limit_bytes_per_s, 1000 * MIB))


def test_without_produces_there_is_no_limit() -> None:
    one = throttle()
    for _ in range(100):
        assert look(one, produces(CALM_S, 0), bytes_per_s=1000 * MIB) == inf
    assert one.turn(5.0) == 5.0 and one.slice_bytes_max is None


def test_the_limit_ends_with_the_produces() -> None:
    one = calm()
    assert drain(one, produces(SLOW_S)) < inf
    for _ in range(4):
        drain(one, produces(CALM_S, 0))
    assert one.limit_bytes_per_s == inf


def test_before_produces_suffer_there_is_no_limit() -> None:
    one = calm()
    assert all(drain(one, produces(CALM_S)) == inf for _ in range(100))
    assert one.turn(5.0) == 5.0
    assert drain(one, produces(SLOW_S)) == 500 * MIB


def test_a_limit_is_forgotten_when_nobody_reads_a_backlog_any_more() -> None:
    one = calm()
    drain(one, produces(SLOW_S))
    for _ in range(QUIET_STEPS_MAX):
        assert one.limit_bytes_per_s < inf
        look(one, produces(CALM_S))
    assert one.limit_bytes_per_s == inf


def test_it_can_be_switched_off() -> None:
    one = calm(ratio_max=0)
    assert all(look(one, produces(SLOW_S), bytes_per_s=1000 * MIB) == inf for _ in range(10))


def test_calm_is_what_is_without_catch_up_reads() -> None:
    one = calm()
    assert CALM_S <= one.calm_p99_s <= CALM_S * 1.25
    for _ in range(100):
        drain(one, produces(CALM_S * 1.1))
    assert one.calm_p99_s <= CALM_S * 1.25


def test_a_burst_of_other_work_does_not_count_as_calm() -> None:
    one = calm()
    for _ in range(15):
        look(one, produces(CALM_S, slow=10))
    assert one.calm_p99_s <= CALM_S * 1.25


def test_slow_produces_halve_the_limit_and_fast_ones_let_it_grow() -> None:
    one = limited()
    before = one.limit_bytes_per_s
    for _ in range(10):
        drain(one, produces(CALM_S))
    grown = one.limit_bytes_per_s
    assert 1.5 * before < grown < 2 * before
    assert drain(one, produces(CALM_S, slow=20)) == pytest.approx(grown / 2)


def test_what_a_lower_limit_brings_is_not_judged_at_once() -> None:
    one = limited()
    before = one.limit_bytes_per_s
    for _ in range(SETTLING_STEPS):
        assert drain(one, produces(SLOW_S)) == before
    assert drain(one, produces(SLOW_S)) == before / 2


def test_a_burst_is_excused_by_what_was_better_in_the_last_ten_seconds() -> None:
    one = limited()
    for _ in range(2 * CREDIT_STEPS):
        look(one, produces(CALM_S), bytes_per_s=one.limit_bytes_per_s)
    before = one.limit_bytes_per_s
    assert look(one, produces(CALM_S, slow=CREDIT_STEPS), bytes_per_s=before) == before
    assert look(one, produces(CALM_S, slow=5), bytes_per_s=before) == pytest.approx(before / 2)


def test_after_a_burst_that_is_none_of_its_doing_the_limit_is_soon_as_high_as_before() -> None:
    one = limited()
    before = one.limit_bytes_per_s
    for _ in range(5 * (SETTLING_STEPS + 1)):
        drain(one, produces(SLOW_S))
    assert one.limit_bytes_per_s == MIN_BYTES_PER_S
    looks = 0
    while one.limit_bytes_per_s < before:
        drain(one, produces(CALM_S))
        looks += 1
    assert looks * ADJUST_INTERVAL_S < 15.0


def test_one_slow_produce_in_a_hundred_is_what_a_99th_percentile_is_about() -> None:
    one = limited()
    before = one.limit_bytes_per_s
    for _ in range(100):
        drain(one, produces(CALM_S, 99, slow=1))
    assert one.limit_bytes_per_s == before


def test_a_limit_that_nobody_comes_near_does_not_grow() -> None:
    one = limited()
    before = one.limit_bytes_per_s
    for _ in range(100):
        look(one, produces(CALM_S), bytes_per_s=before / 4)
    assert one.limit_bytes_per_s == before


def test_slow_at_the_least_speed_is_the_new_normal() -> None:
    one = calm()
    for _ in range(8 * (SETTLING_STEPS + 1)):
        drain(one, produces(SLOW_S))
    assert one.limit_bytes_per_s == MIN_BYTES_PER_S
    for _ in range(100):
        drain(one, produces(SLOW_S))
    assert one.calm_p99_s >= SLOW_S and one.limit_bytes_per_s > 2 * MIN_BYTES_PER_S


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(0, 2000)), max_size=60))
def test_never_below_the_least_speed(history: list[tuple[int, int, int]]) -> None:
    one = throttle()
    for fast, slow, mib_per_s in history:
        assert look(one, produces(CALM_S, fast, slow=slow), bytes_per_s=mib_per_s * MIB) >= MIN_BYTES_PER_S


@given(st.integers(1, 200))
def test_who_comes_together_gets_turns_one_behind_the_other(count: int) -> None:
    one = limited()
    apart_s = SLICE_BYTES / one.limit_bytes_per_s
    for number in range(count):
        assert one.turn(1.0) == pytest.approx(1.0 + min(number * apart_s, TURNS_AHEAD_MAX_S))


@given(st.lists(st.tuples(st.floats(0, 0.1), st.integers(0, 4 * SLICE_BYTES)), min_size=1, max_size=200))
def test_what_a_turn_took_is_paid_for(fetches: list[tuple[float, int]]) -> None:
    one = limited()
    now_s = paid_until_s = 1.0
    for after_s, taken_bytes in fetches:
        now_s += after_s
        due_s = one.turn(now_s)
        assert due_s == pytest.approx(max(now_s, paid_until_s))
        paid_until_s = min(due_s + SLICE_BYTES / one.limit_bytes_per_s, now_s + TURNS_AHEAD_MAX_S)
        one.settle(now_s, taken_bytes)
        more_s = (taken_bytes - SLICE_BYTES) / one.limit_bytes_per_s
        paid_until_s = min(paid_until_s + more_s, now_s + TURNS_AHEAD_MAX_S)
