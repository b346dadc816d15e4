"""ZooKeeper is away for a while: nobody notices, and failover works again once it is back."""

from __future__ import annotations

import time

import pytest

from bmq.dev.zookeeper import ZooKeeperServer
from testing.cluster import ClusterNode
from testing.hdfs import outside_any_loop
from testing.processes import eventually
from testing.steady_load import assert_nothing_lost
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.e2e.cluster.test_separate_roles import owners_and_epochs
from tests.support.paced_load import producing

pytestmark = [pytest.mark.faults, pytest.mark.bmq_only, pytest.mark.timeout(240), pytest.mark.safety]

PARTITIONS = 3
# Longer than a session of a node lasts without ZooKeeper (6 s): what was ephemeral is gone when it comes back.
AWAY_S = 10.0


def test_traffic_goes_on_without_zookeeper_and_failover_comes_back(
    new_cluster: ClusterMaker, own_zookeeper: ZooKeeperServer, make_topic: TopicMaker
) -> None:
    cluster = new_cluster(3, zookeeper_hosts=str(own_zookeeper.address))
    cluster.start()
    topic = make_topic(cluster, PARTITIONS)
    with producing(cluster.bootstrap, topic, PARTITIONS) as load:

        def leaders() -> tuple[ClusterNode, list[tuple[int, int]]]:
            return cluster.controller(), owners_and_epochs(cluster, topic)

        cluster.wait_settled()
        cluster.wait_balanced()
        before = leaders()
        outside_any_loop(own_zookeeper.stop())
        back_at = time.monotonic() + AWAY_S
        while time.monotonic() < back_at:
            load.wait_for_every_partition(50)
        # Topics are made without it too: the controller owns its log, not a lock.
        # As many partitions as nodes: what is balanced stays so.
        assert make_topic(cluster, 3)
        outside_any_loop(own_zookeeper.start())
        load.wait_for_every_partition(200)
        load.assert_no_hang()
        assert leaders() == before, "something moved"

        # The node of the active controller: what is to be elected anew can be, and a broker's partitions move.
        controller = cluster.controller()
        controller.kill()
        load.wait_for_every_partition(150)
        eventually(lambda: cluster.controller() is not controller, 20, "another node is the active controller")
        cluster.wait_left_by(controller, topic)
    assert_nothing_lost(load, cluster.bootstrap)
