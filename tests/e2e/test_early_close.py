"""A consumer that is closed before it has read all: its group goes on where it stopped.

librdkafka takes the place behind a control record as its position, though messages in front of it were thrown away.
"""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, create_topic, unique_name
from tests.support.lane_clients import enable_lanes

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120), pytest.mark.bmq_only]

RECORDS = 20


def produce(bootstrap: str, topic: str, *headers: tuple[str, bytes]) -> None:
    """Records that all consumers see, and behind them one with these headers instead of theirs."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=0, headers=[("bmq-tag", b"shown")])
    assert producer.flush(30) == 0
    producer.produce(topic, b"hidden", partition=0, headers=list(headers))
    assert producer.flush(30) == 0


def read_one_and_close(bootstrap: str, group_id: str, topic: str, client_id: str) -> int:
    """What the group has committed then. All records are read from the server at once, with what is behind them."""
    config = {"bootstrap.servers": bootstrap, "group.id": group_id, "client.id": client_id}
    consumer = Consumer({**config, "auto.offset.reset": "earliest", "fetch.min.bytes": 1})
    with closing(consumer):
        consumer.subscribe([topic])
        found = []

        def has_one() -> bool:
            found.extend(consumer.consume(1, timeout=0.5))
            return bool(found)

        eventually(has_one, 60, "the first record")
        assert [one.value() for one in found] == [b"0"]
    with closing(Consumer(config)) as asking:
        (place,) = asking.committed([TopicPartition(topic, 0)], timeout=30)
        return int(place.offset)


@pytest.mark.parametrize(
    ("config", "header"),
    [
        pytest.param({"bmq.delay.enable": "true"}, ("bmq-deliver-after", b"3600000"), id="delayed record"),
        pytest.param({"bmq.half.enable": "true"}, ("bmq-half", b"check"), id="half message"),
    ],
)
def test_of_a_topic_with_records_that_are_held(
    server: Server, make_topic: TopicMaker, config: dict[str, str], header: tuple[str, bytes]
) -> None:
    topic = make_topic(config=config)
    produce(server.bootstrap, topic, header)
    assert read_one_and_close(server.bootstrap, unique_name("group"), topic, "rdkafka") == 1


def test_of_a_view(server: Server, make_topic: TopicMaker) -> None:
    base, view = make_topic(), unique_name("view")
    topic = NewTopic(view, config={"bmq.view.of": base, "bmq.view.filter": "tag = 'shown'"})
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    (made,) = admin.create_topics([topic]).values()
    made.result(30)
    produce(server.bootstrap, base, ("bmq-tag", b"a"))
    assert read_one_and_close(server.bootstrap, unique_name("group"), view, "rdkafka") == 1


def test_of_a_group_with_lanes(server: Server, make_topic: TopicMaker) -> None:
    """The lane is taken and has gone, so the base group sees none of its records in the topic itself."""
    topic, group_id = make_topic(), unique_name("group")
    create_topic(server, f"{topic}.retry.{group_id}")
    enable_lanes(server.bootstrap, group_id)
    lane = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": f"{group_id}@blue",
            "client.id": f"lanes:{group_id}@blue",
            "auto.offset.reset": "earliest",
        }
    )
    probing = Producer({"bootstrap.servers": server.bootstrap})
    with closing(lane):
        lane.subscribe([topic])

        def is_taken() -> bool:
            probing.produce(topic, b"probe", partition=0, headers=[("x-lane", b"blue")])
            assert probing.flush(30) == 0
            return any(one.error() is None for one in lane.consume(100, timeout=0.5))

        eventually(is_taken, 60, "the lane is taken")
        produce(server.bootstrap, topic, ("x-lane", b"blue"))
        reader = Consumer(
            {"bootstrap.servers": server.bootstrap, "group.id": group_id, "client.id": f"lanes:{group_id}"}
        )
        with closing(reader):
            place = TopicPartition(topic, 0)
            _, end = reader.get_watermark_offsets(place, timeout=30)
            first = end - RECORDS - 1
            reader.commit(offsets=[TopicPartition(topic, 0, first)], asynchronous=False)
        assert read_one_and_close(server.bootstrap, group_id, topic, f"lanes:{group_id}") == first + 1
