"""Consumer groups whose coordinators die: offsets stay, members stay, nothing is skipped."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import Consumer, TopicPartition

from testing.cluster import BmqCluster, ClusterNode
from testing.processes import eventually
from testing.wire import NONE, WireClient, string
from tests.e2e.cluster.conftest import TopicMaker
from tests.e2e.conftest import unique_name
from tests.e2e.test_groups import PARTITIONS, balanced, fill, join
from tests.support.group_members import read
from tests.support.paced_load import producing

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(300)]

FIND_COORDINATOR = 10
COORDINATOR_NOT_AVAILABLE = 15
OFFSETS_TOPIC = "__consumer_offsets"
COMMITTED_WAIT_S = 60.0


def java_hash(text: str) -> int:
    """String.hashCode(), which places a group in a partition of __consumer_offsets."""
    value = 0
    for unit in text.encode("utf-16-be")[1::2]:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def owner_of_group(cluster: BmqCluster, group: str) -> ClusterNode:
    """The node whose coordinator has the group, by the partition that Kafka would put it in.

    That takes the hash's absolute value (GroupMetadataManager.partitionFor), unlike the partitioners, which clear its sign.
    """
    shards = len(cluster.owners_of(OFFSETS_TOPIC))
    return cluster.owner_of(OFFSETS_TOPIC, abs(java_hash(group)) % shards)


def coordinator_port(node: ClusterNode, group: str) -> int | None:
    """Where this node sends a group's members; None while its coordinator is taken over."""
    with WireClient(node.kafka_port) as client:
        answer = client.call(FIND_COORDINATOR, 0, string(group))
        error_code, _ = answer.take(">hi")
        if error_code == COORDINATOR_NOT_AVAILABLE:
            return None
        assert error_code == NONE, error_code
        answer.string()
        return answer.one(">i")


@pytest.mark.faults
def test_every_node_names_the_owner_of_the_groups_partition(cluster: BmqCluster) -> None:
    """For some seconds not the one that was started again, as an earlier test may have done; the balancer may move one."""

    def is_named(group: str) -> bool:
        ports = {coordinator_port(node, group) for node in cluster.nodes.values()}
        return ports == {owner_of_group(cluster, group).kafka_port}

    for number in range(8):
        group = f"placed-{number}"
        eventually(lambda group=group: is_named(group), 20, f"every node names the owner of {group}")  # type: ignore[misc]


def test_committed_offsets_survive_the_coordinators_death(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    topic, group = make_topic(cluster, PARTITIONS), unique_name("offsets")
    fill(cluster, topic, "all")
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    where = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    consumer = Consumer(config)
    for death in range(1, 3):
        commits = [TopicPartition(topic, each.partition, 10 * death + each.partition) for each in where]
        consumer.commit(offsets=commits, asynchronous=False)
        victim = owner_of_group(cluster, group)
        victim.kill()
        found = {each.partition: each.offset for each in consumer.committed(where, timeout=COMMITTED_WAIT_S)}
        assert found == {each.partition: each.offset for each in commits}
        assert owner_of_group(cluster, group) is not victim
        victim.start()
    consumer.close()


def test_members_stay_and_skip_nothing_while_nodes_die(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    """Each node is killed once, so the coordinator and every owner is: the members notice a pause and no rebalance."""
    topic, group = make_topic(cluster, PARTITIONS), unique_name("stays")
    members = [join(cluster, topic, group, **{"session.timeout.ms": 30_000, "log_level": 0}) for _ in range(2)]
    eventually(lambda: balanced(members), 40, "both members have partitions")
    revocations = [member.revocations for member in members]
    with producing(cluster.bootstrap, topic, PARTITIONS, records_s=500) as load:
        for node in cluster.nodes.values():
            read(members, load.sent_count)
            for member in members:
                member.commit()
            node.kill()
            read(members, load.sent_count + 500)
            node.start()
            cluster.wait_settled()
    values = read(members, load.sent_count)
    assert values == Counter(b"%d" % number for number in range(load.sent_count)), "a record was skipped or came twice"
    assert [member.revocations for member in members] == revocations, "the death of a node cost a rebalance"
    for member in members:
        member.commit()
        member.close()
    where = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    assert sum(found.offset for found in consumer.committed(where, timeout=COMMITTED_WAIT_S)) == load.sent_count
    consumer.close()
