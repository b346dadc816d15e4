"""Many deadlines, one timer; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.peers.timeouts import Timeouts
from tests.simulation.loop import VirtualTimeLoop

pytestmark = pytest.mark.unit


class Ledger:
    """Keys that wait, and when which of them expired."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.loop = loop
        self.waiting: dict[int, None] = {}
        self.expired: list[tuple[float, int]] = []
        self.timeouts = Timeouts(loop, self.waiting, self._expire)

    def add(self, key: int, timeout_s: float) -> None:
        self.waiting[key] = None
        self.timeouts.add(key, timeout_s)

    def _expire(self, key: int, timeout_s: float) -> None:
        del self.waiting[key]
        self.expired.append((self.loop.time(), key))


@pytest.fixture
def loop() -> Iterator[VirtualTimeLoop]:
    made = VirtualTimeLoop()
    yield made
    made.discard()


@given(
    entries=st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.none() | st.integers(0, 100)), min_size=1, max_size=40
    )
)
def test_each_key_expires_at_its_time_unless_it_was_answered(entries: list[tuple[int, int, int | None]]) -> None:
    """Entries: when a key is added, its timeout, when it is answered (ticks of 10 ms)."""
    loop = VirtualTimeLoop()
    ledger = Ledger(loop)
    for key, (begin, timeout, answer) in enumerate(entries):
        loop.call_at(begin / 100, ledger.add, key, timeout / 100)
        if answer is not None and answer >= begin:
            loop.call_at(answer / 100 + 0.005, ledger.waiting.pop, key, None)
    loop.run_until_complete(asyncio.sleep(3))
    expected = {
        key: (begin + timeout) / 100
        for key, (begin, timeout, answer) in enumerate(entries)
        if answer is None or answer < begin or begin + timeout <= answer
    }
    assert {key: pytest.approx(when_s, abs=0.0011) for when_s, key in ledger.expired} == expected
    assert ledger.expired == sorted(ledger.expired, key=lambda entry: entry[0])
    assert len(ledger.timeouts) == 0 and not ledger.waiting
    loop.discard()


def test_a_thousand_deadlines_have_one_timer(loop: VirtualTimeLoop) -> None:
    ledger = Ledger(loop)
    for key in range(1_000):
        ledger.add(key, 10 - key / 1_000)
    assert sum(not timer._cancelled for timer in loop._scheduled) == 1


def test_answered_requests_do_not_pile_up(loop: VirtualTimeLoop) -> None:
    ledger = Ledger(loop)
    ledger.add(-1, 3600)
    for key in range(10_000):
        ledger.add(key, 60)
        del ledger.waiting[key]
        assert len(ledger.timeouts) < 100


def test_nothing_expires_after_close(loop: VirtualTimeLoop) -> None:
    ledger = Ledger(loop)
    ledger.add(1, 1)
    ledger.timeouts.close()
    loop.run_until_complete(asyncio.sleep(5))
    assert ledger.expired == []
