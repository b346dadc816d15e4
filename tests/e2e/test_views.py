"""Views: stock clients read the records that pass a filter, commit under the view's name, and reach the end."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as PythonTopicPartition

from testing.java import CONFIGS, CONSOLE_CONSUMER, CONSUMER_GROUPS, TOPICS
from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, unique_name
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.timeout(120), pytest.mark.bmq_only]

POLICY_VIOLATION = 44
HIDDEN = 16
"""Answers without records that one client gets: each comes a second after the one before."""


def produce(bootstrap: str, topic: str, tags: str, **config: Any) -> None:
    """A record for each tag, in partition 0; its value is its place."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.num.messages": 7, **config})
    for place, tag in enumerate(tags):
        producer.produce(topic, b"%d" % place, b"key", partition=0, headers=[("bmq-tag", tag.encode())])
    assert producer.flush(30) == 0


def make_view(bootstrap: str, base: str, text: str) -> str:
    """By an AdminClient: kafka-topics refuses configs that Apache Kafka does not have, before it asks the server."""
    view = unique_name("view")
    topic = NewTopic(view, config={"bmq.view.of": base, "bmq.view.filter": text})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (made,) = admin.create_topics([topic]).values()
    made.result(30)
    return view


def lag_of(bootstrap: str, group: str, topic: str) -> int:
    described = run_tool(CONSUMER_GROUPS, "--bootstrap-server", bootstrap, "--describe", "--group", group).text
    (row,) = [line.split() for line in described.splitlines() if topic in line]
    return int(row[5])


@pytest.mark.clients
def test_librdkafka_reports_no_error_when_nothing_passes_for_long(server: Server, make_topic: TopicMaker) -> None:
    """It takes some ten answers without records for batches that are longer than its limit of bytes."""
    base = make_topic()
    view = make_view(server.bootstrap, base, "tag = 'b'")
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": view, "enable.partition.eof": True})
    consumer.assign([TopicPartition(view, 0, 0)])

    def is_at_end() -> bool:
        message = consumer.poll(0.5)
        if message is None:
            return False
        error = message.error()
        assert error is not None and error.code() == KafkaError._PARTITION_EOF, error or message.value()
        return True

    try:
        eventually(is_at_end, 30, "the end of the view")
        for _ in range(HIDDEN):
            produce(server.bootstrap, base, "a")
            eventually(is_at_end, 30, "the end of the view, behind another record of the base")
    finally:
        consumer.close()
    produce(server.bootstrap, base, "b")
    (last,) = read_to_the_end(server.bootstrap, view, f"{view}-2")
    assert (last.offset(), last.value()) == (HIDDEN, b"0")


def read_to_the_end(bootstrap: str, topic: str, group: str, **config: Any) -> list[Message]:
    """All records up to the end of partition 0; the position is committed then."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **config,
        }
    )
    consumer.subscribe([topic])
    found: list[Message] = []
    ended = False

    def is_at_end() -> bool:
        nonlocal ended
        for message in consumer.consume(500, timeout=0.5):
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended = True
        return ended

    try:
        eventually(is_at_end, 60, "the end of the view")
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        assert error.args[0].code() == KafkaError._NO_OFFSET
    finally:
        consumer.close()
    return found


def read_by_kafka_python(bootstrap: str, topic: str, group: str, end: int) -> list[int]:
    """Offsets of all records up to `end` of partition 0; the position is committed then."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    place = PythonTopicPartition(topic, 0)
    consumer.assign([place])
    found: list[int] = []

    def is_read() -> bool:
        found.extend(one.offset for some in consumer.poll(timeout_ms=200).values() for one in some)
        return bool(consumer.position(place) == end)

    try:
        eventually(is_read, 60, "kafka-python to reach the end")
        consumer.commit()
        assert consumer.committed(place) == end
    finally:
        consumer.close(autocommit=False)
    return found


@pytest.mark.clients
def test_two_stock_clients_read_a_view_to_its_end_and_nobody_writes_it(server: Server, make_topic: TopicMaker) -> None:
    base = make_topic()
    tags = "abcab" * 10 + "ccc"
    produce(server.bootstrap, base, tags, **{"compression.type": "lz4"})
    view = make_view(server.bootstrap, base, "tag IN ('a', 'x') AND key = 'key'")
    expected = [place for place, tag in enumerate(tags) if tag == "a"]
    found = read_to_the_end(server.bootstrap, view, unique_name("group"))
    assert [(message.offset(), message.value()) for message in found] == [(one, b"%d" % one) for one in expected]
    assert read_by_kafka_python(server.bootstrap, view, unique_name("group"), len(tags)) == expected

    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce(view, b"x", on_delivery=lambda error, message: failed.append(error))
    producer.flush(30)
    assert [error.code() for error in failed] == [POLICY_VIOLATION]


