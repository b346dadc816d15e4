"""How many starts run at once, by how late the loop and the appends are."""

from __future__ import annotations

import pytest

from bmq.broker.start_pace import (
    APPEND_LATE_FACTOR,
    APPEND_LATE_S,
    LOOP_LATE_S,
    STARTS_AT_FIRST,
    STARTS_MIN,
    StartPace,
)

pytestmark = pytest.mark.unit

IN_TIME_S = LOOP_LATE_S / 2
QUICK_S = APPEND_LATE_S / 2


def test_more_starts_are_allowed_while_nothing_is_late_and_fewer_when_something_is() -> None:
    pace = StartPace(8)
    pace.begin(QUICK_S)
    assert pace.allowed == STARTS_AT_FIRST
    for _ in range(10):
        pace.adjust(IN_TIME_S, QUICK_S, is_quiet=False)
    assert pace.allowed == 8
    pace.adjust(LOOP_LATE_S * 2, QUICK_S, is_quiet=False)
    assert pace.allowed == 4
    for allowed in (2, 1, 1):
        pace.adjust(IN_TIME_S, QUICK_S * APPEND_LATE_FACTOR + APPEND_LATE_S, is_quiet=False)
        assert pace.allowed == allowed >= STARTS_MIN
    pace.adjust(LOOP_LATE_S * 2, None, is_quiet=True)
    assert pace.allowed == STARTS_MIN
    pace.end()
    assert pace.allowed == STARTS_AT_FIRST


def test_too_few_appends_say_nothing_unless_nobody_appends() -> None:
    """Appends that have become slow are few: that is no reason for more starts."""
    pace = StartPace(8)
    pace.begin(QUICK_S)
    for _ in range(5):
        pace.adjust(IN_TIME_S, None, is_quiet=False)
    assert pace.allowed == STARTS_AT_FIRST
    pace.adjust(IN_TIME_S, None, is_quiet=True)
    assert pace.allowed == STARTS_AT_FIRST + 1


def test_what_is_late_goes_by_what_appends_took_before() -> None:
    """A store whose appends always take 40 ms is not late with 100."""
    pace = StartPace(8)
    pace.begin(0.04)
    pace.adjust(IN_TIME_S, 0.1, is_quiet=False)
    assert pace.allowed == STARTS_AT_FIRST + 1
    pace.adjust(IN_TIME_S, 0.04 * APPEND_LATE_FACTOR + 0.001, is_quiet=False)
    assert pace.allowed == (STARTS_AT_FIRST + 1) // 2
    pace.begin(QUICK_S / 10)
    pace.adjust(IN_TIME_S, QUICK_S, is_quiet=False)
    assert pace.allowed == (STARTS_AT_FIRST + 1) // 2 + 1


def test_a_node_that_had_no_appends_starts_as_fast_as_its_loop_allows() -> None:
    """The partitions that begin to work meanwhile slow the rest down no more than these slow them."""
    pace = StartPace(8)
    pace.begin(None)
    for append_s in (0.2, None, 0.5, 0.1, None, 0.3):
        pace.adjust(IN_TIME_S, append_s, is_quiet=False)
    assert pace.allowed == 8
    pace.adjust(LOOP_LATE_S * 2, None, is_quiet=False)
    assert pace.allowed == 4


def test_a_smaller_limit_holds() -> None:
    pace = StartPace(1)
    pace.begin(None)
    pace.adjust(1.0, 1.0, is_quiet=False)
    assert pace.allowed == 1
    pace.adjust(0.0, None, is_quiet=True)
    assert pace.allowed == 1
