"""kill -9 under load, and a clean stop: what was acknowledged is there, once; groups go on from their commits."""

from __future__ import annotations

import contextlib

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from testing.java import CONSOLE_CONSUMER
from testing.processes import ProcessFailed, eventually
from testing.steady_load import SteadyProducer, assert_nothing_lost, read_everything
from tests.e2e.conftest import ServerMaker, create_topic
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.campaign("kills"), pytest.mark.timeout(180), pytest.mark.safety]

PARTITIONS = 3
TOPIC = "numbers"
RECORDS_BEFORE_KILL = 500
GONE_WAIT_S = 10.0


@pytest.mark.faults
def test_kills_under_load_lose_and_double_nothing(new_server: ServerMaker) -> None:
    server = new_server()
    server.start()
    create_topic(server, TOPIC, PARTITIONS)
    producer = SteadyProducer(server.bootstrap, TOPIC, PARTITIONS)
    try:
        for _ in range(3):
            producer.wait_for_acknowledgements(5_000)
            server.kill()
            server.start()
        producer.wait_for_acknowledgements(5_000)
    finally:
        producer.finish()
    assert_nothing_lost(producer, server.bootstrap)


def test_groups_go_on_from_their_commits_after_a_kill(new_server: ServerMaker) -> None:
    server = new_server()
    server.start()
    create_topic(server, TOPIC, PARTITIONS)
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number in range(300):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(20) == 0

    config = {
        "bootstrap.servers": server.bootstrap,
        "group.id": "survivor",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6_000,
    }
    consumer = Consumer(config)
    consumer.subscribe([TOPIC])
    first = eventually(lambda: consumer.consume(120, timeout=10), 20, "the first records")
    before = [int(message.value()) for message in first]
    consumer.commit(asynchronous=False)
    server.kill()
    server.start()
    consumer.close()

    after: list[int] = []
    follower = Consumer(config)
    follower.subscribe([TOPIC])

    def complete() -> bool:
        for message in follower.consume(100, timeout=0.5):
            assert message.error() is None, message.error()
            after.append(int(message.value()))
        return len(before) + len(after) >= 300

    eventually(complete, 60, "the rest of the records", interval_s=0)
    follower.close()
    assert sorted(before + after) == list(range(300))


def test_live_consumer_survives_a_kill(new_server: ServerMaker) -> None:
    """A consumer that stays in its group across the restart sees every record once it commits in between."""
    server = new_server()
    server.start()
    create_topic(server, TOPIC, 1)
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "stays",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    producer = Producer({"bootstrap.servers": server.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500})
    seen: list[int] = []

    def produce_and_read(numbers: range) -> None:
        for number in numbers:
            producer.produce(TOPIC, b"%d" % number)
        assert producer.flush(60) == 0

        def all_seen() -> bool:
            messages = consumer.consume(100, timeout=0.5)
            seen.extend(int(message.value()) for message in messages if message.error() is None)
            return len(seen) >= numbers.stop

        eventually(all_seen, 60, f"records up to {numbers.stop}", interval_s=0)

    produce_and_read(range(100))
    consumer.commit(asynchronous=False)
    server.kill()
    server.start()
    produce_and_read(range(100, 200))
    consumer.close()
    assert seen == list(range(200))


def test_topics_configs_and_ids_survive(new_server: ServerMaker) -> None:
    server = new_server()
    server.start()
    create_topic(server, TOPIC, PARTITIONS, {"retention.ms": "7654321"})
    admin = AdminClient({"bootstrap.servers": server.bootstrap})

    def identity() -> tuple[str, int, str]:
        described = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(30)
        resource = ConfigResource(ResourceType.TOPIC, TOPIC)
        config = admin.describe_configs([resource])[resource].result(30)
        return str(described.topic_id), len(described.partitions), config["retention.ms"].value

    before = identity()
    cluster_before = admin.describe_cluster().result(20).cluster_id
    assert before[1:] == (PARTITIONS, "7654321")
    server.kill()
    server.start()
    assert identity() == before
    server.stop()
    server.start()
    assert identity() == before
    assert admin.describe_cluster().result(20).cluster_id == cluster_before


@pytest.mark.faults
def test_clean_stop_under_load_is_quick_and_loses_nothing(new_server: ServerMaker) -> None:
    server = new_server()
    server.start()
    create_topic(server, TOPIC, PARTITIONS)
    producer = SteadyProducer(server.bootstrap, TOPIC, PARTITIONS)
    try:
        producer.wait_for_acknowledgements(5_000)
        code = server.stop()
        server.start()
        producer.wait_for_acknowledgements(1_000)
    finally:
        producer.finish()
    # Apache Kafka's JVM ends a clean stop by SIGTERM with 143.
    assert code == (0 if server.name == "bmq" else 143)
    found = read_everything(server.bootstrap, TOPIC, PARTITIONS)
    assert producer.failed == []
    assert {where: found.get(where) for where in producer.acknowledged} == producer.acknowledged
    assert len(found) == producer.sent_count == len(set(found.values()))


def test_java_consumer_reads_a_log_that_was_recovered(new_server: ServerMaker) -> None:
    """The Java client checks every batch's CRC: a torn tail must not be visible to it."""
    server = new_server()
    server.start()
    create_topic(server, TOPIC, 1)
    producer = Producer({"bootstrap.servers": server.bootstrap, "log_level": 0, "message.timeout.ms": 60_000})
    acknowledged: list[bytes] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append(message.value())

    number = 0
    while len(acknowledged) < RECORDS_BEFORE_KILL:
        with contextlib.suppress(BufferError):
            producer.produce(TOPIC, b"%d" % number, on_delivery=on_delivery)
            number += 1
        producer.poll(0.0005)
    server.kill()
    producer.purge()  # what has no answer is not to be sent again, to the next server
    assert producer.flush(10) == 0
    server.start()
    arguments = ("--bootstrap-server", server.bootstrap, "--topic", TOPIC, "--from-beginning")
    count = len(acknowledged)
    lines = run_tool(CONSOLE_CONSUMER, *arguments, "--max-messages", str(count), "--timeout-ms", "20000").out.split()
    assert [line.encode() for line in lines] == acknowledged


def test_two_kills_in_a_row_while_starting(new_server: ServerMaker) -> None:
    """A server killed while it recovers recovers the same the next time."""
    server = new_server()
    server.start()
    create_topic(server, TOPIC, PARTITIONS)
    producer = SteadyProducer(server.bootstrap, TOPIC, PARTITIONS)
    try:
        producer.wait_for_acknowledgements(3_000)
        server.kill()
        for pause_s in (0.1, 0.3, 0.6):
            server.execute()
            with pytest.raises(ProcessFailed, match="still runs"):
                server.process.wait(pause_s)
            server.kill()
        server.start()
        producer.wait_for_acknowledgements(1_000)
    finally:
        producer.finish()
    found = read_everything(server.bootstrap, TOPIC, PARTITIONS)
    assert {where: found.get(where) for where in producer.acknowledged} == producer.acknowledged
    assert len(found) == producer.sent_count == len(set(found.values()))


@pytest.mark.faults
def test_no_process_is_left(new_server: ServerMaker) -> None:
    """After kill -9 nothing of the server runs on: no helper process holds its port or its directory."""
    server = new_server()
    server.start()
    directory = str(server.directory)
    server.kill()

    def left() -> list[str]:
        command_lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
        return [line for line in command_lines if directory in line]

    eventually(lambda: not left(), GONE_WAIT_S, "helpers have followed their server")
