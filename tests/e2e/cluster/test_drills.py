"""The drills of docs/OPERATIONS.md that are about a cluster: their commands, as the page has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.dev.zookeeper import ZooKeeperServer
from testing.hdfs import outside_any_loop
from testing.steady_load import assert_nothing_lost
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.e2e.cluster.test_refused_nodes import refusal
from tests.support.paced_load import producing
from tests.support.page_commands import hadoop_tools, run_page

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(300)]

PARTITIONS = 3


def test_zookeeper_has_lost_its_data(
    new_cluster: ClusterMaker,
    own_zookeeper: ZooKeeperServer,
    hdfs: HdfsCluster,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    cluster = new_cluster(2, zookeeper_hosts=str(own_zookeeper.address))
    cluster.start()
    topic = make_topic(cluster, PARTITIONS)
    cluster_id = cluster.get("/v1/cluster")["cluster_id"]
    with producing(cluster.bootstrap, topic, PARTITIONS, records_s=100) as load:
        load.wait_for_every_partition(20)
        for node in cluster.nodes.values():
            node.restart()  # so that the metadata log has seen epochs that a new counter would give again
        load.wait_for_every_partition(20)
        for node in cluster.nodes.values():
            node.stop()
        outside_any_loop(own_zookeeper.stop())
        own_zookeeper.wipe()
        outside_any_loop(own_zookeeper.start())
        found = re.search(r"raise-epoch --to (\d+)", refusal(cluster.node(1)))
        assert found is not None
        said = run_page(
            "Drill: ZooKeeper has lost its data",
            hadoop_tools(tmp_path / "bin", hdfs.directory / "conf"),
            EPOCH=found[1],
            ZOOKEEPER=cluster.zookeeper,
            CLUSTER_ID=cluster_id,
            ROOT=cluster.root,
        )
        assert cluster_id in said
        cluster.start()
        load.wait_for_every_partition(20)
    assert_nothing_lost(load, cluster.bootstrap)
