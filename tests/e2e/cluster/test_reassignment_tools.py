"""Kafka's own tools that name brokers: kafka-reassign-partitions, kafka-leader-election, kafka-topics, and groups."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kio.schema.alter_partition_reassignments.v1 import request as alter
from kio.schema.alter_partition_reassignments.v1.response import AlterPartitionReassignmentsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from testing.cluster import BmqCluster
from testing.java import LEADER_ELECTION, REASSIGN_PARTITIONS, TOPICS, ToolResult
from testing.processes import eventually
from testing.steady_load import assert_nothing_lost
from testing.wire import WireClient
from tests.e2e.cluster.conftest import TopicMaker
from tests.e2e.conftest import unique_name
from tests.e2e.test_admin_tools import group_rows
from tests.e2e.test_groups import fill
from tests.support.kio_client import call
from tests.support.paced_load import producing
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(240)]

PARTITIONS = 6
DESCRIBED_WAIT_S = 30.0


def reassign(cluster: BmqCluster, *arguments: str, check: bool = True) -> ToolResult:
    return run_tool(REASSIGN_PARTITIONS, "--bootstrap-server", cluster.bootstrap, *arguments, check=check)


def plan_file(directory: Path, topic: str, replicas: dict[int, list[int]], name: str = "plan.json") -> str:
    """The file that moves these partitions."""
    rows = [{"topic": topic, "partition": number, "replicas": nodes} for number, nodes in replicas.items()]
    path = directory / name
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(path)


def described(cluster: BmqCluster, topic: str) -> dict[int, tuple[int, list[int], list[int]]]:
    """Leader, replicas and in-sync replicas by partition, as kafka-topics prints them."""
    out = run_tool(TOPICS, "--bootstrap-server", cluster.bootstrap, "--describe", "--topic", topic).out
    rows = re.findall(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]+)", out)
    return {
        int(number): (int(leader), [int(node) for node in replicas.split(",")], [int(node) for node in isr.split(",")])
        for number, leader, replicas, isr in rows
    }


@pytest.mark.faults
def test_reassignment_from_plan_to_verification(cluster: BmqCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    """Generate, execute, verify, list, cancel; the partitions move under load and nobody loses anything."""
    topic = make_topic(cluster, 3, replication_factor=2)
    cluster.wait_balanced()  # nothing else moves meanwhile
    wanted = tmp_path / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generated = reassign(
        cluster, "--topics-to-move-json-file", str(wanted), "--broker-list", "1,2", "--generate"
    ).out.splitlines()
    current, proposed = (json.loads(line) for line in generated if line.startswith("{"))
    assert {row["partition"]: row["replicas"] for row in current["partitions"]} == {
        number: replicas for number, (_, replicas, _) in described(cluster, topic).items()
    }
    assert {node for row in proposed["partitions"] for node in row["replicas"]} == {1, 2}

    # Each goes to one other node: the nodes own as many as before, so the balancer has nothing to put right.
    owners = cluster.owners_of(topic)
    moved = [owners[1], owners[2], owners[0]]
    rotation = plan_file(tmp_path, topic, {number: [node] for number, node in enumerate(moved)}, "rotation.json")
    # The owner stays where it may stay, though it is not preferred.
    back = {number: sorted(cluster.nodes, key=last.__eq__) for number, last in enumerate(moved)}

    with producing(cluster.bootstrap, topic, 3) as load:
        started = reassign(cluster, "--reassignment-json-file", rotation, "--execute").out
        assert "Successfully started partition reassignments" in started
        rollback = next(json.loads(line) for line in started.splitlines() if line.startswith("{"))
        # Replicas are where their owner says they are, or anywhere: either way it could be executed.
        directories = {path for row in rollback["partitions"] for path in row["log_dirs"]} - {"any"}
        assert all(path == cluster.store for path in directories), directories

        # The tool asks any of the nodes, which hear of a change one after the other.
        def completed() -> list[str]:
            verified = reassign(cluster, "--reassignment-json-file", rotation, "--verify").out
            return re.findall(rf"Reassignment of partition {topic}-(\d) is completed\.", verified)

        eventually(lambda: completed() == ["0", "1", "2"], DESCRIBED_WAIT_S, "the reassignment is completed")
        load.wait_for_every_partition(100)
        eventually(
            lambda: cluster.owners_of(topic) == moved, DESCRIBED_WAIT_S, "the partitions are where they were put"
        )
        reassign(cluster, "--reassignment-json-file", plan_file(tmp_path, topic, back), "--execute")
        load.wait_for_every_partition(100)
        stayed = {number: (moved[number], back[number]) for number in range(3)}
        eventually(
            lambda: {number: row[:2] for number, row in described(cluster, topic).items()} == stayed,
            DESCRIBED_WAIT_S,
            "each partition has the new replicas, and its owner",
        )
        assert cluster.owners_of(topic) == moved, "a partition did not stay"
    assert_nothing_lost(load, cluster.bootstrap)
    assert "No partition reassignments found." in reassign(cluster, "--list").out
    cancelled = reassign(cluster, "--reassignment-json-file", rotation, "--cancel")
    assert "None of the specified partition moves are active." in cancelled.out


def test_preferred_leader_election(cluster: BmqCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    """Two partitions are to change places."""
    topic = make_topic(cluster, 2)
    nodes = sorted(cluster.nodes)
    # Where an operator has put them the balancer leaves them.
    first, second = (nodes[(nodes.index(owner) + 1) % len(nodes)] for owner in cluster.owners_of(topic))
    placed = plan_file(tmp_path, topic, {0: [first], 1: [second]}, "placed.json")
    wanted = plan_file(tmp_path, topic, {0: [second, first], 1: [first, second]}, "wanted.json")

    def elect() -> str:
        arguments = ("--bootstrap-server", cluster.bootstrap, "--election-type", "preferred")
        return run_tool(LEADER_ELECTION, *arguments, "--path-to-json-file", wanted).text

    def epochs() -> list[int]:
        return [cluster.leader_epoch_of(topic, number) for number in range(2)]

    with producing(cluster.bootstrap, topic, 2) as load:
        reassign(cluster, "--reassignment-json-file", placed, "--execute")
        put, epochs_before = cluster.owners_of(topic), epochs()
        reassign(cluster, "--reassignment-json-file", wanted, "--execute")
        kept = cluster.owners_of(topic)
        said = elect()
        load.wait_for_every_partition(100)
        elected = cluster.owners_of(topic)
        is_newer = all(after > before for before, after in zip(epochs_before, epochs(), strict=True))
        is_done = re.search(rf"Successfully completed leader election \(PREFERRED\) for partitions .*{topic}-0", said)
        is_there = re.search(rf"Valid replica already elected for partitions .*{topic}-0", elect())
        assert (put, kept, elected) == ([first, second], [first, second], [second, first])
        assert is_newer and is_done and is_there, said
    assert_nothing_lost(load, cluster.bootstrap)


def test_unknown_brokers_are_refused(cluster: BmqCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    topic = make_topic(cluster, 1)
    before = described(cluster, topic)
    refused = reassign(
        cluster, "--reassignment-json-file", plan_file(tmp_path, topic, {0: [1, 99]}), "--execute", check=False
    )
    assert refused.code != 0
    assert "Unknown broker id 99" in refused.text, refused.text
    # The tool looks itself; who does not is told by the controller, through whichever node it asks.
    for node in cluster.nodes.values():
        with WireClient(node.kafka_port) as client:
            answer = call(client, alter_request(topic, [1, 99]), AlterPartitionReassignmentsResponse)
        (partition,) = answer.responses[0].partitions
        assert partition.error_code is ErrorCode.invalid_replica_assignment
        assert partition.error_message is not None and "99" in partition.error_message
    # The balancer may have chosen another owner meanwhile, of the same replicas.
    assert replicas_of(described(cluster, topic)) == replicas_of(before)


def replicas_of(rows: Mapping[int, tuple[int, list[int], list[int]]]) -> dict[int, list[int]]:
    return {number: replicas for number, (_, replicas, _) in rows.items()}


def alter_request(topic: str, replicas: list[int]) -> alter.AlterPartitionReassignmentsRequest:
    partition = alter.ReassignablePartition(partition_index=i32(0), replicas=tuple(BrokerId(node) for node in replicas))
    return alter.AlterPartitionReassignmentsRequest(
        topics=(alter.ReassignableTopic(name=TopicName(topic), partitions=(partition,)),)
    )


def test_topics_and_groups_are_described_from_any_node(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    topic, group = make_topic(cluster, PARTITIONS), unique_name("group")
    fill(cluster, topic, "all")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False})
    positions = [TopicPartition(topic, number, 10 * number) for number in range(PARTITIONS)]
    consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()
    for node in cluster.nodes.values():
        assert group_rows(node, group) == {
            number: (str(10 * number), "100", str(100 - 10 * number)) for number in range(PARTITIONS)
        }
    rows = described(cluster, topic)
    # Asked one after the other: the balancer may move a partition in between.
    eventually(
        lambda: [leader for leader, _, _ in described(cluster, topic).values()] == cluster.owners_of(topic),
        DESCRIBED_WAIT_S,
        "one answer to who leads",
    )
    for leader, replicas, in_sync in rows.values():
        assert sorted(replicas) == sorted(in_sync) == [1, 2, 3]
        assert leader in replicas
