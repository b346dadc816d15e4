"""Three hundred partitions of the default segment size written at once: it holds steady, and at rest nothing stays open."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bmq.dev.hdfs import HdfsCluster
from testing.hdfs import fresh_root, outside_any_loop, reserved_bytes
from testing.processes import eventually
from testing.servers import BmqServer

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(300)]

PARTITIONS = 300
ROUNDS = 20
IDLE_CLOSE_MS = 25_000  # longer than a round and a look at it take on a busy machine
RESERVED_BYTES_MAX = 10 * 1024 * 1024  # for each; segment.bytes is 128 MiB
RESIDENT_BYTES_MAX = 400 * 1024 * 1024


def open_blocks(server: BmqServer) -> int:
    lines = server.metrics().splitlines()
    return next(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith("bmq_hdfs_open_blocks "))


def test_300_active_partitions_and_then_none(hdfs: HdfsCluster, tmp_path: Path) -> None:
    server = BmqServer(tmp_path / "server", store=f"{hdfs.url}{fresh_root('many')}")
    server.start()
    try:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        config = {"bmq.segment.idle.close.ms": str(IDLE_CLOSE_MS)}
        topic = NewTopic("many", num_partitions=PARTITIONS, config=config)
        admin.create_topics([topic], request_timeout=60)["many"].result(60)
        producer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True, "linger.ms": 5})
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        for _ in range(ROUNDS):
            for partition in range(PARTITIONS):
                producer.produce("many", bytes(2_000), partition=partition, on_delivery=delivered)
            assert producer.flush(60) == 0
        assert failures == []
        assert open_blocks(server) >= PARTITIONS
        reserved = outside_any_loop(reserved_bytes(hdfs))
        assert max(reserved) < PARTITIONS * RESERVED_BYTES_MAX, "an open block counts at its full size"
        assert psutil.Process(server.pid).memory_info().rss < RESIDENT_BYTES_MAX
        # The metadata log alone stays open.
        assert eventually(lambda: open_blocks(server) <= 1, 120, "idle segments are closed")
        for partition in range(PARTITIONS):
            producer.produce("many", b"again", partition=partition, on_delivery=delivered)
        assert producer.flush(60) == 0
        assert failures == []
        assert server.stop() == 0
    finally:
        server.close()
    assert "Traceback" not in server.log_file.read_text()
