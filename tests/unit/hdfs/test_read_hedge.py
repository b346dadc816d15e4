"""When a second DataNode is asked, and how often at most."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.hdfs.hedge import (
    AT_ONCE_MAX,
    DELAY_FACTOR,
    FIRST_DELAY_S,
    SAMPLES_LEAST,
    SAMPLES_MAX,
    SAVED_UP_MAX,
    SHARE_MAX,
    HedgeBudget,
    HedgeDelay,
)

pytestmark = pytest.mark.unit


def test_nothing_is_guessed_from_a_few_latencies() -> None:
    delay = HedgeDelay(0.02)
    for _ in range(SAMPLES_LEAST - 1):
        delay.observe(0.001)
    assert delay.delay_s == FIRST_DELAY_S
    delay.observe(0.001)
    assert delay.delay_s == 0.02


@given(st.lists(st.floats(0, 10), min_size=1, max_size=1000), st.floats(0.001, 1))
def test_the_delay_lies_above_most_recent_latencies(latencies: list[float], least_s: float) -> None:
    delay = HedgeDelay(least_s)
    for latency_s in latencies:
        delay.observe(latency_s)
    assert delay.delay_s >= least_s
    if len(latencies) >= SAMPLES_LEAST:
        # It is renewed every 16 latencies: those that came behind the last renewal are not in it.
        seen = latencies[: len(latencies) // SAMPLES_LEAST * SAMPLES_LEAST][-SAMPLES_MAX:]
        assert sum(latency_s > delay.delay_s for latency_s in seen) <= 0.05 * len(seen)
        assert delay.delay_s <= max(least_s, max(seen) * DELAY_FACTOR)


def test_old_latencies_are_forgotten() -> None:
    delay = HedgeDelay(0.02)
    for _ in range(SAMPLES_MAX):
        delay.observe(1.0)
    assert delay.delay_s == DELAY_FACTOR
    for _ in range(SAMPLES_MAX):
        delay.observe(0.001)
    assert delay.delay_s == 0.02


@given(st.lists(st.sampled_from(["read", "take", "end"]), max_size=2000))
def test_hedges_stay_within_their_share_and_number(orders: list[str]) -> None:
    budget = HedgeBudget()
    reads = hedges = running = 0
    for order in orders:
        if order == "read":
            budget.note_read()
            reads += 1
        elif order == "take" and budget.take():
            hedges += 1
            running += 1
        elif order == "end" and running:
            budget.end()
            running -= 1
        assert budget.at_once == running <= AT_ONCE_MAX
        assert hedges <= SAVED_UP_MAX + SHARE_MAX * reads + 1e-6


def test_the_budget_fills_up_again() -> None:
    budget = HedgeBudget()
    while budget.take():
        budget.end()
    for _ in range(int(1 / SHARE_MAX) + 1):
        budget.note_read()
    assert budget.take()
    assert not budget.take()
