"""A node that is stopped in order, with clients in the middle of everything, has nothing to warn of; nor have the others."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from testing.cluster import BmqCluster, ClusterNode
from testing.hdfs import PATIENT
from testing.patience import Patience
from testing.processes import eventually
from testing.servers import bmq_with_topic
from testing.steady_load import assert_nothing_lost
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.e2e.conftest import unique_name
from tests.support.paced_load import producing

pytestmark = [pytest.mark.bmq_only, pytest.mark.timeout(300)]

STATE_PARTITIONS = 50
PARTITIONS = 24
MANY_PARTITIONS = 150
MANY_STOPPED_S_MAX = 60.0
"""A hang is what is looked for: how long starts take is the machine's affair (tests/simulation/test_ordered_stop.py bounds the rest)."""
IN_USE_WAIT_S = 60.0
# Nodes warn of what a busy machine is slow at. A request that came before the stop may wait for a shard or a partition that another
# node loads: `answer_wait_ms` and `move_wait_ms` together. A quarter of a stop's time is for such answers.
PATIENT_NODES = {
    "BMQ_STOP_TIMEOUT_MS": "60000",
    "BMQ_CLUSTER__ZOOKEEPER_SESSION_MS": "15000",
    "BMQ_CLUSTER__RELEASE_WAIT_MAX_MS": "15000",
    **{f"BMQ_HDFS__{name.upper()}": f"{value:g}" for name, value in PATIENT.items()},
}
LINES_OF_OTHERS_MAX = 2 * 3  # of each of the other two: the controller's silence, and links for two purposes


class Clients:
    """Producers of all kinds, and members of groups by both protocols. `done`: transactions and records, by kind."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.done: Counter[str] = Counter()
        self._bootstrap = bootstrap
        self._topic = topic
        self._is_over = threading.Event()
        works: list[Callable[[], None]] = [self._produce, self._transact]
        works += [lambda protocol=protocol: self._consume(protocol) for protocol in ("classic", "consumer")]  # type: ignore[misc]
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def are_in_use(self) -> bool:
        return all(self.done[kind] > 0 for kind in ("produced", "transactions", "classic", "consumer"))

    def _produce(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
        )
        number = 0
        while not self._is_over.wait(0.01):
            for _ in range(PARTITIONS):
                producer.produce(self._topic, b"x" * 100, partition=number % PARTITIONS, on_delivery=self._delivered)
                number += 1
            producer.poll(0)
        producer.flush(10)

    def _delivered(self, error: object, message: object) -> None:
        self.done["produced"] += error is None

    def _transact(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "transactional.id": unique_name("id"), "log_level": 0}
        )
        with suppress(KafkaException):
            producer.init_transactions(60)
            while not self._is_over.wait(0.01):
                producer.begin_transaction()
                producer.produce(self._topic, b"y")
                producer.commit_transaction(60)
                self.done["transactions"] += 1

    def _consume(self, protocol: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": unique_name("group"),
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 100,
                "log_level": 0,
            }
        )
        consumer.subscribe([self._topic])
        while not self._is_over.is_set():
            message = consumer.poll(0.2)
            self.done[protocol] += message is not None and message.error() is None
        consumer.close()


@contextmanager
def in_use(cluster: BmqCluster, topic: str) -> Iterator[Clients]:
    clients = Clients(cluster.bootstrap, topic)
    clients.start()
    try:
        eventually(clients.are_in_use, IN_USE_WAIT_S, "every client does what it is there for")
        yield clients
    finally:
        clients.close()


def alarms_in(log: str, from_line: int = 0) -> list[str]:
    """Log lines that are neither debug nor info."""
    found = []
    for line in log.splitlines()[from_line:]:
        with suppress(json.JSONDecodeError):
            if json.loads(line)["level"] not in ("debug", "info"):
                found.append(line)
    return found


def alarms(nodes: list[ClusterNode], from_line: dict[int, int]) -> list[str]:
    """Those of each node from these lines on."""
    return [
        f"{node.node_id}: {line}"
        for node in nodes
        for line in alarms_in(node.process.log_of_this_run(), from_line[node.node_id])
    ]


def line_counts(nodes: list[ClusterNode]) -> dict[int, int]:
    return {node.node_id: len(node.process.log_of_this_run().splitlines()) for node in nodes}


@pytest.mark.campaign("cluster")
def test_an_ordered_stop_is_no_reason_for_a_warning(new_cluster: ClusterMaker, make_topic: TopicMaker) -> None:
    partitions = {"offsets.topic.num.partitions": str(STATE_PARTITIONS)}
    partitions["transaction.state.log.num.partitions"] = str(STATE_PARTITIONS)
    kafka = json.dumps({**partitions, "group.initial.rebalance.delay.ms": "0"})
    cluster = new_cluster(3, **PATIENT_NODES, BMQ_KAFKA=kafka)
    cluster.start()
    topic = make_topic(cluster, PARTITIONS)
    nodes = list(cluster.nodes.values())
    with in_use(cluster, topic):
        before = line_counts(nodes)
        nodes[0].stop()
        said = alarms(nodes, before)
    assert [line for line in said if line.startswith("1: ")] == []
    # The first node is the active controller, and others may ask it before they have seen that it left.
    others = [line for line in said if "controller_silent" not in line and "link_not_opened" not in line]
    assert others == []
    assert len(said) <= LINES_OF_OTHERS_MAX


@pytest.mark.campaign("cluster")
def test_a_node_with_many_partitions_in_use_hands_them_over_quickly(
    new_cluster: ClusterMaker, make_topic: TopicMaker
) -> None:
    cluster = new_cluster(3)
    cluster.start()
    topic = make_topic(cluster, MANY_PARTITIONS)
    with producing(cluster.bootstrap, topic, MANY_PARTITIONS, records_s=1_000) as load:
        load.wait_for_every_partition(50)
        load.forget_gaps()
        stopping = cluster.nodes[2]
        began_s = time.monotonic()
        stopping.stop()
        took_s = time.monotonic() - began_s
        load.wait_for_every_partition(20)
    print(f"stop took {took_s:.2f} s, longest gap {load.longest_gap_s:.2f} s")
    assert took_s <= Patience(MANY_STOPPED_S_MAX).limit_s
    assert_nothing_lost(load, cluster.bootstrap)
    load.assert_no_hang()


@pytest.mark.faults
def test_an_ordered_stop_of_one_process_is_no_reason_for_a_warning(tmp_path: Path) -> None:
    with bmq_with_topic(tmp_path / "data", "topic", PARTITIONS) as server:
        clients = Clients(server.bootstrap, "topic")
        clients.start()
        try:
            eventually(clients.are_in_use, IN_USE_WAIT_S, "every client does what it is there for")
            assert server.stop() == 0
            said = alarms_in(server.process.log_of_this_run())
            # To clients that end without one, the last commit and the farewell cost a minute.
            server.start()
        finally:
            clients.close()
        assert said == []
