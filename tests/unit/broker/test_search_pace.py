"""Searches for more replicas: bounded for all partitions together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.broker.search_pace import SearchPace

pytestmark = pytest.mark.unit


@given(
    per_s=st.integers(1, 50),
    pauses_s=st.lists(st.one_of(st.just(0.0), st.floats(0.0, 5.0)), max_size=200),
)
def test_never_more_in_a_time_than_its_share_and_one_second_of_it(per_s: int, pauses_s: list[float]) -> None:
    pace = SearchPace(per_s)
    now_s = 1_000.0
    taken: list[float] = []
    for pause_s in pauses_s:
        now_s += pause_s
        if pace.take(now_s):
            taken.append(now_s)
    for first, begin_s in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= per_s * (taken[last] - begin_s + 1) + 1e-6


def test_it_goes_on_for_ever() -> None:
    pace = SearchPace(4.0)
    assert sum(pace.take(100.0) for _ in range(10)) == 4
    assert sum(pace.take(100.0 + second) for second in range(1, 101) for _ in range(10)) == 400
