"""The drill of docs/OPERATIONS.md about lost disks of DataNodes: its commands, as the page has them, under load."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bmq.dev.hdfs import HdfsCluster
from testing.hdfs import fresh_root, new_cluster, outside_any_loop, running
from testing.steady_load import assert_nothing_lost
from tests.support.hdfs_drill import WAIT_S, Drill
from tests.support.paced_load import PacedProducer
from tests.support.page_commands import hadoop_tools, run_page

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(400)]

PARTITIONS = 3
COPY_WAIT = "dfs.namenode.reconstruction.pending.timeout-sec"


def test_disks_of_datanodes_are_lost(tmp_path: Path) -> None:
    """One of three; then, when all is on three DataNodes again, both others at once."""
    # A copy that was ordered of a DataNode just before its disk was lost is ordered anew after this time, by default 5 minutes.
    cluster = new_cluster(tmp_path / "hdfs", datanodes=3, **{COPY_WAIT: "5"})  # type: ignore[arg-type]
    with running(cluster):
        tools = hadoop_tools(tmp_path / "bin", cluster.directory / "conf")
        kafka = '{"offsets.topic.num.partitions": "1", "min.insync.replicas": "2"}'
        settings = {
            "BMQ_KAFKA": kafka,
            "BMQ_HDFS__REPLICATION": "3",
            "BMQ_BROKER__QUIET_REPLICAS_RETRY_S": "3",  # the drill waits for what was written on two and rests
        }
        drill = Drill(cluster, tmp_path, fresh_root("disks"), settings)
        drill.server.start()
        try:
            admin = AdminClient({"bootstrap.servers": drill.server.bootstrap})
            admin.create_topics([NewTopic("numbers", PARTITIONS)])["numbers"].result(WAIT_S)
            rest = f"http://127.0.0.1:{drill.server.rest_port}"
            load = PacedProducer(drill.server.bootstrap, "numbers", PARTITIONS)
            try:
                assert drill.takes_records()
                load.wait_for_every_partition(200)
                lose_disks(cluster, 0)
                assert drill.takes_records()
                load.wait_for_every_partition(200)
                put_new_disks(cluster, 0)
                said = run_page("Drill: disks of DataNodes are lost", tools, ROOT=drill.root, REST=rest)
                assert "HEALTHY" in said

                lose_disks(cluster, 1, 2)
                assert drill.produce() is not None, "one replica is below min.insync.replicas"
                assert drill.read() == drill.acknowledged["t"]
                put_new_disks(cluster, 1, 2)
                load.wait_for_every_partition(200)
                said = run_page("Drill: disks of DataNodes are lost", tools, ROOT=drill.root, REST=rest)
                assert "HEALTHY" in said
            finally:
                load.finish()
            assert_nothing_lost(load, drill.server.bootstrap)
            drill.check()
        finally:
            drill.server.close()
        assert "Traceback" not in drill.server.log_file.read_text()


def lose_disks(cluster: HdfsCluster, *numbers: int) -> None:
    for number in numbers:
        outside_any_loop(cluster.datanode(number).kill())
    for number in numbers:
        shutil.rmtree(cluster.directory / f"dn{number}" / "data")


def put_new_disks(cluster: HdfsCluster, *numbers: int) -> None:
    for number in numbers:
        outside_any_loop(cluster.datanode(number).start())
