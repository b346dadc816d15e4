"""A consumer group's streams and commits, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bmq.gateway import consumer_group
from bmq.gateway.consumer_group import ConsumerGroup
from bmq.gateway.credit import Deliveries
from bmq.gateway.held_records import HeldRecord
from bmq.gateway.settings import GatewaySettings
from bmq.gateway.source import Settlement
from bmq.gateway.subscriber import Subscriber
from bmq.gateway.subscription import Subscription

pytestmark = pytest.mark.unit


class Thread:
    """In place of ConsumerThread. `order_failure`: what each commit ends with."""

    order_failure: KafkaException | None = None

    def __init__(self, config: Any, take: Any, *, name: str) -> None:
        self.commits = 0
        self.is_closed = False
        self.has_committed = asyncio.Event()
        self.has_succeeded = asyncio.Event()

    async def order(self, function: Callable[[Any], Any]) -> Any:
        if self.is_closed:
            raise RuntimeError("the consumer is closed")

        def commit(**_: Any) -> None:
            self.commits += 1
            self.has_committed.set()
            if self.order_failure is not None:
                raise self.order_failure
            self.has_succeeded.set()

        return function(SimpleNamespace(subscribe=lambda *_, **__: None, commit=commit))

    async def close(self) -> None:
        self.is_closed = True


class Message:
    def __init__(self, offset: int) -> None:
        self.offset = lambda: offset

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"value"

    def headers(self) -> None:
        return None


class Counting(Deliveries):
    """Counts how often it looks at all that it holds."""

    passes = 0

    def withdraw(self, gone: Any) -> None:
        self.passes += 1
        super().withdraw(gone)


@pytest.fixture
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_group, "ConsumerThread", Thread)
    monkeypatch.setattr(consumer_group, "CHECK_S", 0.0)
    monkeypatch.setattr(consumer_group, "REVOKE_WAIT_S", 0.0)


def made(**settings: Any) -> tuple[ConsumerGroup, Thread]:
    principal: Any = SimpleNamespace(config={}, settings=GatewaySettings().model_copy(update=settings))
    group = ConsumerGroup(principal, Subscription(("t",), "g", False, True, None, None))
    thread: Any = group._thread
    return group, thread


def held_by(group: ConsumerGroup, count: int) -> tuple[Subscriber, Counting, Sequence[HeldRecord]]:
    """A stream that takes so many records and settles none."""
    subscriber = Subscriber(10_000, lambda: None)
    subscriber.deliveries = deliveries = Counting(10_000)
    subscriber.credit.add(10_000)
    group.join(subscriber)
    records = group.poll(subscriber, count, 1_000_000)
    for record in records:
        deliveries.deliver(record)
    assert len(records) == count
    return subscriber, deliveries, records


@pytest.mark.usefixtures("_no_cluster")
async def test_late_records_are_withdrawn_once_for_each_stream() -> None:
    group, _ = made(settle_wait_max_ms=0)
    group._check.cancel()
    group._take([Message(offset) for offset in range(60)])
    (_, one, _), (_, two, _) = held_by(group, 40), held_by(group, 20)
    group._take_back_late()
    assert (one.passes, two.passes, len(one), len(two)) == (1, 1, 0, 0)
    assert [record.offset for record in group._ready] == list(range(60))
    await group.close()


@pytest.mark.usefixtures("_no_cluster")
async def test_records_of_a_lost_partition_are_withdrawn_once_for_each_stream() -> None:
    group, _ = made()
    group._take([Message(offset) for offset in range(60)])
    _, deliveries, _ = held_by(group, 40)
    group._forget([("t", 0)])
    assert (deliveries.passes, len(deliveries), len(group._ready), group._used_bytes) == (1, 0, 0, 0)
    await group.close()


@pytest.mark.usefixtures("_no_cluster")
@pytest.mark.parametrize("code", [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.COORDINATOR_NOT_AVAILABLE])
async def test_a_group_closes_while_its_commit_keeps_failing(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    failure = KafkaException(KafkaError(code, retriable=code == KafkaError.COORDINATOR_NOT_AVAILABLE))
    monkeypatch.setattr(Thread, "order_failure", failure)
    group, thread = made()
    group._take([Message(0)])
    subscriber, _, records = held_by(group, 1)
    assert await group.settle(subscriber, Settlement.ACKNOWLEDGE, records) == [None]
    await thread.has_committed.wait()
    await group.leave(subscriber)
    await asyncio.wait_for(group.close(), 30)
    assert thread.is_closed


@pytest.mark.usefixtures("_no_cluster")
async def test_a_commit_that_was_refused_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thread, "order_failure", KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION)))
    group, thread = made()
    group._take([Message(0)])
    subscriber, _, records = held_by(group, 1)
    await group.settle(subscriber, Settlement.ACKNOWLEDGE, records)
    await thread.has_committed.wait()
    monkeypatch.setattr(Thread, "order_failure", None)
    await asyncio.wait_for(thread.has_succeeded.wait(), 30)
    assert thread.commits >= 2
    await group.close()
