"""The newest records of a partition: complete between its ends, bounded by bytes of its own and of all windows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from bmq.gateway.byte_budget import ByteBudget
from bmq.gateway.tail_window import TailWindow
from tests.unit.gateway.records import held

pytestmark = pytest.mark.unit

SIZE = held(0).size_bytes


def window(records: int, start: int = 0, budget: ByteBudget | None = None) -> TailWindow:
    return TailWindow(start, records * SIZE, budget or ByteBudget(1_000_000_000))


def test_a_new_window_covers_its_end_alone() -> None:
    one = window(3, start=7)
    assert [one.covers(offset) for offset in (6, 7, 8)] == [False, True, False]
    assert one.read(7, 10) == []
    with pytest.raises(ValueError, match="offset 6 is not between 7 and 7"):
        one.read(6, 10)


def test_it_forgets_the_oldest_and_gives_their_bytes_back() -> None:
    budget = ByteBudget(1_000_000)
    one = window(3, budget=budget)
    for offset in range(10):
        one.add(held(offset))
    assert (one.low, one.high, len(one)) == (7, 10, 3)
    assert budget.used_bytes == 3 * SIZE
    one.clear()
    assert (one.low, one.high, budget.used_bytes) == (10, 10, 0)


def test_all_windows_together_are_bounded() -> None:
    budget = ByteBudget(4 * SIZE)
    one, two = window(100, budget=budget), window(100, budget=budget)
    for offset in range(4):
        one.add(held(offset))
    for offset in range(4):
        two.add(held(offset))
    assert budget.used_bytes <= 5 * SIZE
    assert two.high == 4
    assert len(two) >= 1


def test_an_end_without_a_record_is_covered_and_repeated_records_are_left_out() -> None:
    one = window(10)
    one.add(held(3))
    one.advance(6)
    one.advance(2)
    one.add(held(3))
    one.add(held(8))
    assert [record.offset for record in one.read(0, 10)] == [3, 8]
    assert [record.offset for record in one.read(4, 1)] == [8]
    assert one.high == 9


@given(lists(integers(1, 5), max_size=700), integers(1, 40))
def test_it_is_complete_from_its_low_end_on(steps: list[int], records: int) -> None:
    one = window(records)
    added: list[int] = []
    offset = -1
    for step in steps:
        offset += step
        one.add(held(offset))
        added.append(offset)
    for start in {one.low, (one.low + one.high) // 2, one.high}:
        assert [record.offset for record in one.read(start, 10_000)] == [each for each in added if each >= start]
    assert len(one) <= max(1, records)
