"""Many deadlines, one timer; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.aio.deadlines import Deadlines
from tests.simulation.loop import VirtualTimeLoop

pytestmark = pytest.mark.unit


class Ledger:
    """When which key expired."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.loop = loop
        self.expired: list[tuple[float, int]] = []
        self.deadlines: Deadlines[int] = Deadlines(loop, self._expire)

    def add(self, key: int, timeout_s: float) -> None:
        self.deadlines.add(key, self.loop.time() + timeout_s)

    def _expire(self, key: int) -> None:
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
            loop.call_at(answer / 100 + 0.005, ledger.deadlines.discard, key)
    loop.run_until_complete(asyncio.sleep(3))
    expected = {
        key: (begin + timeout) / 100
        for key, (begin, timeout, answer) in enumerate(entries)
        if answer is None or answer < begin or begin + timeout <= answer
    }
    assert {key: pytest.approx(when_s, abs=0.0021) for when_s, key in ledger.expired} == expected
    assert ledger.expired == sorted(ledger.expired, key=lambda entry: entry[0])
    assert len(ledger.deadlines) == 0
    loop.discard()


def test_a_thousand_deadlines_have_one_timer(loop: VirtualTimeLoop) -> None:
    ledger = Ledger(loop)
    for key in range(1_000):
        ledger.add(key, 10 - key / 1_000)
    assert sum(not timer._cancelled for _, _, timer in loop._scheduled) == 1


def test_answered_requests_do_not_pile_up(loop: VirtualTimeLoop) -> None:
    ledger = Ledger(loop)
    ledger.add(-1, 3600)
    for key in range(10_000):
        ledger.add(key, 60)
        ledger.deadlines.discard(key)
        assert ledger.deadlines.entry_count < 100


def test_all_are_told_once_when_one_of_them_ends_the_others() -> None:
    loop = VirtualTimeLoop()
    told: list[int] = []

    def expired(key: int) -> None:
        told.append(key)
        if key == 1:
            deadlines.expire_all()

    deadlines: Deadlines[int] = Deadlines(loop, expired)
    for key in (1, 2, 3):
        deadlines.add(key, 1.0)
    loop.run_until_complete(asyncio.sleep(5))
    assert told == [1, 2, 3] and len(deadlines) == 0
    loop.discard()


def test_nothing_expires_after_close(loop: VirtualTimeLoop) -> None:
    ledger = Ledger(loop)
    ledger.add(1, 1)
    ledger.deadlines.close()
    loop.run_until_complete(asyncio.sleep(5))
    assert ledger.expired == []


def test_a_key_that_is_added_again_has_its_new_time_alone(loop: VirtualTimeLoop) -> None:
    ledger = Ledger(loop)
    ledger.add(1, 1)
    ledger.add(2, 2)
    ledger.add(1, 3)
    loop.run_until_complete(asyncio.sleep(5))
    assert [key for _, key in ledger.expired] == [2, 1] and ledger.expired[1][0] == pytest.approx(3, abs=0.0021)


class Key:
    """Something that can be looked at from afar."""


def test_a_key_that_is_discarded_is_let_go_of_at_once(loop: VirtualTimeLoop) -> None:
    deadlines: Deadlines[Key] = Deadlines(loop, lambda _: None)
    key, other = Key(), Key()
    deadlines.add(key, 60)
    deadlines.add(other, 60)
    deadlines.add(other, 61)
    seen = [ref(key), ref(other)]
    deadlines.discard(key)
    deadlines.discard(other)
    del key, other
    assert [one() for one in seen] == [None, None]


def test_keys_that_come_again_with_the_same_time_do_not_pile_up(loop: VirtualTimeLoop) -> None:
    ledger = Ledger(loop)
    for _ in range(50):
        for key in range(100):
            ledger.deadlines.discard(key)
            ledger.add(key, 60)
        assert ledger.deadlines.entry_count <= 2 * 100 + 65
    loop.run_until_complete(asyncio.sleep(61))
    assert sorted(key for _, key in ledger.expired) == list(range(100))


def test_one_that_is_added_while_another_expires_does_not_delay_a_third(loop: VirtualTimeLoop) -> None:
    expired: list[tuple[float, int]] = []

    def expire(key: int) -> None:
        expired.append((loop.time(), key))
        if key == 1:
            deadlines.add(2, 60)

    deadlines: Deadlines[int] = Deadlines(loop, expire)
    begun_s = loop.time()
    deadlines.add(1, begun_s + 1)
    deadlines.add(3, begun_s + 2)
    loop.run_until_complete(asyncio.sleep(5))
    assert [key for _, key in expired] == [1, 3]
    assert expired[1][0] == pytest.approx(begun_s + 2, abs=0.0021)


def test_all_can_be_told_at_once(loop: VirtualTimeLoop) -> None:
    ledger = Ledger(loop)
    for key in (3, 1, 2):
        ledger.add(key, key)
    ledger.deadlines.discard(1)
    ledger.deadlines.expire_all()
    assert ledger.expired == [(0, 3), (0, 2)] and len(ledger.deadlines) == 0
    loop.run_until_complete(asyncio.sleep(5))
    assert len(ledger.expired) == 2


async def test_deadlines_fire_in_time_and_never_before() -> None:
    loop = asyncio.get_running_loop()
    deadlines: Deadlines[Callable[[], None]] = Deadlines(loop, lambda expire: expire())
    fired, done = [], loop.create_future()
    begun_s = loop.time()

    def expire(delay_s: float) -> None:
        assert loop.time() >= begun_s + delay_s
        fired.append(delay_s)
        if len(fired) == 3:
            done.set_result(None)

    for delay_s in (0.02, 0.005, 0.03):
        deadlines.add(partial(expire, delay_s), begun_s + delay_s)

    def never() -> None:
        raise AssertionError("discarded")

    deadlines.add(never, begun_s + 0.01)
    deadlines.discard(never)
    await asyncio.wait_for(done, 5)
    assert fired == [0.005, 0.02, 0.03] and len(deadlines) == 0
    deadlines.close()
