"""One wake-up per partition for all who wait."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.log.partition_log import TopicPartition
from bmq.proxy.fetch_wait import PartitionWaits
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
