"""A cluster whose nodes go to the next release one by one, and nodes of both releases in every part."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from testing.cluster import BmqCluster
from testing.processes import REPOSITORY, eventually
from testing.steady_load import assert_nothing_lost
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.e2e.conftest import unique_name
from tests.support.older_release import change_release, choose_release, unpack_older_release
from tests.support.paced_load import producing

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(480)]

PARTITIONS = 6
RECORDS_S = 300


class Group:
    """Offsets that are committed and asked for again, each time with a new consumer: from whoever is the coordinator now."""

    def __init__(self, cluster: BmqCluster, topic: str) -> None:
        self._config = {"bootstrap.servers": cluster.bootstrap, "group.id": unique_name("upgrade"), "log_level": 0}
        self._where = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        self._committed: dict[int, int] = {}

    def commit(self, offset: int) -> None:
        consumer = Consumer({**self._config, "enable.auto.commit": False})
        commits = [TopicPartition(each.topic, each.partition, offset + each.partition) for each in self._where]
        consumer.commit(offsets=commits, asynchronous=False)
        consumer.close()
        self._committed = {each.partition: each.offset for each in commits}

    def check(self) -> None:
        consumer = Consumer(self._config)
        found = {each.partition: each.offset for each in consumer.committed(self._where, timeout=30)}
        consumer.close()
        assert found == self._committed


def test_nodes_of_two_releases_serve_together(
    new_cluster: ClusterMaker, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """Up one by one, under load; then one goes back, and the others' controllers end, so that each release has led both."""
    older = unpack_older_release(tmp_path / "older")

    cluster = new_cluster(3)
    nodes = list(cluster.nodes.values())
    for node in nodes:
        choose_release(node, older)
    cluster.start()
    topic = make_topic(cluster, PARTITIONS)
    group = Group(cluster, topic)
    with producing(cluster.bootstrap, topic, PARTITIONS, records_s=RECORDS_S) as load:

        def look(number: int) -> None:
            cluster.wait_settled()
            load.wait_for_every_partition(20)
            group.check()
            group.commit(10 * number)
            group.check()

        group.commit(1)
        for number, node in enumerate(nodes):
            change_release(node, REPOSITORY)
            look(number)
        back, *others = nodes
        change_release(back, older)
        look(len(nodes))
        for node in others:
            if cluster.controller() is not node:
                continue
            node.kill()
            eventually(lambda: cluster.controller().is_running, 30, "there is a next controller")
            load.wait_for_every_partition(20)
            node.start()
            look(len(nodes) + node.node_id)

        for node in others:
            node.stop()
        eventually(lambda: cluster.controller() is back, 30, "the older release has the controller")
        look(10)
        for node in others:
            node.start()
        assert cluster.controller() is back, "the older release lost the controller"
        look(20)
    assert_nothing_lost(load, cluster.bootstrap)
