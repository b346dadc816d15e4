"""Dead letters of a retry topic when the owner of its partition dies as they are due."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from testing.cluster import BmqCluster
from testing.processes import eventually
from tests.e2e.conftest import unique_name

pytestmark = [
    pytest.mark.bmq_only,
    pytest.mark.timeout(240),
    pytest.mark.campaign("kills"),
    pytest.mark.safety,
]

COUNT = 200


def test_the_next_owner_writes_those_that_are_missing(cluster: BmqCluster) -> None:
    group = unique_name("app")
    retry, letters = f"orders.retry.{group}", f"dlq.{group}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topics = [
        NewTopic(retry, 1, 3, config={"bmq.retry.levels": "1s"}),
        NewTopic(letters, 3, 3, config={"errors.deadletterqueue.group.enable": "true"}),
    ]
    for created in admin.create_topics(topics).values():
        created.result(20)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(COUNT):
        headers = [("bmq-attempt", b"%d" % (number % 2))]  # every second one has no attempt left
        producer.produce(retry, b"%d" % number, b"k", partition=0, headers=headers)
    assert producer.flush(30) == 0
    victim = cluster.owner_of(retry, 0)
    victim.kill()
    eventually(lambda: cluster.owners_of(retry)[0] not in (victim.node_id, -1), 60, "another owner")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([retry, letters])
    found: dict[str | None, Counter[bytes | None]] = {retry: Counter(), letters: Counter()}

    def all_there() -> bool:
        for message in consumer.consume(500, timeout=1):
            if message.error() is None:
                found[message.topic()][message.value()] += 1
        return all(len(values) >= COUNT / 2 for values in found.values())

    try:
        eventually(all_there, 90, "every record, as a delivery or as a dead letter")
        all_there()
    finally:
        consumer.close()
    living, dead = ({b"%d" % number for number in range(first, COUNT, 2)} for first in (0, 1))
    assert found[retry] == dict.fromkeys(living, 1), "each attempt comes once"
    assert found[letters].keys() == dead and max(found[letters].values()) <= 2, "twice where the owner died in between"
    victim.start()
    cluster.wait_settled()
