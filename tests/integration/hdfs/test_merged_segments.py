"""Small segments are merged on HDFS: the NameNode has fewer objects afterwards, and consumers read the same records."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from bmq.dev.hdfs import HdfsCluster
from bmq.dev.namenode_status import jmx_bean
from testing.hdfs import fresh_root, outside_any_loop
from testing.processes import eventually
from testing.servers import BmqServer

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(400)]

PARTITIONS = 8
ROUNDS = 9
KILLS = (3, 6)
CONFIG = {
    "bmq.segment.idle.close.ms": "300",
    "bmq.segment.merge.lag.ms": "0",
    "bmq.segment.merge.min.count": "3",
    "file.delete.delay.ms": "1000",
}


def metric(server: BmqServer, name: str) -> int:
    lines = server.metrics().splitlines()
    return next(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(f"{name} "))


def objects(hdfs: HdfsCluster) -> int:
    """Files, directories and blocks that the NameNode has in memory."""
    bean = outside_any_loop(jmx_bean(hdfs.plan.namenodes[0].http, "Hadoop:service=NameNode,name=FSNamesystem"))
    return int(bean["FilesTotal"]) + int(bean["BlocksTotal"])


def values_of(server: BmqServer) -> dict[int, list[tuple[int, bytes | None]]]:
    """(offset, value) of every record, by partition."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    found: dict[int, list[tuple[int, bytes | None]]] = {partition: [] for partition in range(PARTITIONS)}
    try:
        consumer.assign([TopicPartition("small", partition, 0) for partition in range(PARTITIONS)])

        def is_read() -> bool:
            for message in consumer.consume(500, 0.2):
                assert message.error() is None
                found[message.partition()].append((message.offset(), message.value()))
            return all(len(records) == ROUNDS for records in found.values())

        eventually(is_read, 60, "all records are read")
    finally:
        consumer.close()
    return found


def test_merged_segments_cost_the_namenode_fewer_objects(hdfs: HdfsCluster, tmp_path: Path) -> None:
    server = BmqServer(tmp_path / "server", store=f"{hdfs.url}{fresh_root('merged')}")
    server.start()
    try:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        topic = NewTopic("small", num_partitions=PARTITIONS, config=CONFIG)
        admin.create_topics([topic], request_timeout=60)["small"].result(60)
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        for number in range(ROUNDS):
            if number in KILLS:
                server.kill()
                server.start()
            producer = Producer({"bootstrap.servers": server.bootstrap})
            for partition in range(PARTITIONS):
                producer.produce("small", b"%d of %d" % (number, partition), partition=partition, on_delivery=delivered)
            assert producer.flush(60) == 0
            assert failures == []
            # The metadata log alone stays open.
            assert eventually(lambda: metric(server, "bmq_hdfs_open_blocks") <= 1, 60, "idle segments are closed")
        before, records = objects(hdfs), values_of(server)
        for partition, found in records.items():
            assert found == [(number, b"%d of %d" % (number, partition)) for number in range(ROUNDS)]

        # Nothing was merged so far: bmq.segment.merge.max.bytes is 0 by default.
        assert metric(server, "bmq_segment_merges_total") == 0
        entry = ConfigEntry("bmq.segment.merge.max.bytes", "1048576", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "small", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)
        assert eventually(
            lambda: metric(server, "bmq_merged_segments_total") >= (ROUNDS - 1) * PARTITIONS, 150, "segments are merged"
        )
        # Of nine segments, each with an index, one is left, or two if the last one had no index yet. Each file has a block.
        saved = 4 * (ROUNDS - 2) * PARTITIONS
        assert eventually(lambda: objects(hdfs) <= before - saved, 120, "old files are deleted")
        assert values_of(server) == records
        server.kill()
        server.start()
        assert values_of(server) == records
        assert server.stop() == 0
    finally:
        server.close()
    assert "Traceback" not in server.log_file.read_text()
