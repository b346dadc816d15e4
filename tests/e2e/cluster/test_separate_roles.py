"""Two proxies, three brokers and two controllers, each in a process of its own: what dies is one role alone."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from testing.cluster import NODE_SESSION_S, BmqCluster
from testing.processes import eventually
from testing.steady_load import assert_nothing_lost
from testing.wire import LATEST_TIMESTAMP, NONE, WireClient, record_batch
from tests.e2e.cluster.conftest import TopicMaker
from tests.e2e.conftest import unique_name
from tests.e2e.test_groups import PARTITIONS, balanced, fill, join
from tests.support.group_members import read
from tests.support.paced_load import producing

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(150)]


def owners_and_epochs(cluster: BmqCluster, topic: str) -> list[tuple[int, int]]:
    """By partition: they stay the same only when nobody had to take anything over."""
    return [(partition["leader"], partition["leader_epoch"]) for partition in cluster.topic(topic)["partitions"]]


@pytest.mark.faults
def test_clients_see_the_proxies_alone(separated: BmqCluster, make_topic: TopicMaker) -> None:
    topic = make_topic(separated, 24)  # of six, one proxy gets none in one of 32 runs: each is drawn by itself
    proxies = {node.node_id for node in separated.proxies}

    def leaders_at(client: AdminClient) -> set[int]:
        metadata = client.list_topics(topic, timeout=20)
        assert set(metadata.brokers) <= proxies
        return {partition.leader for partition in metadata.topics[topic].partitions.values()}

    for node in separated.proxies:
        # One that an earlier test has started again gets its share after some seconds.
        client = AdminClient({"bootstrap.servers": node.kafka})
        eventually(lambda: leaders_at(client) == proxies, 20, "both proxies have a share of the partitions")  # noqa: B023
    assert set(separated.owners_of(topic)) == {node.node_id for node in separated.brokers}


def test_proxies_read_from_the_beginning_what_they_never_saw(separated: BmqCluster, make_topic: TopicMaker) -> None:
    """Offset 0 is long out of every tail cache of a proxy that was started after it was written."""
    topic = make_topic(separated, PARTITIONS)
    produced = fill(separated, topic, "old", 6_000)
    late = separated.proxies[1]
    late.restart()
    separated.wait_settled()
    produced += fill(late, topic, "new", 600)
    consumer = Consumer({"bootstrap.servers": late.kafka, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    messages = consumer.consume(6_600, timeout=40)
    consumer.close()
    assert Counter(message.value() for message in messages) == produced
    with WireClient(late.kafka_port) as raw:
        ends = raw.list_offsets(topic, range(PARTITIONS), LATEST_TIMESTAMP)
        assert ends == dict.fromkeys(range(PARTITIONS), (NONE, 1_100))
        first = raw.fetch(topic, 0)
        middle = raw.fetch(topic, 500)
    assert (first.error_code, middle.error_code) == (NONE, NONE)
    assert b"old-0" in first.records and b"old-3000" in middle.records


def test_group_lives_on_nodes_without_a_proxy(separated: BmqCluster, make_topic: TopicMaker) -> None:
    topic, group = make_topic(separated, PARTITIONS), unique_name("group")
    members = [join(node, topic, group) for node in separated.proxies]
    eventually(lambda: balanced(members), 40, "the members share the partitions")
    produced = fill(separated, topic, "all")
    assert read(members, 600) == produced
    for member in members:
        member.commit()
        member.close()


@pytest.mark.faults
def test_killed_proxy(separated: BmqCluster, make_topic: TopicMaker) -> None:
    topic = make_topic(separated, PARTITIONS)
    with producing(separated.bootstrap, topic, PARTITIONS) as load:
        for victim in separated.proxies:
            victim.kill()
            load.wait_for_every_partition(300)
            victim.start()
            separated.wait_settled()
            load.wait_for_every_partition(50)
    assert_nothing_lost(load, separated.bootstrap)
    load.assert_no_hang()


@pytest.mark.faults
def test_killed_controller_is_not_noticed(separated: BmqCluster, make_topic: TopicMaker) -> None:
    topic = make_topic(separated, PARTITIONS)
    with producing(separated.bootstrap, topic, PARTITIONS) as load:
        separated.wait_balanced()
        victim, before = separated.controller(), owners_and_epochs(separated, topic)
        victim.kill()
        load.wait_for_every_partition(300)
        assert owners_and_epochs(separated, topic) == before, "a partition moved"
        made = make_topic(separated, 1)
        assert separated.controller() is not victim
        assert separated.owner_of(made, 0).is_broker
    assert_nothing_lost(load, separated.bootstrap)
    load.assert_no_hang()


def test_broker_and_controller_die_together(separated: BmqCluster, make_topic: TopicMaker) -> None:
    """The new controller has to find out by itself that a broker is gone."""
    topic = make_topic(separated, PARTITIONS)
    with producing(separated.bootstrap, topic, PARTITIONS) as load:
        broker, controller = separated.owner_of(topic, 0), separated.controller()
        controller.kill()
        broker.kill()
        load.wait_for_every_partition(300)
        assert separated.owner_of(topic, 0) is not broker
    assert_nothing_lost(load, separated.bootstrap)


def test_killed_broker_without_a_proxy(separated: BmqCluster, make_topic: TopicMaker) -> None:
    """The proxies keep what they are asked to append until the next owner is there."""
    topic = make_topic(separated, PARTITIONS)
    with producing(separated.bootstrap, topic, PARTITIONS) as load:
        victim = separated.owner_of(topic, 0)
        victim.kill()
        load.wait_for_every_partition(500)
    assert_nothing_lost(load, separated.bootstrap)
    load.assert_no_hang()


def test_hung_broker_without_a_proxy(separated: BmqCluster, make_topic: TopicMaker) -> None:
    """Patient clients: the proxies take their batches from the hung broker to the next one."""
    topic = make_topic(separated, PARTITIONS)
    with producing(separated.bootstrap, topic, PARTITIONS) as load:
        victim = separated.owner_of(topic, 0)
        victim.pause()
        load.wait_for_every_partition(300)
        victim.resume()
        separated.wait_settled()
        load.wait_for_every_partition(100)
    assert_nothing_lost(load, separated.bootstrap)
    load.assert_no_hang(NODE_SESSION_S)


def test_large_batches_pass_through_a_proxy(separated: BmqCluster, make_topic: TopicMaker) -> None:
    topic = make_topic(separated, 2)
    values = [b"%06d" % number * 1_000 for number in range(1_000)]
    producer = Producer({"bootstrap.servers": separated.bootstrap, "compression.type": "lz4", "linger.ms": 20})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(30) == 0
    with WireClient(separated.proxies[0].kafka_port) as raw:
        answer = raw.produce(topic, record_batch([bytes(900_000)]), 0)
        assert (answer.error_code, answer.base_offset) == (NONE, 500)
    consumer = Consumer({"bootstrap.servers": separated.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
    messages = consumer.consume(1_001, timeout=40)
    consumer.close()
    assert Counter(message.value() for message in messages) == Counter([*values, bytes(900_000)])
