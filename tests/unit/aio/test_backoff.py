"""Pauses between tries: doubling from the first to the longest, spread by jitter, short again after a success."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.aio.backoff import Backoff
from tests.simulation.loop import VirtualTimeLoop

pytestmark = pytest.mark.unit


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(None, first_s=0.01, max_s=0.05)
    assert [backoff.next_s() for _ in range(5)] == [0.01, 0.02, 0.04, 0.05, 0.05]
    assert backoff.failures == 5
    backoff.reset()
    assert (backoff.failures, backoff.next_s()) == (0, 0.01)


def test_the_first_pause_is_not_longer_than_the_longest() -> None:
    assert Backoff(None, first_s=2.0, max_s=0.5).next_s() == 0.5


@given(st.integers(), st.floats(0.001, 1.0), st.floats(0.001, 100.0), st.integers(1, 60))
def test_jitter_takes_up_to_a_half(seed: int, first_s: float, max_s: float, count: int) -> None:
    plain = Backoff(None, first_s=first_s, max_s=max_s)
    spread = Backoff(Random(seed), first_s=first_s, max_s=max_s)
    for _ in range(count):
        longest_s = plain.next_s()
        assert longest_s / 2 <= spread.next_s() <= longest_s


def test_pauses_of_long_tries_are_as_long_as_tries_up_to_the_bound() -> None:
    backoff = Backoff(None, first_s=0.01, max_s=0.05, tries_max=4)
    assert [backoff.next_s(1.0) for _ in range(4)] == [1.0, 2.0, 4.0, 4.0]
    assert backoff.next_s(0.001) == 0.05, "short tries have the usual pauses"


@given(st.integers(), st.floats(0.0, 100.0), st.integers(1, 8), st.integers(1, 60))
def test_pauses_of_rivals_are_spread_over_the_length_of_tries(
    seed: int, try_s: float, tries_max: int, count: int
) -> None:
    longest = Backoff(None, first_s=0.01, max_s=1.0, tries_max=tries_max)
    spread = Backoff(Random(seed), first_s=0.01, max_s=1.0, tries_max=tries_max)
    usual = Backoff(None, first_s=0.01, max_s=1.0)
    for _ in range(count):
        assert usual.next_s() / 2 <= spread.next_s(try_s) <= longest.next_s(try_s)


def test_a_long_try_changes_no_pause_where_no_rival_is_thought_of() -> None:
    assert Backoff(None, first_s=0.01, max_s=0.05).next_s(100.0) == 0.01


def test_a_pause_takes_its_time() -> None:
    loop = VirtualTimeLoop()
    backoff = Backoff(None, first_s=1.0, max_s=10.0)
    loop.run_until_complete(backoff.pause())
    loop.run_until_complete(backoff.pause())
    assert loop.time() == 3.0
    loop.discard()
