"""Who is named a moment longer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.membership.departures import NAMED_S, Departures
from bmq.metadata.image import Node

pytestmark = pytest.mark.unit


def node(node_id: int) -> Node:
    return Node(node_id, "h", node_id)


def test_a_node_is_named_for_a_while_after_it_left() -> None:
    departures = Departures()
    assert departures.recent({1, 2}, 0.0) == ()
    departures.left(node(2), 10.0)
    shown = departures.recent({1}, 10.0)
    assert shown == (node(2),)
    assert departures.recent({1}, 10.0 + NAMED_S - 0.001) is shown
    assert departures.recent({1}, 10.0 + NAMED_S) == ()


def test_one_that_is_back_is_not_named_twice() -> None:
    departures = Departures()
    departures.left(node(2), 0.0)
    assert departures.recent({1, 2}, 1.0) == ()
    assert departures.recent({1}, 2.0) == (node(2),)


@given(st.lists(st.tuples(st.integers(1, 4), st.floats(0, 2)), max_size=20), st.sets(st.integers(1, 4)))
def test_it_names_exactly_those_that_left_within_the_time(events: list[tuple[int, float]], present: set[int]) -> None:
    departures, now, left_at = Departures(), 0.0, dict[int, float]()
    for node_id, pause in events:
        now += pause
        departures.left(node(node_id), now)
        left_at[node_id] = now
        expected = sorted(n for n, at in left_at.items() if at + NAMED_S > now and n not in present)
        assert [each.node_id for each in departures.recent(present, now)] == expected
