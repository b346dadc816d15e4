"""All DataNodes lose their power at once: what a topic with bmq.durability=hsync acknowledged is there afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bmq.dev.hdfs import HdfsCluster
from tests.soak.hazards import HSYNC, disks_of, lose_power
from tests.support import wire
from tests.support.hdfs import new_cluster, outside_any_loop, running
from tests.support.servers import BmqServer
from tests.support.unsafe_disk import UnsafeDisk
from tests.support.wire import WireClient

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

TOPIC = "kept"


@pytest.fixture
def unsafe_hdfs(tmp_path: Path) -> Iterator[tuple[HdfsCluster, tuple[UnsafeDisk, ...]]]:
    cluster = new_cluster(tmp_path / "hdfs")
    disks = disks_of(cluster)
    try:
        for disk in disks:
            disk.make()
        with running(cluster):
            for disk in disks:
                disk.sync()
            yield cluster, disks
    finally:
        for disk in disks:
            disk.close()


@pytest.mark.parametrize("is_server_killed", [True, False], ids=["the server too", "the server goes on"])
def test_a_synced_topic_outlives_it(
    tmp_path: Path, unsafe_hdfs: tuple[HdfsCluster, tuple[UnsafeDisk, ...]], is_server_killed: bool
) -> None:
    """With all that it takes to find it again: the metadata log is synced whatever topics ask for."""
    cluster, disks = unsafe_hdfs
    server = BmqServer(tmp_path / "server", store=f"{cluster.url}/bmq")
    server.start()
    try:
        admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=dict(HSYNC))])[TOPIC].result(timeout=30)
        with WireClient(server.port) as client:
            answers = [client.produce(TOPIC, wire.record_batch([b"%d" % number])) for number in range(50)]
        assert [answer.error_code for answer in answers] == [wire.NONE] * 50
        if is_server_killed:
            server.kill()
        outside_any_loop(lose_power(cluster, disks, 0.0))
        outside_any_loop(cluster.wait_live(3))
        if is_server_killed:
            server.start()
        with WireClient(server.port, timeout_s=60) as client:
            after = client.produce(TOPIC, wire.record_batch([b"after"]))
            assert (after.error_code, after.base_offset) == (wire.NONE, 50)
            end_offset = 0
            while end_offset < 51:  # a fetch ends with a segment
                found = client.fetch(TOPIC, end_offset)
                assert (found.error_code, found.high_watermark) == (wire.NONE, 51)
                assert found.records
                end_offset = wire.end_offset_of(found.records)
    finally:
        server.close()
