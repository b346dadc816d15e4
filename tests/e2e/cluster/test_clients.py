"""Stock clients and raw requests through every node of a cluster whose nodes have all roles."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from testing.cluster import BmqCluster
from testing.processes import eventually
from testing.wire import (
    EARLIEST_TIMESTAMP,
    FETCH,
    LATEST_TIMESTAMP,
    NONE,
    WireClient,
    fetch_answer,
    fetch_body,
    record_batch,
)
from tests.e2e.cluster.conftest import TopicMaker
from tests.e2e.conftest import unique_name
from tests.e2e.test_groups import PARTITIONS, balanced, fill, join
from tests.support.group_members import read
from tests.support.led_partition import LedPartition

pytestmark = [pytest.mark.faults, pytest.mark.bmq_only, pytest.mark.timeout(120)]


def test_every_node_leads_clients_to_everything(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    """Bootstrapped from one node each, producers and consumers find all partitions."""
    topic = make_topic(cluster, 6)
    assert len(set(cluster.owners_of(topic))) == 3, "new partitions are spread over the brokers"
    expected: Counter[bytes] = Counter()
    failures: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error.str())

    for node in cluster.nodes.values():
        producer = Producer({"bootstrap.servers": node.kafka, "enable.idempotence": True})
        values = [f"{node.node_id}-{number}".encode() for number in range(300)]
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % 6, on_delivery=delivered)
        assert producer.flush(30) == 0
        expected.update(values)
    assert failures == []
    for node in cluster.nodes.values():
        assert consumed(node.kafka, topic, 6, expected.total()) == expected


def consumed(bootstrap: str, topic: str, partitions: int, count: int) -> Counter[bytes]:
    """The first `count` records from offset 0 on."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    messages = consumer.consume(count, timeout=30)
    consumer.close()
    assert [message.error() for message in messages if message.error()] == []
    return Counter(message.value() for message in messages)


def test_every_node_serves_every_partition(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    """A client that asks the wrong node gets the same answers: each is a proxy for all partitions."""
    topic = make_topic(cluster, 3)
    with ExitStack() as stack:
        clients = [stack.enter_context(WireClient(node.kafka_port)) for node in cluster.nodes.values()]
        seen = [[LedPartition(client, topic, partition) for partition in range(3)] for client in clients]
        for index, partitions in enumerate(seen):
            for partition in partitions:
                assert partition.produce(record_batch([b"%d" % index, b"second"])) == 2 * index
        logs = [[partition.records(6) for partition in partitions] for partitions in seen]
        assert all(log == logs[0] for log in logs)
        for partitions in seen:
            assert [partition.offset(LATEST_TIMESTAMP) for partition in partitions] == [6] * 3
            assert [partition.offset(EARLIEST_TIMESTAMP) for partition in partitions] == [0] * 3


def test_waiting_fetch_sees_what_another_node_takes(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    """A long poll at a proxy ends when the owner, elsewhere, has a record; not when its time is up.

    It ends with NOT_LEADER_OR_FOLLOWER, too, when the partition is started or moved: it is led before, and balanced.
    """
    topic = make_topic(cluster, 1)
    cluster.wait_balanced()
    owner = cluster.owner_of(topic, 0)
    far = next(node for node in cluster.nodes.values() if node is not owner)
    with WireClient(owner.kafka_port) as writer, WireClient(far.kafka_port, timeout_s=60) as reader:
        LedPartition(writer, topic, 0).produce(record_batch([b"first"]))
        assert LedPartition(reader, topic, 0).records(1)
        for offset in range(1, 6):
            waiting = reader.send(FETCH, 4, fetch_body(topic, 0, offset, max_wait_ms=120_000))
            assert writer.produce(topic, record_batch([b"news"])).error_code == NONE
            found = fetch_answer(reader.receive(waiting))
            assert (found.error_code, found.high_watermark) == (NONE, offset + 1)
            assert b"news" in found.records


def test_group_shares_partitions_of_all_nodes(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    """Each member knows another node; the group is one."""
    topic, group = make_topic(cluster, PARTITIONS), unique_name("group")
    members = [join(node, topic, group) for node in cluster.nodes.values()]
    eventually(lambda: balanced(members), 40, "the members share the partitions")
    produced = fill(cluster, topic, "first")
    assert read(members, 600) == produced
    for member in members:
        member.commit()
    for member in members:
        member.close()
    where = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    for node in cluster.nodes.values():
        consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": group})
        committed = {found.partition: found.offset for found in consumer.committed(where, timeout=60)}
        assert committed == dict.fromkeys(range(PARTITIONS), 100)
        consumer.close()


def test_admin_requests_reach_the_controller_from_every_node(cluster: BmqCluster) -> None:
    for node in cluster.nodes.values():
        admin = AdminClient({"bootstrap.servers": node.kafka})
        described = admin.describe_cluster().result(20)
        assert {each.id for each in described.nodes} == set(cluster.nodes)
        assert described.controller.id in cluster.nodes
