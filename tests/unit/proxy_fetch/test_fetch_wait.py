"""One wake-up per partition for all who wait, and one timer for all deadlines."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from bmq.log.partition_log import TopicPartition
from bmq.proxy.fetch_wait import Deadlines, PartitionWaits
from tests.fakes.partition_log import FakePartitionLog

pytestmark = pytest.mark.unit


def test_many_waiters_are_one_callback_of_the_log() -> None:
    log, waits, woken = FakePartitionLog(TopicPartition(UUID(int=1), 0)), PartitionWaits(), []
    for number in range(100):
        waits.add(log, lambda number=number: woken.append(number))
    assert log.waiting_count == 1
    log.wake()
    assert woken == list(range(100)) and log.waiting_count == 0
    log.wake()
    assert len(woken) == 100


def test_who_was_discarded_is_not_woken() -> None:
    log, waits, woken = FakePartitionLog(TopicPartition(UUID(int=1), 0)), PartitionWaits(), []

    def first() -> None:
        woken.append("first")

    def second() -> None:
        woken.append("second")

    waits.add(log, first)
    waits.add(log, second)
    waits.discard(log, second)
    log.wake()
    assert woken == ["first"]


def test_a_woken_waiter_may_wait_again() -> None:
    log, waits, count = FakePartitionLog(TopicPartition(UUID(int=1), 0)), PartitionWaits(), 0

    def wake() -> None:
        nonlocal count
        count += 1
        waits.add(log, wake)

    waits.add(log, wake)
    for _ in range(3):
        log.wake()
    assert count == 3 and log.waiting_count == 1
    waits.close()
    assert log.waiting_count == 0


async def test_deadlines_fire_in_time_and_never_before() -> None:
    loop = asyncio.get_running_loop()
    deadlines, fired, done = Deadlines(loop), [], loop.create_future()
    begun_s = loop.time()

    def expire(delay_s: float) -> None:
        assert loop.time() >= begun_s + delay_s
        fired.append(delay_s)
        if len(fired) == 3:
            done.set_result(None)

    for delay_s in (0.02, 0.005, 0.03):
        deadlines.add(lambda delay_s=delay_s: expire(delay_s), begun_s + delay_s)

    def never() -> None:
        raise AssertionError("discarded")

    deadlines.add(never, begun_s + 0.01)
    deadlines.discard(never)
    await asyncio.wait_for(done, 5)
    assert fired == [0.005, 0.02, 0.03] and len(deadlines) == 0
    deadlines.close()
