"""When half messages are checked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.half.check_schedule import CheckSchedule, CheckTerms, DueCheck
from bmq.log.half.half_order import HalfMessage

pytestmark = pytest.mark.unit

TERMS = CheckTerms(first_ms=6, interval_ms=30, checks_max=3)


def schedule(*held_ms: int, now_ms: int = 0, terms: CheckTerms = TERMS) -> CheckSchedule:
    found = CheckSchedule(terms)
    for offset, at_ms in enumerate(held_ms):
        found.add(HalfMessage(offset, 0, at_ms, "id"), now_ms)
    return found


def taken(checks: CheckSchedule, until_ms: int, from_ms: int = 0) -> list[tuple[int, int, int | None]]:
    """(when, message, number), as of an owner that looks each ms."""
    return [(now_ms, *one) for now_ms in range(from_ms, until_ms) for one in checks.take(now_ms, 9)]


def test_first_after_six_then_each_interval_then_given_up() -> None:
    assert taken(schedule(0), 150) == [(6, 0, 1), (36, 0, 2), (66, 0, 3), (96, 0, None), (126, 0, None)]


def test_a_decided_message_is_not_checked() -> None:
    checks = schedule(0, 1)
    assert checks.take(7, 9) == [DueCheck(0, 1), DueCheck(1, 1)]
    checks.forget(0)
    checks.forget(77)
    assert taken(checks, 100, 8) == [(37, 1, 2), (67, 1, 3), (97, 1, None)]
    checks.forget(1)
    assert checks.next_ms is None and len(checks) == 0


def test_what_was_missed_is_not_made_up_for() -> None:
    checks = schedule(0)
    assert checks.take(70, 9) == [DueCheck(0, 1)], "three times have passed, and it was asked once"
    assert taken(checks, 200, 70) == [(96, 0, 2), (126, 0, 3), (156, 0, None), (186, 0, None)]


def test_checks_that_reached_nobody_do_not_count() -> None:
    checks = schedule(0)
    assert checks.take(6, 9) == [DueCheck(0, 1)]
    checks.not_made([0, 5])
    assert taken(checks, 70, 7) == [(36, 0, 1), (66, 0, 2)]


def test_no_more_are_taken_than_wanted() -> None:
    checks = schedule(0, 0, 0)
    assert [one.offset for one in checks.take(6, 2)] == [0, 1]
    assert [one.offset for one in checks.take(6, 2)] == [2]
    assert checks.take(6, 2) == []


def test_a_new_owner_checks_at_least_once_before_it_gives_up() -> None:
    assert taken(schedule(0, now_ms=40), 140, 40) == [(66, 0, 3), (96, 0, None), (126, 0, None)]
    assert taken(schedule(0, now_ms=1000), 1060, 1000) == [(1026, 0, 3), (1056, 0, None)], "all was passed"


def test_a_clock_that_is_behind_does_not_put_checks_off() -> None:
    assert taken(schedule(1_000_000, now_ms=0), 70) == [(30, 0, 1), (60, 0, 2)]


def test_decided_messages_leave_no_trace() -> None:
    checks = schedule(*range(5_000))
    for offset in range(5_000):
        checks.forget(offset)
    assert len(checks) == 0 and len(checks._times._heap) <= 1_000


@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 3), st.booleans()), max_size=30),
)
def test_nothing_is_early_and_the_numbers_count_up(held: list[int], steps: list[tuple[int, int, bool]]) -> None:
    now_ms = 0
    checks = schedule(*held)
    last: dict[int, int] = {}
    for after_ms, count_max, forgets in steps:
        now_ms += after_ms
        for offset, number in checks.take(now_ms, count_max):
            before = last.get(offset, 0)
            assert now_ms >= min(held[offset] + TERMS.first_ms, TERMS.interval_ms), "not before its time"
            assert number in (before + 1, None) and (number is not None or before == TERMS.checks_max)
            last[offset] = number or before
        if forgets:
            checks.forget(0)
            last.pop(0, None)
