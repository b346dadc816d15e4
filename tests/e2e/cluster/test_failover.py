"""Nodes that are killed, hang, come back and are restarted in order, under load: nothing lost, doubled or reordered."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v17.response import FetchResponse
from kio.static.primitive import i32, i32Timedelta, i64

from testing.cluster import NODE_SESSION_S, BmqCluster, ClusterNode
from testing.processes import eventually
from testing.steady_load import assert_nothing_lost
from testing.wire import (
    LATEST_TIMESTAMP,
    NONE,
    PRODUCE,
    ProduceAnswer,
    WireClient,
    produce_answer,
    produce_body,
    record_batch,
)
from tests.e2e.cluster.conftest import TopicMaker
from tests.support.kio_client import call
from tests.support.led_partition import LedPartition
from tests.support.paced_load import producing

pytestmark = [pytest.mark.faults, pytest.mark.bmq_only, pytest.mark.timeout(300), pytest.mark.safety]

PARTITIONS = 3
# The hung node is the proxy of its clients too, and nobody can take an unanswered request from a client: by itself it would
# wait for minutes.
IMPATIENT = {"socket.timeout.ms": 3_000, "request.timeout.ms": 3_000}
# A produce says itself how long it may take: 30 s.
ANSWER_WAIT_S = 40.0
NOBODY = -1


def test_killed_owner_is_replaced(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    """With one replica too: no replica holds data, so any broker may follow."""
    topic, single = make_topic(cluster, PARTITIONS), make_topic(cluster, PARTITIONS, replication_factor=1)
    with (
        producing(cluster.bootstrap, topic, PARTITIONS) as load,
        producing(cluster.bootstrap, single, PARTITIONS) as load_of_single,
    ):
        for _ in range(2):
            owners = cluster.owners_of(topic)
            victim = cluster.node(next(node for node in owners if node in cluster.owners_of(single)))
            partition = owners.index(victim.node_id)
            epoch = cluster.leader_epoch_of(topic, partition)
            victim.kill()
            for each in (load, load_of_single):
                each.wait_for_every_partition(200)
            cluster.wait_left_by(victim, topic, single)
            assert cluster.leader_epoch_of(topic, partition) > epoch
            victim.start()
            cluster.wait_settled()
    for each in (load, load_of_single):
        assert_nothing_lost(each, cluster.bootstrap)
        each.assert_no_hang()


def test_hung_owner_is_replaced_and_comes_back_as_a_zombie(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    """What it believes when it goes on is out of date; nothing it answers may be."""
    topic, aside = make_topic(cluster, PARTITIONS), make_topic(cluster, PARTITIONS)
    victim = cluster.owner_of(topic, 0)
    own = cluster.owners_of(aside).index(victim.node_id)
    healthy = next(node for node in cluster.nodes.values() if node is not victim)
    with (
        producing(cluster.bootstrap, topic, PARTITIONS, **IMPATIENT) as load,
        WireClient(victim.kafka_port, ANSWER_WAIT_S) as writer,
        WireClient(victim.kafka_port, ANSWER_WAIT_S) as reader,
        WireClient(healthy.kafka_port) as observer,
    ):
        seen = LedPartition(observer, aside, own)
        LedPartition(writer, aside, own).produce(record_batch([b"0"]))
        assert LedPartition(reader, aside, own).records(1)
        victim.pause()
        # It lies in the socket while the node hangs, and is the first thing it sees when it goes on.
        produced = writer.send(PRODUCE, 3, produce_body(aside, own, record_batch([b"late"])))
        load.wait_for_every_partition(200)
        seen.produce(record_batch([b"1", b"2"]))
        end_before = seen.offset()
        victim.resume()
        late: ProduceAnswer | None = None
        try:
            error_code, end_offset = reader.list_offsets(aside, [own], LATEST_TIMESTAMP)[own]
            assert error_code != NONE or end_offset >= end_before, "the end of the log as it was before the pause"
            late = produce_answer(writer.receive(produced))
        except ConnectionError:
            pass  # it stood still for longer than `loop_stall_max_ms`, and dropped its connections unread
        cluster.wait_settled()
        load.wait_for_every_partition(200)
        end = seen.offset()
        stored = seen.records(end)
        with WireClient(victim.kafka_port, ANSWER_WAIT_S) as again:
            assert LedPartition(again, aside, own).records(end) == stored, "two nodes show different logs"
        if late is not None and late.error_code == NONE:
            assert late.base_offset >= end_before, "it was acknowledged in the log of an owner that was replaced"
            assert stored.count(b"late") == 1
        else:
            assert b"late" not in stored
    assert_nothing_lost(load, cluster.bootstrap)
    load.assert_no_hang(NODE_SESSION_S)


def test_every_node_is_restarted_in_turn(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    partitions = 12
    topic = make_topic(cluster, partitions)
    with producing(cluster.bootstrap, topic, partitions) as load:
        for node in cluster.nodes.values():
            node.stop()
            load.wait_for_every_partition(20)
            node.start()
            cluster.wait_settled()
    assert_nothing_lost(load, cluster.bootstrap)
    load.assert_no_hang()


def test_stale_clients_are_told_the_next_owner(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    """KIP-951: the refusal of an old leader epoch names the leader of now and its address, so nobody has to ask again."""
    topic = make_topic(cluster, 1)
    old_epoch = cluster.leader_epoch_of(topic, 0)
    victim = cluster.owner_of(topic, 0)
    victim.kill()
    eventually(lambda: cluster.owner_of(topic, 0) is not victim, 20, "the partition has a new owner")
    cluster.wait_balanced()  # nothing moves while the nodes are asked
    cluster.wait_settled()
    owner, epoch = cluster.owner_of(topic, 0), cluster.leader_epoch_of(topic, 0)
    wanted = FetchPartition(
        partition=i32(0), current_leader_epoch=i32(old_epoch), fetch_offset=i64(0), partition_max_bytes=i32(1 << 20)
    )
    request = FetchRequest(
        max_wait=i32Timedelta.parse(timedelta(0)),
        min_bytes=i32(0),
        topics=(FetchTopic(topic_id=UUID(cluster.topic(topic)["topic_id"]), partitions=(wanted,)),),
        forgotten_topics_data=(),
    )

    def told(node: ClusterNode) -> tuple[int, int, int, str] | None:
        """The leader and epoch, and an endpoint's node and address; None while the node has not reached the next owner."""
        with WireClient(node.kafka_port) as client:
            answer = call(client, request, FetchResponse)
        (partition,) = answer.responses[0].partitions
        if partition.error_code is ErrorCode.not_leader_or_follower:
            return None
        assert partition.error_code is ErrorCode.fenced_leader_epoch
        leader = partition.current_leader
        if leader.leader_id == NOBODY:
            return None
        (endpoint,) = answer.node_endpoints
        return leader.leader_id, leader.leader_epoch, endpoint.node_id, f"{endpoint.host}:{endpoint.port}"

    for node in cluster.healthy:
        # An owner that an earlier test has started again is not named for some seconds.
        expected = (owner.node_id, epoch, owner.node_id, owner.kafka)
        eventually(lambda: told(node) == expected, 20, f"{node} names the next owner")  # noqa: B023
