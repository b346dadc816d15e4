"""Transactional producers go on while coordinators, owners and the controller die or their partitions move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from testing.cluster import BmqCluster, ClusterNode
from testing.processes import eventually
from testing.topic_contents import end_offsets
from tests.e2e.cluster.conftest import TopicMaker
from tests.e2e.cluster.test_groups_failover import java_hash
from tests.e2e.conftest import unique_name
from tests.support.transactional_load import (
    JavaWriter,
    LibrdkafkaWriter,
    TransactionalWriter,
    assert_whole,
    committed_values,
)

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(240), pytest.mark.safety]

PARTITIONS = 3
STATE_TOPIC = "__transaction_state"
GO_ON_WAIT_S = 90.0
# The writers ask again by themselves after 120 s: such a wait shows that nobody answered them.
HANG_S = 60.0
MOVE_WAIT_S = 60.0
LEFT_OPEN_MS = 15_000


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("classes")
    JavaWriter.compile(directory)
    return directory


class Load:
    """A producer of each kind, with a topic of its own each."""

    def __init__(self, cluster: BmqCluster, writers: dict[str, TransactionalWriter]) -> None:
        self.cluster = cluster
        self.writers = writers

    def go_on(self, transactions: int = 8) -> None:
        """Return once each has committed so many more, and every last stable offset has moved. Raises AssertionError."""
        before = {topic: stable(self.cluster, topic, PARTITIONS) for topic in self.writers}
        targets = {topic: len(writer.committed) + transactions for topic, writer in self.writers.items()}

        def reached() -> bool:
            for writer in self.writers.values():
                assert not writer.fatal, f"{writer.name}: {writer.fatal}"
            return all(len(writer.committed) >= targets[topic] for topic, writer in self.writers.items())

        def moved() -> bool:
            return all(
                now > then
                for topic in self.writers
                for now, then in zip(stable(self.cluster, topic, PARTITIONS), before[topic], strict=True)
            )

        eventually(reached, GO_ON_WAIT_S, f"each producer commits {transactions} more transactions")
        eventually(moved, GO_ON_WAIT_S, "the last stable offsets move")


def stable(cluster: BmqCluster, topic: str, partitions: int) -> list[int]:
    """The last stable offsets."""
    return end_offsets(cluster.bootstrap, topic, partitions, "read_committed")


@contextmanager
def writing(cluster: BmqCluster, make_topic: TopicMaker, classes: Path) -> Iterator[Load]:
    """When this ends without an error, all that was committed is there once, and nothing that was aborted."""
    topics = [make_topic(cluster, PARTITIONS) for _ in range(2)]
    writers: dict[str, TransactionalWriter] = {
        topics[0]: LibrdkafkaWriter(cluster.bootstrap, topics[0], PARTITIONS, unique_name("rd")),
        topics[1]: JavaWriter(classes, cluster.bootstrap, topics[1], PARTITIONS, unique_name("java")),
    }
    try:
        load = Load(cluster, writers)
        load.go_on()
        yield load
    finally:
        for writer in writers.values():
            writer.finish()
    for topic, writer in writers.items():
        print(
            f"{writer.name}: {len(writer.committed)} committed, {len(writer.aborted)} aborted, the longest took "
            f"{writer.longest_s:.2f} s; {writer.failed or 'none failed'}"
        )
        assert not writer.fatal, writer.fatal
        assert_whole(committed_values(cluster.bootstrap, topic, PARTITIONS), writer.committed, writer.aborted)
        assert writer.longest_s < HANG_S, f"{writer.name} waited {writer.longest_s} s"


def shard_of(cluster: BmqCluster, transactional_id: str) -> int:
    return abs(java_hash(transactional_id)) % len(cluster.owners_of(STATE_TOPIC))


def coordinator_of(cluster: BmqCluster, writer: TransactionalWriter) -> ClusterNode:
    return cluster.owner_of(STATE_TOPIC, shard_of(cluster, writer.transactional_id))


def move(cluster: BmqCluster, topic: str, partition: int) -> None:
    """To another broker, and wait until it is there. Raises AssertionError."""
    before = cluster.owner_of(topic, partition).node_id
    to = next(node.node_id for node in cluster.healthy if node.node_id != before)

    def ordered() -> bool:
        path = f"/v1/topics/{topic}/partitions/{partition}/move"
        return cluster.controller().call("POST", path, {"to": to})[0] == 202

    eventually(ordered, MOVE_WAIT_S, f"moving {topic}-{partition} is taken in hand")
    eventually(
        lambda: cluster.owners_of(topic)[partition] not in (before, -1), MOVE_WAIT_S, f"{topic}-{partition} has moved"
    )


def kill_each(load: Load, victims: Sequence[ClusterNode]) -> None:
    for victim in victims:
        if victim.is_running:
            victim.kill()
            load.go_on()
            victim.start()
            load.cluster.wait_settled()


@pytest.mark.faults
def test_the_coordinators_node_dies(cluster: BmqCluster, make_topic: TopicMaker, classes: Path) -> None:
    with writing(cluster, make_topic, classes) as load:
        for writer in load.writers.values():
            kill_each(load, [coordinator_of(cluster, writer)])


def test_a_transaction_whose_client_and_coordinator_die_is_aborted(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    """Nobody asks the next coordinator for anything."""
    topic, transactional_id = make_topic(cluster), unique_name("left")
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": LEFT_OPEN_MS,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"left open", partition=0)
    assert producer.flush(30) == 0
    victim = cluster.owner_of(STATE_TOPIC, shard_of(cluster, transactional_id))
    victim.kill()
    producer.purge()
    del producer  # and its threads
    # The last stable offset comes to the marker's end.
    eventually(lambda: stable(cluster, topic, 1) == [2], GO_ON_WAIT_S, "the next coordinator aborts")
    assert committed_values(cluster.bootstrap, topic, 1) == {0: []}


def test_an_owner_of_data_dies(cluster: BmqCluster, make_topic: TopicMaker, classes: Path) -> None:
    with writing(cluster, make_topic, classes) as load:
        for topic in load.writers:
            kill_each(load, [cluster.owner_of(topic, 0)])


def test_partitions_of_data_and_of_transactions_move(
    cluster: BmqCluster, make_topic: TopicMaker, classes: Path
) -> None:
    with writing(cluster, make_topic, classes) as load:
        for _ in range(3):
            for topic, writer in load.writers.items():
                move(cluster, STATE_TOPIC, shard_of(cluster, writer.transactional_id))
                move(cluster, topic, 1)
            load.go_on()


def test_the_active_controller_dies(cluster: BmqCluster, make_topic: TopicMaker, classes: Path) -> None:
    with writing(cluster, make_topic, classes) as load:
        for _ in range(2):
            kill_each(load, [cluster.controller()])
            # Owners are found anew with the next controller's help alone.
            move(cluster, STATE_TOPIC, shard_of(cluster, next(iter(load.writers.values())).transactional_id))
            load.go_on()
