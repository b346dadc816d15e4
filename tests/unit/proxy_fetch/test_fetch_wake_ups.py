"""One wake-up per partition for all who wait."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import pytest

from bmq.log.partition_log import TopicPartition
from bmq.proxy.fetch_wake_ups import PartitionWaits
from tests.fakes.partition_log import FakePartitionLog

pytestmark = pytest.mark.unit


def test_many_waiters_are_one_callback_of_the_log() -> None:
    log, waits, woken = FakePartitionLog(TopicPartition(UUID(int=1), 0)), PartitionWaits(), []  # type: ignore[var-annotated]
    for number in range(100):
        waits.add(log, partial(woken.append, number))
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


def test_who_reads_committed_records_sleeps_while_the_high_watermark_alone_moves() -> None:
    log, waits, woken = FakePartitionLog(TopicPartition(UUID(int=1), 0)), PartitionWaits(), []
    log.last_stable_offset_bound = 0
    waits.add(log, lambda: woken.append("committed"), is_committed=True)
    waits.add(log, lambda: woken.append("every"))
    for high_watermark in (1, 2, 3):
        log._high_watermark = high_watermark
        log.wake()
        assert woken == ["every"] and len(waits) == log.waiting_count == 1
    log.last_stable_offset_bound = 2
    log._high_watermark = 4
    log.wake()
    assert woken == ["every", "committed"] and log.waiting_count == 0


def test_who_reads_committed_records_wakes_when_something_else_has_changed() -> None:
    log, waits, woken = FakePartitionLog(TopicPartition(UUID(int=1), 0)), PartitionWaits(), []
    log.last_stable_offset_bound = 0
    waits.add(log, lambda: woken.append("ended"), is_committed=True)
    log.wake()
    assert woken == ["ended"]
    waits.add(log, lambda: woken.append("deleted"), is_committed=True)
    log._high_watermark, log._log_start_offset = 5, 3
    log.wake()
    assert woken == ["ended", "deleted"]