@pytest.mark.clients
def test_views_that_cannot_be_are_refused_in_a_sentence(server: Server, make_topic: TopicMaker) -> None:
    base, name = make_topic(), unique_name("none")
    view = make_view(server.bootstrap, base, "tag = 'a'")
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    deleted = make_topic()
    admin.delete_topics([deleted])[deleted].result(30)
    eventually(lambda: deleted not in admin.list_topics(timeout=30).topics, 30, "the topic is gone")
    for of, text, sentence in (
        (view, "TRUE", f"'{view}' is a view itself: make one of '{base}'"),
        (name, "TRUE", "A view cannot show itself"),
        (deleted, "TRUE", f"There is no topic '{deleted}' that a view could show"),
        (base, "tag = '" + "x" * 30_000 + "'", "bytes, 8192 are allowed"),  # librdkafka sends no longer text
        (base, "(" * 10_000 + "TRUE" + ")" * 10_000, "bytes, 8192 are allowed"),
        (base, "(" * 4_000 + "TRUE" + ")" * 4_000, "words and signs, 2000 are allowed"),
        (base, "(" * 100 + "TRUE" + ")" * 100, "parentheses"),
        (base, "value = 'x'", "does not look at the value"),
    ):
        topic = NewTopic(name, config={"bmq.view.of": of, "bmq.view.filter": text})
        with pytest.raises(KafkaException) as refused:
            admin.create_topics([topic])[name].result(30)
        said = refused.value.args[0].str()
        assert sentence in said and "\n" not in said and len(said) < 500, said
    assert name not in admin.list_topics(timeout=30).topics
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):  # librdkafka asks by a version without the sentence
        admin.delete_topics([base])[base].result(30)
    # A header that is no text is unknown: it passes neither a filter nor its opposite.
    binary = make_view(server.bootstrap, base, "NOT (tag = 'a')")
    produce(server.bootstrap, base, "ab")
    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce(base, b"binary", partition=0, headers=[("bmq-tag", b"\xff\x00")])
    assert producer.flush(30) == 0
    for shown, offsets in ((view, [0]), (binary, [1])):
        found = read_to_the_end(server.bootstrap, shown, unique_name("group"))
        assert [message.offset() for message in found] == offsets


@pytest.mark.campaign("kafka")
def test_stock_clients_read_codecs_and_commit_to_lag_0(server: Server, make_topic: TopicMaker) -> None:
    base = make_topic()
    tags = "abcab" * 40 + "ccc"
    for number, codec in enumerate(("none", "lz4", "zstd")):
        produce(server.bootstrap, base, tags, **{"compression.type": codec, "client.id": f"p{number}"})
    view = make_view(server.bootstrap, base, "tag IN ('a', 'x') AND key = 'key'")
    expected = [number * len(tags) + place for number in range(3) for place, tag in enumerate(tags) if tag == "a"]

    group = unique_name("group")
    found = read_to_the_end(server.bootstrap, view, group)
    assert [message.offset() for message in found] == expected
    assert [message.value() for message in found] == [b"%d" % (offset % len(tags)) for offset in expected]

    # librdkafka commits the offset behind the last record that it gave; Java's client its position.
    assert lag_of(server.bootstrap, group, view) == len("ccc") + 1
    java_group = unique_name("group")
    options = ("--topic", view, "--from-beginning", "--timeout-ms", "5000", "--group", java_group)
    console = run_tool(CONSOLE_CONSUMER, "--bootstrap-server", server.bootstrap, *options, check=False)
    lines = [line for line in console.text.splitlines() if line.isdigit()]
    assert lines == [str(offset % len(tags)) for offset in expected], console.text
    assert lag_of(server.bootstrap, java_group, view) == 0
    assert read_by_kafka_python(server.bootstrap, view, unique_name("group"), 3 * len(tags)) == expected


@pytest.mark.campaign("kafka")
def test_a_view_cannot_be_written_and_keeps_its_base(server: Server, make_topic: TopicMaker) -> None:
    base = make_topic()
    view = make_view(server.bootstrap, base, "TRUE")
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce(view, b"x", on_delivery=lambda error, message: failed.append(error))
    producer.flush(30)
    assert [error.code() for error in failed] == [POLICY_VIOLATION]

    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    deleting = ("--bootstrap-server", server.bootstrap, "--delete", "--topic", base)
    assert f"'{base}' has views: delete '{view}' first." in run_tool(TOPICS, *deleting, check=False).text
    (records,) = admin.delete_records([TopicPartition(view, 0, 0)]).values()
    with pytest.raises(KafkaException):
        records.result(30)
    altered = run_tool(
        CONFIGS, "--bootstrap-server", server.bootstrap, "--alter", "--entity-type", "topics", "--entity-name", view,
        "--add-config", "bmq.view.filter=FALSE", check=False,
    )  # fmt: skip
    assert altered.code != 0 and "make another view" in altered.text
    transactional = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": unique_name("tx")})
    transactional.init_transactions(30)
    transactional.begin_transaction()
    transactional.produce(view, b"x")
    with pytest.raises(KafkaException):
        transactional.commit_transaction(30)
    for name in (view, base):
        (deleted,) = admin.delete_topics([name]).values()
        deleted.result(30)


@pytest.mark.campaign("kafka")
def test_readers_of_committed_records_see_what_passes_and_is_committed(server: Server, make_topic: TopicMaker) -> None:
    base = make_topic()
    view = make_view(server.bootstrap, base, "tag = 'a'")
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": unique_name("tx")})
    producer.init_transactions(30)
    for is_committed in (True, False, True):
        producer.begin_transaction()
        for tag in "aba":
            producer.produce(base, str(is_committed), partition=0, headers=[("bmq-tag", tag.encode())])
        producer.flush(30)
        if is_committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    found = read_to_the_end(server.bootstrap, view, unique_name("group"), **{"isolation.level": "read_committed"})
    assert [message.offset() for message in found] == [0, 2, 8, 10]
    every = read_to_the_end(server.bootstrap, view, unique_name("group"), **{"isolation.level": "read_uncommitted"})
    assert [message.offset() for message in every] == [0, 2, 4, 6, 8, 10]
