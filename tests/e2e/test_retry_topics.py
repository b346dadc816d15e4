"""Retry topics with a stock client: a record that fails comes back after each delay, and is a dead letter after the last."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from typer.testing import CliRunner

from bmq.cli.commands import app
from testing.processes import eventually
from testing.servers import BmqServer
from tests.e2e.conftest import ServerMaker, create_topic, unique_name
from tests.e2e.test_delayed_records import consume

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120), pytest.mark.bmq_only]

LETTERS = {"errors.deadletterqueue.group.enable": "true"}
LEVELS_MS = (300, 600)


def headers_of(message: Message) -> dict[str, bytes]:
    return dict(message.headers() or ())


def test_failed_records_come_back_and_are_dead_letters_in_the_end(server: BmqServer) -> None:
    group, topic = unique_name("app"), unique_name("orders")
    retry, dead = f"{topic}.retry.{group}", f"dlq.{group}"
    create_topic(server, topic)
    create_topic(server, retry, 1, {"bmq.retry.levels": ",".join(f"{wait}ms" for wait in LEVELS_MS)})
    producer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic, retry])
    for value in (b"good", b"flaky", b"bad"):
        producer.produce(topic, value, b"k", headers=[("own", value)])
    assert producer.flush(30) == 0
    refusals: list[KafkaError] = []
    tries: dict[bytes, list[tuple[str | None, bytes | None]]] = defaultdict(list)
    failed_at_s: dict[bytes, float] = {}

    def work(message: Message) -> None:
        """`flaky` fails once, `bad` each time; a record that fails is produced again with its headers."""
        value = message.value() or b""
        attempt = headers_of(message).get("bmq-attempt")
        tries[value].append((message.topic(), attempt))
        if attempt is not None:
            waited_s = time.monotonic() - failed_at_s[value]
            assert waited_s >= LEVELS_MS[int(attempt) - 1] / 1000, "never early"
        if value == b"good" or (value == b"flaky" and attempt is not None):
            return
        failed_at_s[value] = time.monotonic()
        headers = list(message.headers() or ())
        producer.produce(retry, value, message.key(), headers=headers, on_delivery=lambda error, _: note(error))
        assert producer.flush(30) == 0

    def note(error: KafkaError | None) -> None:
        if error is not None:
            refusals.append(error)

    def poll_until_refused() -> bool:
        for message in consumer.consume(10, timeout=0.5):
            assert message.error() is None, message.error()
            work(message)
        return bool(refusals)

    try:
        eventually(poll_until_refused, 60, "the last attempt, without a topic of dead letters")
        assert refusals[0].code() == KafkaError.INVALID_RECORD
        create_topic(server, dead, 1, LETTERS)
        last = [("bmq-attempt", b"%d" % len(LEVELS_MS)), ("own", b"bad"), ("bmq-original-topic", topic.encode())]
        producer.produce(retry, b"bad", b"k", headers=last)
        assert producer.flush(30) == 0
    finally:
        consumer.close()
    assert tries == {
        b"good": [(topic, None)],
        b"flaky": [(topic, None), (retry, b"1")],
        b"bad": [(topic, None), (retry, b"1"), (retry, b"2")],
    }
    (letter,) = consume(server.bootstrap, dead, 1)
    assert (letter.key(), letter.value()) == (b"k", b"bad")
    found = headers_of(letter)
    assert found.pop("__dlq.errors.offset").isdigit()
    assert found == {
        "__dlq.errors.topic": retry.encode(),
        "__dlq.errors.partition": b"0",
        "__dlq.errors.group": group.encode(),
        "__dlq.errors.delivery.count": b"3",
        "__dlq.errors.message": b"Offset delivery count exceeded the threshold.",
        "own": b"bad",
        "bmq-original-topic": topic.encode(),
    }
    redriven = CliRunner().invoke(
        app, ["group", "redrive", group, "--to-source", "--rest", f"http://127.0.0.1:{server.rest_port}"]
    )
    assert redriven.exit_code == 0 and "1 redriven" in redriven.output, (redriven.output, redriven.exception)
    again = consume(server.bootstrap, retry, 4)[-1]
    assert (again.value(), headers_of(again)["bmq-attempt"]) == (b"bad", b"1"), "it counts anew"
    assert headers_of(again)["bmq-redriven-from"] == f"{dead}-0-0".encode()


def read_until(bootstrap: str, topic: str, is_enough: Callable[[list[Message]], bool]) -> list[Message]:
    """All records of partition 0, until these are there."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": unique_name("reader")})
    reader.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []

    def enough() -> bool:
        found.extend(reader.consume(500, timeout=0.5))
        return is_enough(found)

    try:
        eventually(enough, 60, f"the records of {topic}")
    finally:
        reader.close()
    return found


@pytest.mark.campaign("kills")
@pytest.mark.safety
@pytest.mark.timeout(420)
def test_kills_lose_no_record_and_deliver_no_attempt_twice(new_server: ServerMaker) -> None:
    """All of 300 records fail always. The server is killed while they are produced again, with answers on their way."""
    server = new_server()
    server.start()
    count, group, topic = 300, "app", "orders"
    retry, dead = f"{topic}.retry.{group}", f"dlq.{group}"
    create_topic(server, topic)
    create_topic(server, retry, 1, {"bmq.retry.levels": "100ms,200ms"})
    create_topic(server, dead, 1, LETTERS)
    producer = Producer(
        {"bootstrap.servers": server.bootstrap, "enable.idempotence": True, "delivery.timeout.ms": 300_000}
    )
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic, retry])
    kills_at = [100, 250, 400, 550, 700, 850]
    produced: list[KafkaError | None] = []
    seen: dict[bytes, set[bytes | None]] = defaultdict(set)

    def work() -> bool:
        for message in consumer.consume(40, timeout=0.5):
            if message.error() is not None:
                continue  # librdkafka connects again by itself
            seen[message.value() or b""].add(headers_of(message).get("bmq-attempt"))
            headers = list(message.headers() or ())
            producer.produce(
                retry, message.value(), headers=headers, on_delivery=lambda error, _: produced.append(error)
            )
        producer.poll(0)
        if kills_at and len(produced) >= kills_at[0]:
            kills_at.pop(0)
            server.kill()
            server.start()
        assert producer.flush(120) == 0
        with suppress(KafkaException):
            consumer.commit(asynchronous=False)
        return len(produced) >= 3 * count and not kills_at

    try:
        eventually(work, 300, "each record three times")
    finally:
        consumer.close()
    assert not any(produced)
    wanted = [b"%d" % number for number in range(count)]
    assert {value: seen[value] for value in wanted} == {value: {None, b"1", b"2"} for value in wanted}
    letters = read_until(server.bootstrap, dead, lambda found: {one.value() for one in found} >= set(wanted))
    assert {headers_of(letter)["__dlq.errors.delivery.count"] for letter in letters} == {b"3"}
    names = Counter(headers_of(letter)["__dlq.errors.offset"] for letter in letters)
    # One that was durable when the server was killed, and whose delivery was not, is written again: of one delivery each.
    assert sum(copies - 1 for copies in names.values()) <= 6 * 500
    came = read_until(server.bootstrap, retry, lambda found: len(found) >= 2 * count)
    assert set(Counter(headers_of(one)["bmq-timer-offset"] for one in came).values()) == {1}, "each attempt comes once"
