"""Records with a due time: unmodified producers and consumers get them when they are due, once and in order."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaConsumer

from testing.java import CONSOLE_CONSUMER
from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import ServerMaker, TopicMaker, create_topic, unique_name
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120), pytest.mark.bmq_only]

DELAY = {"bmq.delay.enable": "true"}


def produce(bootstrap: str, topic: str, *values_due_ms: tuple[bytes, int | None], **config: Any) -> list[Message]:
    """The acknowledged messages, in order; a message that failed fails the test."""
    acknowledged: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acknowledged.append(message)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 50, **config})
    for value, due_ms in values_due_ms:
        headers = [] if due_ms is None else [("bmq-deliver-at", b"%d" % due_ms)]
        producer.produce(topic, value, partition=0, headers=headers, on_delivery=on_delivery)
    assert producer.flush(30) == 0
    return acknowledged


def consume(bootstrap: str, topic: str, count: int) -> list[Message]:
    """So many records, and those that come right behind them."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": unique_name("group"), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Message] = []

    def enough() -> bool:
        found.extend(consumer.consume(100, timeout=0.5))
        return len(found) >= count

    try:
        eventually(enough, 60, f"{count} records")
        found.extend(consumer.consume(100, timeout=1))
    finally:
        consumer.close()
    return found


def test_records_come_when_they_are_due_and_every_client_reads_them(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(config=DELAY)
    # One batch, and delays from its append on: however slow this machine is, none of them is due before that.
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 5_000, "compression.type": "zstd"})
    for value, name, text in (
        (b"third", "bmq-deliver-after", b"1200"),
        (b"at once", "unrelated", b""),
        (b"second", "bmq-deliver-after", b"800"),
        (b"long ago", "bmq-deliver-at", b"1700000000000"),
        (b"first", "bmq-deliver-after", b"400"),
    ):
        producer.produce(topic, value, partition=0, headers=[(name, text)])
    assert producer.flush(30) == 0
    expected = [b"at once", b"long ago", b"first", b"second", b"third"]

    messages = consume(server.bootstrap, topic, 5)
    assert [message.value() for message in messages] == expected
    for message in messages[2:]:
        headers = {name: int(text) for name, text in message.headers() or ()}
        # The delay counts from the append, which comes after the record was made.
        assert headers["bmq-timer-due"] >= headers["bmq-timer-created"] + headers["bmq-deliver-after"]
        assert message.timestamp()[1] >= headers["bmq-timer-due"], "never early"

    with closing(
        KafkaConsumer(topic, bootstrap_servers=server.bootstrap, auto_offset_reset="earliest", group_id=None)
    ) as consumer:
        values: list[bytes] = []

        def enough() -> bool:
            values.extend(one.value for found in consumer.poll(timeout_ms=500).values() for one in found)
            return len(values) >= len(expected)

        eventually(enough, 30, "the records in kafka-python")
        assert values == expected

    async def by_aiokafka() -> list[bytes]:
        reader = AIOKafkaConsumer(topic, bootstrap_servers=server.bootstrap, auto_offset_reset="earliest")
        await reader.start()
        try:
            return [(await asyncio.wait_for(reader.getone(), 30)).value for _ in expected]
        finally:
            await reader.stop()

    assert asyncio.run(by_aiokafka()) == expected

    done = run_tool(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--from-beginning"),
        *("--max-messages", "5", "--timeout-ms", "20000", "--isolation-level", "read_committed"),
    )
    assert done.out.splitlines() == [value.decode() for value in expected]


def test_a_record_with_an_impossible_header_is_refused_alone(server: Server, make_topic: TopicMaker) -> None:
    topic, other = (make_topic(config={**DELAY, "bmq.delay.max.ms": "3600000"}) for _ in range(2))
    failed: list[tuple[bytes | None, int]] = []
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0})

    def send(to: str, value: bytes, *headers: tuple[str, bytes]) -> int:
        """The record's offset, if it was taken."""
        offsets: list[int] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets.append(message.offset() or 0)
            else:
                failed.append((message.value(), error.code()))

        producer.produce(to, value, headers=list(headers), on_delivery=on_delivery)
        assert producer.flush(30) == 0
        return offsets[0] if offsets else -1

    due_ms = int(time.time() * 1000) + 3_000_000  # long after this test
    held = send(topic, b"cancelled", ("bmq-deliver-at", b"%d" % due_ms))
    gone = send(topic, b"good", ("bmq-deliver-after", b"100"))
    impossible: dict[bytes, list[tuple[str, bytes]]] = {
        b"text": [("bmq-deliver-after", b"soon")],
        b"far": [("bmq-deliver-after", b"3600001")],
        b"negative": [("bmq-deliver-at", b"-1")],
        b"huge": [("bmq-deliver-at", b"%d" % (2**63 - 1))],
        b"twice": [("bmq-deliver-after", b"1"), ("bmq-deliver-after", b"1")],
        b"foreign": [("bmq-cancel", b"%d,%d" % (held + 1000, due_ms))],
        b"wish": [("bmq-cancel", b"%d,%d" % (held, due_ms)), ("bmq-deliver-after", b"1")],
    }
    for value, headers in impossible.items():
        assert send(topic, value, *headers) == -1
    assert send(other, b"of another topic", ("bmq-cancel", b"%d,%d" % (held, due_ms))) == -1
    (good,) = consume(server.bootstrap, topic, 1)
    assert good.value() == b"good"
    due_of_good = dict(good.headers() or ())["bmq-timer-due"]
    assert send(topic, b"too late", ("bmq-cancel", b"%d,%s" % (gone, due_of_good))) == -1
    assert send(topic, b"", ("bmq-cancel", b"%d,%d" % (held, due_ms))) >= 0, "nothing of the others was applied"
    refused = [*impossible, b"of another topic", b"too late"]
    assert failed == [(value, KafkaError.INVALID_RECORD) for value in refused]
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    ends = admin.list_offsets({TopicPartition(other, 0): OffsetSpec.latest()})
    assert [end.result(30).offset for end in ends.values()] == [0]


@pytest.mark.faults
@pytest.mark.safety
def test_kills_lose_and_double_nothing(new_server: ServerMaker) -> None:
    server = new_server()
    server.start()
    topic = "orders"
    create_topic(server, topic, 1, DELAY)
    names: dict[int, int] = {}
    for turn in range(3):
        now_ms = int(time.time() * 1000)
        due_ms = [now_ms + 2000 + 70 * (number * 37 % 50) for number in range(50)]
        for message, due in zip(
            produce(server.bootstrap, topic, *((b"%d" % turn, due) for due in due_ms)), due_ms, strict=True
        ):
            offset = message.offset()
            assert offset is not None
            names[offset] = due
        server.kill()
        server.start()
    found = [(message, dict(message.headers() or ())) for message in consume(server.bootstrap, topic, len(names))]
    # One whose time had passed when a slow machine appended it is visible at its own offset.
    names_found = [int(headers.get("bmq-timer-offset", message.offset())) for message, headers in found]
    assert sorted(names_found) == sorted(names), "each once"
    delivered = [
        (int(headers["bmq-timer-due"]), int(headers["bmq-timer-offset"]))
        for _, headers in found
        if "bmq-timer-due" in headers
    ]
    assert delivered and delivered == sorted(delivered), "in order of due time"
    assert all(due >= names[offset] for due, offset in delivered)
    assert all(
        message.timestamp()[1] >= int(headers["bmq-timer-due"])
        for message, headers in found
        if "bmq-timer-due" in headers
    ), "never early"
