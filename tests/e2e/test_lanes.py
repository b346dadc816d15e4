"""Swimlanes: unmodified consumers of a lane and of its base group share a topic, while lanes come."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import KafkaError, Message, Producer

from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, create_topic, unique_name
from tests.support.lane_clients import Reader, enable_lanes, send

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120), pytest.mark.bmq_only]


def test_lane_takes_its_records_from_the_base_group_once_it_is_there(server: Server, make_topic: TopicMaker) -> None:
    topic, group_id = make_topic(), unique_name("group")
    create_topic(server, f"{topic}.retry.{group_id}")
    enable_lanes(server.bootstrap, group_id)
    with ExitStack() as stack:
        base = Reader(server.bootstrap, group_id, f"lanes:{group_id}", topic, f"{topic}.retry.{group_id}")
        stack.callback(base.consumer.close)
        other = Reader(server.bootstrap, unique_name("other"), "rdkafka", topic)
        stack.callback(other.consumer.close)
        before = [("plain 0", ""), ("blue 0", "blue"), ("red 0", "red")]
        send(server.bootstrap, topic, before)

        def base_has(*values: str) -> bool:
            base.read()
            return all(base.values[value] for value in values)

        eventually(lambda: base_has("plain 0", "blue 0", "red 0"), 60, "the base group has all records")
        blue = Reader(server.bootstrap, f"{group_id}@blue", f"lanes:{group_id}@blue#1", topic)
        stack.callback(blue.consumer.close)
        probes: list[tuple[str, str]] = []

        def is_taken() -> bool:
            probes.append((f"blue probe {len(probes)}", "blue"))
            send(server.bootstrap, topic, probes[-1:])
            blue.read()
            base.read()
            return bool(blue.values)

        eventually(is_taken, 60, "the lane is taken")
        after = [(f"{lane or 'plain'} {number}", lane) for number in range(1, 31) for lane in ("", "blue", "red")]
        send(server.bootstrap, topic, after, "zstd")
        all_of = {value for value, _ in (*before, *probes, *after)}

        def has_everything() -> bool:
            for reader in (base, blue, other):
                reader.read()
            return (base.values + blue.values).keys() == all_of == other.values.keys()

        eventually(has_everything, 60, "every record was read")
        assert max((base.values + blue.values).values()) == 1 == max(other.values.values())
        assert {value for value, lane in after if lane == "blue"} <= blue.values.keys()
        assert not any(value.startswith(("plain", "red")) for value in blue.values)


@pytest.mark.parametrize("levels", ["", "100ms,200ms"], ids=["plain", "retry topic"])
def test_lane_that_comes_and_goes_loses_and_doubles_nothing(
    server: Server, make_topic: TopicMaker, levels: str
) -> None:
    topic, group_id = make_topic(), unique_name("group")
    create_topic(server, f"{topic}.retry.{group_id}", 1, {"bmq.retry.levels": levels} if levels else {})
    enable_lanes(server.bootstrap, group_id, bmq_lane_grace_ms="200")
    lanes_seen: Counter[str] = Counter()
    sent: list[str] = []

    def produce(count: int) -> None:
        values = [(f"{lane or 'plain'} {len(sent) + number}", lane) for number, lane in enumerate(["blue", ""] * count)]
        send(server.bootstrap, topic, values, "lz4")
        sent.extend(value for value, _ in values)

    base = Reader(server.bootstrap, group_id, f"lanes:{group_id}", topic, f"{topic}.retry.{group_id}")
    with closing(base.consumer):
        produce(2)
        for commits in (True, True, False):
            blue = Reader(server.bootstrap, f"{group_id}@blue", f"lanes:{group_id}@blue", topic, commits=commits)

            def is_taken(reader: Reader = blue) -> bool:
                produce(1)
                reader.read()
                base.read()
                return bool(reader.values)

            eventually(is_taken, 60, "the lane is taken")
            produce(5)
            blue.consumer.close()
            lanes_seen += blue.values if commits else Counter()
            # Left over, unless the lane has ended already; in the end more of them than a retry topic takes in a batch.
            produce(5 if commits else 2_500)

        def has_everything() -> bool:
            base.read()
            return (base.values + lanes_seen).keys() == set(sent)

        eventually(has_everything, 60, "every record was read")
        assert max((base.values + lanes_seen).values()) == 1
        assert base.topics[f"{topic}.retry.{group_id}"] >= 5, "what the last consumer has not committed"


def test_records_of_no_lane_or_two_are_refused_alone(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"bmq.lane.validate": "true"})
    failed: list[tuple[bytes | None, int]] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append((message.value(), error.code()))

    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0})
    for value, lanes in (
        (b"blue", [b"blue"]),
        (b"at", [b"a@b"]),
        (b"slash", [b"a/b"]),
        (b"none", []),
        (b"two", [b"red", b"blue"]),
        (b"binary", [b"\xff"]),
    ):
        producer.produce(topic, value, headers=[("x-lane", lane) for lane in lanes], on_delivery=on_delivery)
        assert producer.flush(30) == 0
    assert failed == [(value, KafkaError.INVALID_RECORD) for value in (b"at", b"slash", b"two", b"binary")]
    with closing(Reader(server.bootstrap, unique_name("group"), "rdkafka", topic).consumer) as consumer:
        found: list[bytes | None] = []

        def has_both() -> bool:
            found.extend(message.value() for message in consumer.consume(10, timeout=0.5))
            return len(found) >= 2

        eventually(has_both, 30, "the records that were taken")
    assert found == [b"blue", b"none"]


def test_consumer_without_the_mark_is_refused(server: Server, make_topic: TopicMaker) -> None:
    topic, group_id = make_topic(), unique_name("group")
    enable_lanes(server.bootstrap, group_id)
    with closing(Reader(server.bootstrap, group_id, "rdkafka", topic).consumer) as consumer:
        seen: list[str] = []

        def is_refused() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is not None:
                seen.append(message.error().name())
            return "INVALID_REQUEST" in " ".join(seen)

        eventually(is_refused, 30, "the join is refused")
