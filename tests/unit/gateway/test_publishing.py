"""The producer that all calls of a user share."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bmq.gateway import publishing
from bmq.gateway.publish_requests import NewRecord, Publishable
from bmq.gateway.settings import GatewaySettings

pytestmark = pytest.mark.unit


class Producer:
    """Writes what it has at the next poll."""

    def __init__(self, config: Any) -> None:
        self.values: list[bytes] = []
        self.has_some = asyncio.Event()
        self._untold: list[Any] = []

    def __len__(self) -> int:
        return len(self._untold)

    def produce(self, topic: str, value: bytes, key: bytes, *, on_delivery: Any) -> None:
        self.values.append(value)
        self.has_some.set()
        self._untold.append(on_delivery)

    def poll(self, _timeout_s: float) -> None:
        untold, self._untold = self._untold, []
        for offset, tell in enumerate(untold):
            tell(None, SimpleNamespace(partition=lambda: 0, offset=lambda offset=offset: offset))


class Topics:
    async def partition_count(self, topic: str) -> int:
        return 1


def made(monkeypatch: pytest.MonkeyPatch) -> tuple[publishing.Publishing, Producer]:
    monkeypatch.setattr(publishing, "Producer", Producer)
    monkeypatch.setattr(publishing, "RECORDS_PER_TURN", 2)
    principal: Any = SimpleNamespace(part=lambda kind: Topics(), config={}, settings=GatewaySettings())
    found = publishing.Publishing(principal)
    return found, found._producer


def request(count: int) -> Publishable:
    return Publishable("t", [NewRecord(b"%d" % n, None, {}) for n in range(count)], partition_max=0)


async def test_others_have_their_turn_while_many_records_are_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    one, producer = made(monkeypatch)
    counts: list[int] = []
    beginning = asyncio.ensure_future(one.begin(request(5)))
    while not beginning.done():
        await asyncio.sleep(0)
        counts.append(len(producer.values))
    assert {2, 4, 5} <= set(counts)
    outcome = await asyncio.wait_for(beginning.result(), 30)
    assert len(outcome.response().offsets) == 5
    assert producer.values == [b"0", b"1", b"2", b"3", b"4"]
    await one.close()


async def test_a_call_that_is_cancelled_leaves_all_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    one, producer = made(monkeypatch)
    beginning = asyncio.ensure_future(one.begin(request(5)))
    await producer.has_some.wait()
    assert len(producer.values) < 5
    beginning.cancel()
    await asyncio.wait({beginning})
    await one.close()
    assert (len(producer.values), len(producer)) == (5, 0)


async def test_a_fatal_error_that_the_library_raises_ends_this_producer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without the right to write idempotently: the library raises that from every poll."""
    one, producer = made(monkeypatch)

    def poll(_timeout_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no right", True))

    monkeypatch.setattr(producer, "poll", poll)
    one.tick()
    assert one._has_failed
    await one.close()
