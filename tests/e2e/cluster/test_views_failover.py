"""Readers of a view on a cluster whose owners are killed under load: each record that passes comes once, in order."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from testing.cluster import BmqCluster
from testing.processes import eventually
from tests.e2e.conftest import unique_name
from tests.e2e.test_views import make_view

pytestmark = [
    pytest.mark.bmq_only,
    pytest.mark.timeout(300),
    pytest.mark.campaign("cluster"),
    pytest.mark.safety,
]

KILLS = 2
RECORDS = 300
"""Between two kills. Every third one passes."""


def test_readers_of_a_view_go_on_with_the_next_owner(cluster: BmqCluster) -> None:
    base = unique_name("base")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (created,) = admin.create_topics([NewTopic(base, 2, 3)]).values()
    created.result(20)
    view = make_view(cluster.bootstrap, base, "tag = 'a' AND partition >= 0")
    group_id = unique_name("group")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group_id, "auto.offset.reset": "earliest"})
    consumer.subscribe([view])
    found: dict[int, list[int]] = {0: [], 1: []}
    expected: dict[int, list[int]] = {0: [], 1: []}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    sent = 0

    def produce() -> None:
        nonlocal sent
        for number in range(sent, sent + RECORDS):
            tag = b"a" if number % 3 == 0 else b"b"
            producer.produce(base, b"%d" % number, partition=number % 2, headers=[("bmq-tag", tag)])
            if tag == b"a":
                expected[number % 2].append(number)
        assert producer.flush(60) == 0
        sent += RECORDS

    def is_read() -> bool:
        for message in consumer.consume(500, timeout=0.5):
            assert message.error() is None, message.error()
            found[message.partition()].append(int(message.value()))
        return found == expected

    with closing(consumer):
        produce()
        eventually(is_read, 90, "what passes")
        for partition in range(KILLS):
            victim = cluster.owner_of(base, partition)
            victim.kill()
            produce()
            eventually(is_read, 90, "what passes at the next owner")
            victim.start()
            cluster.wait_settled()
        is_read()
        assert found == expected
    again = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": unique_name("group"), "auto.offset.reset": "earliest"}
    )
    again.subscribe([view])
    consumer, found = again, {0: [], 1: []}
    with closing(again):
        eventually(is_read, 90, "all of it from the beginning")
