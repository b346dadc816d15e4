"""The producer that all calls of a user share."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as LibraryProducer

from bmq.gateway import publishing
from bmq.gateway.publish_requests import NewRecord, Outcome, Publishable
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

    def produce(self, topic: str, value: bytes, key: bytes, *, on_delivery: Any, **named: Any) -> None:
        self.values.append(value)
        self.has_some.set()
        self._untold.append(on_delivery)

    def produce_batch(self, topic: str, messages: list[dict[str, Any]]) -> int:
        for message in messages:
            self.produce(topic, message["value"], message["key"], on_delivery=message["callback"])
        return len(messages)

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


def request(count: int, named: NewRecord | None = None) -> Publishable:
    records: list[NewRecord] = [{"value": b"%d" % n, "key": None, **(named or {})} for n in range(count)]
    return Publishable("t", records, partition_max=0, is_plain=not named)


@pytest.mark.parametrize("named", [{}, {"partition": 0}])
async def test_others_have_their_turn_while_many_records_are_handed_over(
    monkeypatch: pytest.MonkeyPatch, named: NewRecord
) -> None:
    one, producer = made(monkeypatch)
    counts: list[int] = []
    beginning = asyncio.ensure_future(one.begin(request(5, named)))
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


def with_library(monkeypatch: pytest.MonkeyPatch, **config: Any) -> publishing.Publishing:
    """The library's own producer, without a cluster."""
    one, _ = made(monkeypatch)
    options = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "message.timeout.ms": 3_600_000}
    one._producer = LibraryProducer({**options, **config})
    return one


def refused(outcome: Outcome) -> list[tuple[int, int, str]]:
    """Index, count and status of the failures, once the rest is written."""
    return [(one.index, one.count, one.message) for one in outcome.response().failures]


@pytest.mark.parametrize("named", [{}, {"partition": 0}])
async def test_what_the_library_does_not_take_is_refused_and_the_rest_is_not(
    monkeypatch: pytest.MonkeyPatch, named: NewRecord
) -> None:
    one = with_library(monkeypatch, **{"message.max.bytes": 2_000})
    monkeypatch.setattr(publishing, "RECORDS_PER_TURN", 10)
    wanted = request(3, named)
    wanted.records[1]["value"] = b"x" * 5_000
    outcome = Outcome(3)
    done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    one._produce(wanted, outcome, done, range(3))
    assert not done.done()
    assert [(index, count) for index, count, _ in refused(outcome)] == [(1, 1)]
    assert "size" in refused(outcome)[0][2].lower()
    one._producer.purge()
    while not done.done():
        one._call_back()
    assert [index for index, _, _ in refused(done.result())] == [0, 1, 2]
    await one.close()


@pytest.mark.parametrize("named", [{}, {"partition": 0}])
async def test_a_full_producer_says_so(monkeypatch: pytest.MonkeyPatch, named: NewRecord) -> None:
    one = with_library(monkeypatch, **{"queue.buffering.max.messages": 1})
    monkeypatch.setattr(publishing, "RECORDS_PER_TURN", 10)
    outcome = Outcome(3)
    done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    one._produce(request(3, named), outcome, done, range(3))
    assert refused(outcome) == [(1, 2, "the producer is full; send it again")]
    one._producer.purge()
    await one.close()


@pytest.mark.parametrize("named", [{}, {"partition": 0}])
async def test_a_topic_that_the_library_refuses_fails_all_records(
    monkeypatch: pytest.MonkeyPatch, named: NewRecord
) -> None:
    one = with_library(monkeypatch)
    monkeypatch.setattr(publishing, "RECORDS_PER_TURN", 10)
    done = await one.begin(request(2, named)._replace(topic="t" * 600))
    ((index, count, message),) = refused(await asyncio.wait_for(done, 30))
    assert (index, count) == (0, 2) and message.startswith("the record is refused: ")
    await one.close()
