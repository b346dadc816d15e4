"""What a node says of its way to the store."""

from __future__ import annotations

import pytest

from bmq.membership.store_reach import StoreReach
from bmq.protocol.internal_messages import StoreState

pytestmark = pytest.mark.unit

SILENCE_S = 5.0


def reach() -> StoreReach:
    return StoreReach(SILENCE_S, 0.0)


def test_answers_say_less_than_writes() -> None:
    watched = reach()
    assert watched.state(1.0) is StoreState.ANSWERS, "a start gets its time"
    watched.wrote(2.0)
    assert watched.state(6.9) is StoreState.WRITABLE
    watched.answered(6.9)
    assert watched.state(7.0) is StoreState.ANSWERS


def test_without_an_answer_it_is_away_and_back_with_the_next_write_alone() -> None:
    watched = reach()
    watched.answered(1.0)
    assert watched.state(5.9) is StoreState.ANSWERS
    assert watched.state(6.0) is StoreState.AWAY
    watched.answered(7.0)
    assert watched.state(7.0) is StoreState.AWAY
    watched.wrote(8.0)
    assert watched.state(8.0) is StoreState.WRITABLE


def test_a_store_that_answers_and_lets_nobody_write_is_away() -> None:
    watched = reach()
    for second in range(5):
        watched.answered(second)
        watched.waits(second, is_stuck=True)
        assert watched.state(second) is StoreState.ANSWERS
    watched.answered(5.0)
    assert watched.state(5.0) is StoreState.AWAY


def test_a_write_elsewhere_or_an_end_of_waiting_begins_anew() -> None:
    watched = reach()
    watched.waits(0.0, is_stuck=True)
    watched.wrote(4.0)
    watched.waits(4.0, is_stuck=True)
    watched.answered(8.0)
    assert watched.state(8.0) is StoreState.WRITABLE
    watched.waits(8.5, is_stuck=False)
    watched.waits(9.0, is_stuck=True)
    watched.answered(13.0)
    assert watched.state(13.0) is StoreState.ANSWERS
