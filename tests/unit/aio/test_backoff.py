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


def test_a_pause_takes_its_time() -> None:
    loop = VirtualTimeLoop()
    backoff = Backoff(None, first_s=1.0, max_s=10.0)
    loop.run_until_complete(backoff.pause())
    loop.run_until_complete(backoff.pause())
    assert loop.time() == 3.0
    loop.discard()
