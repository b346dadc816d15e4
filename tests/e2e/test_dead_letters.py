"""Dead letters of share groups, made by Kafka's console share consumer and read by librdkafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from bmq.cli.commands import app
from testing.java import CONFIGS
from testing.servers import BmqServer
from tests.e2e.conftest import TopicMaker, unique_name
from tests.e2e.test_share_groups import CONSOLE_SHARE_CONSUMER, consume
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]


def group_with_letters(server: BmqServer, topic: str) -> str:
    group = unique_name("share")
    run_tool(
        CONFIGS,
        *("--bootstrap-server", server.bootstrap, "--alter", "--entity-type", "groups", "--entity-name", group),
        *("--add-config", f"share.auto.offset.reset=earliest,errors.deadletterqueue.topic.name={topic}"),
    )
    return group


def letters(server: BmqServer, topic: str, count: int) -> Iterator[Message]:
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": unique_name("reader"), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        left = count
        while left:
            message = consumer.poll(30)
            assert message is not None and message.error() is None, message
            yield message
            left -= 1
    finally:
        consumer.close()


def test_rejected_records_are_in_the_topic_with_their_headers(server: BmqServer, make_topic: TopicMaker) -> None:
    topic, dead = make_topic(partitions=2), "dlq." + unique_name("letters")
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    config = {"errors.deadletterqueue.group.enable": "true"}
    (created,) = admin.create_topics([NewTopic(dead, 1, 1, config=config)]).values()
    created.result(20)
    group = group_with_letters(server, dead)
    producer = Producer({"bootstrap.servers": server.bootstrap, "compression.type": "lz4", "linger.ms": 100})
    for number in range(40):
        producer.produce(topic, f"v{number}".encode(), f"k{number}".encode(), number % 2, headers=[("n", str(number))])
    assert producer.flush(20) == 0
    consume(server, topic, group, 40, "--reject")
    seen = {}
    for message in letters(server, dead, 40):
        headers = {name: value.decode() for name, value in message.headers() or ()}
        seen[headers["n"]] = headers
        assert message.key() == b"k" + headers["n"].encode() and message.value() == b"v" + headers["n"].encode()
        assert (headers["__dlq.errors.topic"], headers["__dlq.errors.group"]) == (topic, group)
        assert headers["__dlq.errors.message"] == "Offset rejected by client."
    assert {(one["__dlq.errors.partition"], one["__dlq.errors.offset"]) for one in seen.values()} == {
        (str(partition), str(offset)) for partition in range(2) for offset in range(20)
    }
    target = make_topic()
    redriven = CliRunner().invoke(
        app, ["group", "redrive", group, "--to", target, "--rest", f"http://127.0.0.1:{server.rest_port}"]
    )
    assert redriven.exit_code == 0 and "40 redriven" in redriven.output, (redriven.output, redriven.exception)
    again = list(letters(server, target, 40))
    assert {(one.key(), one.value()) for one in again} == {(b"k%d" % n, b"v%d" % n) for n in range(40)}
    assert {name for one in again for name, _ in one.headers() or ()} == {"n", "bmq-redriven-from"}
    assert not run_tool(
        CONSOLE_SHARE_CONSUMER,
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--group", group, "--timeout-ms", "3000"),
    ).out.strip(), "nothing is given again"
