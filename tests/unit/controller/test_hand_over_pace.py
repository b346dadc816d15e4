"""How many partitions are handed over at once: more while it is quick, fewer once it is slow."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.controller.hand_over_pace import QUICK_S, REST_S, SLOW_S, HandOverPace, Key

pytestmark = pytest.mark.unit

WAIT_S = 1.0


def keys(first: int, count: int) -> list[Key]:
    return [(UUID(int=1), number) for number in range(first, first + count)]


class Moves:
    """Makes as many hand-overs as there is room for, round after round, each of which takes `seconds`."""

    def __init__(self, at_first: int = 2, at_once_max: int = 32) -> None:
        self.pace = HandOverPace(at_first, at_once_max, WAIT_S)
        self.now_s = 100.0
        self._next = 0

    def round(self, seconds: float) -> int:
        """How many there were."""
        count = self.pace.room
        some = keys(self._next, count)
        self._next += count
        self.pace.begin(some, self.now_s)
        assert self.pace.room == 0
        self.now_s += seconds
        for key in some:
            self.pace.served(key, self.now_s)
        return count


def test_quick_ones_become_twice_as_many_each_time_up_to_the_most() -> None:
    moves = Moves()
    assert [moves.round(QUICK_S * 0.9) for _ in range(6)] == [2, 4, 8, 16, 32, 32]


def test_after_a_slow_one_there_are_half_as_many_and_they_grow_one_by_one() -> None:
    moves = Moves()
    for _ in range(4):
        moves.round(QUICK_S * 0.9)
    assert moves.round(SLOW_S + 0.01) == 32
    assert [moves.round(QUICK_S * 0.9) for _ in range(3)] == [16, 16, 17]


def test_never_fewer_than_at_first() -> None:
    moves = Moves()
    assert [moves.round(0.9) for _ in range(3)] == [2, 2, 2]


def test_one_that_is_neither_quick_nor_slow_changes_nothing() -> None:
    moves = Moves()
    assert [moves.round((QUICK_S + SLOW_S) / 2) for _ in range(3)] == [2, 2, 2]


def test_after_a_rest_nothing_is_known_any_more() -> None:
    moves = Moves()
    for _ in range(3):
        moves.round(QUICK_S * 0.9)
    moves.now_s += REST_S + 0.1
    moves.pace.begin(keys(1_000, 1), moves.now_s)
    assert moves.pace.room == 1


def test_one_that_is_never_served_is_not_waited_for_and_counts_as_slow() -> None:
    moves = Moves()
    for _ in range(3):
        moves.round(QUICK_S * 0.9)
    lost, served = keys(1_000, 1), keys(1_001, 1)
    moves.pace.begin(lost, moves.now_s)
    moves.pace.begin(served, moves.now_s + 0.5)
    assert moves.pace.next_end_s == moves.now_s + WAIT_S
    moves.pace.expire(moves.now_s + WAIT_S)
    assert list(moves.pace.under_way) == served
    assert moves.pace.room == 8 - 1


def test_what_is_not_under_way_is_nothing() -> None:
    pace = HandOverPace(2, 8, WAIT_S)
    pace.served(keys(5, 1)[0], 1.0)
    pace.expire(1_000.0)
    assert pace.room == 2
