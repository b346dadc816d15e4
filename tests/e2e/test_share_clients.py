"""Share groups through librdkafka's share consumer: implicit and explicit acknowledgements, several members."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer

from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker
from tests.e2e.test_share_groups import described, group_from_the_beginning, produce

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

WAIT_S = 30


def share_consumer(server: Server, group: str, topic: str, mode: str) -> ShareConsumer:
    consumer = ShareConsumer(
        {"bootstrap.servers": server.bootstrap, "group.id": group, "share.acknowledgement.mode": mode}
    )
    consumer.subscribe([topic])
    return consumer


def polled(consumer: ShareConsumer) -> list[Message]:
    messages = list(consumer.poll(0.2))
    assert [one.error() for one in messages if one.error()] == []
    return messages


def committed(consumer: ShareConsumer) -> None:
    assert [error for error in consumer.commit_sync(WAIT_S).values() if error] == []


def lags(server: Server, group: str) -> set[str]:
    return {row[4] for row in described(server, group, "--offsets")}


@pytest.mark.bmq_only
def test_members_get_delayed_records_when_they_are_due_and_in_that_order(
    server: Server, make_topic: TopicMaker
) -> None:
    topic, group = make_topic(config={"bmq.delay.enable": "true"}), group_from_the_beginning(server)
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 100})
    for value, after_ms in (("last", 1_500), ("now", None), ("next", 700)):
        producer.produce(topic, value, headers=[] if after_ms is None else [("bmq-deliver-after", str(after_ms))])
    assert producer.flush(30) == 0
    found: list[Message] = []
    with share_consumer(server, group, topic, "explicit") as consumer:

        def accept() -> bool:
            for message in polled(consumer):
                assert message.timestamp()[1] <= time.time() * 1000, "never early"
                found.append(message)
                consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            committed(consumer)
            return len(found) >= 3

        eventually(accept, WAIT_S, "all records are delivered")
    assert [message.value() for message in found] == [b"now", b"next", b"last"]
    assert lags(server, group) == {"0"}


@pytest.mark.safety
def test_two_members_accept_each_record_once(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=4), group_from_the_beginning(server)
    values = [f"value {number}" for number in range(400)]
    produce(server, topic, values, partitions=4)
    taken: list[Counter[bytes]] = [Counter(), Counter()]
    with (
        share_consumer(server, group, topic, "implicit") as one,
        share_consumer(server, group, topic, "implicit") as two,
    ):

        def poll_both() -> bool:
            for consumer, found in zip((one, two), taken, strict=True):
                found.update(message.value() for message in polled(consumer))
            return sum(map(Counter.total, taken)) >= len(values)

        eventually(poll_both, WAIT_S, "all records are delivered")
        committed(one)
        committed(two)
    assert taken[0] + taken[1] == Counter(value.encode() for value in values)
    assert lags(server, group) == {"0"}


def test_released_records_come_again_and_rejected_ones_do_not(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), group_from_the_beginning(server)
    produce(server, topic, ["accept", "release", "reject"] * 5)
    found: list[tuple[bytes, int]] = []
    with share_consumer(server, group, topic, "explicit") as consumer:

        def take() -> bool:
            for message in polled(consumer):
                count = message.delivery_count()
                found.append((message.value(), count))
                is_first = count == 1
                how = AcknowledgeType[message.value().decode().upper()] if is_first else AcknowledgeType.ACCEPT
                consumer.acknowledge(message, how)
            committed(consumer)
            return len(found) >= 20

        eventually(take, WAIT_S, "released records are delivered again")
        assert polled(consumer) == []
    assert Counter(found) == {(b"accept", 1): 5, (b"release", 1): 5, (b"reject", 1): 5, (b"release", 2): 5}
    assert lags(server, group) == {"0"}


def test_what_a_member_that_closes_has_not_acknowledged_goes_to_the_next(
    server: Server, make_topic: TopicMaker
) -> None:
    topic, group = make_topic(), group_from_the_beginning(server)
    produce(server, topic, ["a", "b", "c"])
    first = share_consumer(server, group, topic, "explicit")
    held = eventually(lambda: polled(first), WAIT_S, "records are delivered")
    first.close()
    again: list[tuple[bytes, int]] = []
    with share_consumer(server, group, topic, "implicit") as second:

        def take() -> bool:
            again.extend((message.value(), message.delivery_count()) for message in polled(second))
            return len(again) >= len(held)

        eventually(take, WAIT_S, "what was held is delivered again")
        committed(second)
    assert again == [(message.value(), 2) for message in held]
