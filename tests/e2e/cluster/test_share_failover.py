"""Share groups on three nodes, with librdkafka's and Java's share consumers, while a node dies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Message, Producer, ShareConsumer

from bmq.coordinator.runtime.directory import shard_of
from bmq.protocol.share_state_messages import state_key
from testing.cluster import BmqCluster, ClusterNode
from testing.java import CONFIGS, java_command
from testing.processes import ManagedProcess, eventually
from tests.e2e.cluster.conftest import TopicMaker
from tests.e2e.conftest import unique_name
from tests.e2e.test_share_groups import VERIFIABLE_SHARE_CONSUMER
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(240), pytest.mark.safety]

STATE_TOPIC = "__share_group_state"
PARTITIONS = 12
COUNT = 6_000
PART = 1_200
"""A multiple of the partitions."""
WAIT_S = 90.0

Place = tuple[int, int]
"""Partition and offset."""


class Taken:
    """`accepted`: how often a member was told that its acknowledgement succeeded; `unsure`: that it failed."""

    def __init__(self) -> None:
        self.accepted: Counter[Place] = Counter()
        self.unsure: set[Place] = set()


class JavaMember:
    """Kafka's verifiable share consumer in a JVM of its own."""

    def __init__(self, bootstrap: str, topic: str, group: str, directory: Path, **configs: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        settings = directory / "client.properties"
        settings.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in configs.items()))
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group]
        arguments += ["--offset-reset-strategy", "earliest", "--acknowledgement-mode", "sync"]
        arguments += ["--command-config", str(settings)]
        self.process = ManagedProcess(
            "share consumer", java_command(VERIFIABLE_SHARE_CONSUMER, arguments), directory / "out.log"
        )

    def events(self) -> Iterator[dict[str, Any]]:
        for line in self.process.log_of_this_run().splitlines():
            if line.startswith("{") and line.endswith("}"):
                yield json.loads(line)

    @property
    def accepted_count(self) -> int:
        return sum(one["count"] for one in self.events() if one["name"] == "offsets_acknowledged" and one["success"])

    def add_to(self, taken: Taken) -> None:
        for one in self.events():
            if one["name"] == "offsets_acknowledged":
                places = [(part["partition"], offset) for part in one["partitions"] for offset in part["offsets"]]
                if one["success"]:
                    taken.accepted.update(places)
                else:
                    taken.unsure.update(places)


class LibrdkafkaMember:
    """Accepts what it is given."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
        self.consumer = ShareConsumer(settings)
        self.consumer.subscribe([topic])

    def poll(self) -> list[Message]:
        return [one for one in self.consumer.poll(0.2) if one.error() is None]

    def accept(self, taken: Taken) -> int:
        """How many were accepted."""
        messages = self.poll()
        for message in messages:
            self.consumer.acknowledge(message)
        if not messages:
            return 0
        failed = {one.partition for one, error in self.consumer.commit_sync(30).items() if error}
        done = [(one.partition(), one.offset()) for one in messages if one.partition() not in failed]
        taken.accepted.update(done)
        taken.unsure.update((one.partition(), one.offset()) for one in messages if one.partition() in failed)
        return len(done)


def group_from_the_beginning(cluster: BmqCluster) -> str:
    group = unique_name("share")
    run_tool(
        CONFIGS,
        *("--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "groups", "--entity-name", group),
        *("--add-config", "share.auto.offset.reset=earliest,share.delivery.count.limit=10"),
    )
    return group


def shard_owner(cluster: BmqCluster, topic: str, group: str, partition: int) -> ClusterNode:
    """The node whose shard keeps the share partition's state."""
    key = state_key(group, UUID(cluster.topic(topic)["topic_id"]), partition)
    return cluster.owner_of(STATE_TOPIC, shard_of(key, len(cluster.owners_of(STATE_TOPIC))))


def owner_with_shard(cluster: BmqCluster, topic: str, group: str) -> ClusterNode:
    """The node that owns a partition and its shard; partition 0 is moved to its shard's if chance made no such node."""
    for partition, owner in enumerate(cluster.owners_of(topic)):
        node = shard_owner(cluster, topic, group, partition)
        if node.node_id == owner:
            return node
    node = shard_owner(cluster, topic, group, 0)
    status, task = cluster.controller().call("POST", f"/v1/topics/{topic}/partitions/0/move", {"to": node.node_id})
    assert status == 202, task
    eventually(lambda: cluster.owners_of(topic)[0] == node.node_id, WAIT_S, "partition 0 is moved to its shard's node")
    return node


def lags(cluster: BmqCluster, group: str) -> list[int | None]:
    return [one["lag"] for one in cluster.get(f"/v1/groups/{group}/explain")["partitions"]]


def produce(cluster: BmqCluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, b"value %d" % number, partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def test_all_is_accepted_once_when_the_node_of_owner_and_shard_is_killed(
    cluster: BmqCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic, group, taken = make_topic(cluster, PARTITIONS), group_from_the_beginning(cluster), Taken()
    sent = COUNT // 2
    produce(cluster, topic, sent)
    members = [LibrdkafkaMember(cluster.bootstrap, topic, group) for _ in range(2)]
    java = JavaMember(cluster.bootstrap, topic, group, tmp_path / "java")
    java.process.start()
    try:

        def accept_until(is_enough: Any, what: str) -> None:
            def accepted() -> bool:
                for member in members:
                    member.accept(taken)
                return bool(is_enough())

            eventually(accepted, WAIT_S, what)

        def is_accepted_by_both() -> bool:
            """The kind that is there first may have taken everything: then there is more."""
            nonlocal sent
            if taken.accepted.total() >= 200 and java.accepted_count >= 200:
                return True
            if taken.accepted.total() + java.accepted_count >= sent:
                produce(cluster, topic, PART)
                sent += PART
            return False

        accept_until(is_accepted_by_both, "both kinds accept records")
        victim = owner_with_shard(cluster, topic, group)
        victim.kill()
        before = sent
        produce(cluster, topic, COUNT // 2)
        sent += COUNT // 2
        accept_until(lambda: taken.accepted.total() + java.accepted_count >= before + 200, "they go on")
        victim.start()
        cluster.wait_settled()
        accept_until(lambda: lags(cluster, group) == [0] * PARTITIONS, "nothing is left")
    finally:
        for member in members:
            member.consumer.close()
        java.process.kill()
    java.add_to(taken)
    assert [place for place, count in taken.accepted.items() if count > 1] == []
    produced = {(partition, offset) for partition in range(PARTITIONS) for offset in range(sent // PARTITIONS)}
    assert set(taken.accepted) <= produced
    assert produced - set(taken.accepted) <= taken.unsure, (
        "what no member was told of has an outcome unknown to its member"
    )
