"""Small segments are merged, over kills of the owner, while Spark reads them: reads, streams and `bmq verify` see the same log."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from testing.patience import Patience
from testing.processes import ManagedProcess, dying_with_us, eventually
from testing.servers import BmqServer, bmq_command
from testing.table_topics import order, produce
from tests.e2e.conftest import create_topic
from tests.e2e.test_spark_tables import ENVIRONMENT
from tests.support.group_client import topic_id_of

pytestmark = [pytest.mark.campaign("spark-jobs"), pytest.mark.bmq_only, pytest.mark.timeout(1_200)]

EVENTS, ORDERS = "events", "orders"
PARTITIONS = 2
TRANSACTIONS, OF_TRANSACTION = 50, 200
ORDER_COUNT = 8_000
LATER = 50
"""Records that come behind the merges."""
KILLS = 3
WAIT_S = 240.0
FIRST_MS = 1_700_000_000_000
CONFIG = {
    "segment.bytes": "1048576",
    "retention.ms": "-1",
    "file.delete.delay.ms": "500",
    "bmq.segment.merge.lag.ms": "0",
    "bmq.segment.merge.min.count": "3",
}
MERGING = {"segment.bytes": "134217728", "bmq.segment.merge.max.bytes": "4194304"}
"""Each new segment is that of four."""


class Log:
    """A server, and its topics of small segments."""

    def __init__(self, directory: Path) -> None:
        self.server = BmqServer(directory / "data", {"BMQ_BROKER__COMPACTION_CHECK_INTERVAL_MS": "200"})

    def write(self) -> None:
        for topic in (EVENTS, ORDERS):
            create_topic(self.server, topic, PARTITIONS, CONFIG)
        write_events(self.server.bootstrap)
        values: list[bytes | None] = [order(number, padding="." * 2_500) for number in range(ORDER_COUNT)]
        produce(self.server.bootstrap, ORDERS, values, PARTITIONS)

    def files(self, topic: str) -> set[Path]:
        """Of its segments, also of those that were replaced and not deleted yet."""
        directory = self.server.directory / "topics" / str(topic_id_of(self.server.bootstrap, topic))
        return set(directory.rglob("*.log"))

    def merges(self) -> int:
        """Since the last start."""
        lines = self.server.metrics().splitlines()
        name = "bmq_segment_merges_total"
        return next(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(f"{name} "))

    def merge(self) -> None:
        """Have the segments merged, and kill the owner meanwhile."""
        before = {topic: self.files(topic) for topic in (EVENTS, ORDERS)}
        assert all(len(files) >= 8 * PARTITIONS for files in before.values()), before
        admin = AdminClient({"bootstrap.servers": self.server.bootstrap})
        for topic in (EVENTS, ORDERS):
            entries = [ConfigEntry(*pair, incremental_operation=AlterConfigOpType.SET) for pair in MERGING.items()]
            resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
            admin.incremental_alter_configs([resource])[resource].result(30)
        for _ in range(KILLS):
            eventually(lambda: self.merges() > 0, WAIT_S, "segments are merged")
            self.server.kill()
            self.server.start()
        for topic, files in before.items():
            eventually(partial(self._is_merged, topic, files), WAIT_S, f"{topic} is merged")

    def _is_merged(self, topic: str, before: set[Path]) -> bool:
        """Of each partition up to two segments are left over, as may be the last ones, which had no index yet."""
        return len(before & self.files(topic)) <= 4 * PARTITIONS

    def verified(self) -> dict[str, Any]:
        command = [bmq_command(), "verify", EVENTS, ORDERS, "--data", str(self.server.directory), "--json"]
        done = subprocess.run(
            dying_with_us(command), capture_output=True, text=True, timeout=Patience(WAIT_S).limit_s, check=False
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        report: dict[str, Any] = json.loads(done.stdout)
        return report


def write_events(bootstrap: str, first: int = 0, count: int = TRANSACTIONS * OF_TRANSACTION) -> None:
    """In transactions, of which each fifth is aborted."""
    chance = Random(first)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": EVENTS, "batch.num.messages": 50})
    producer.init_transactions(WAIT_S)
    for begin in range(first, first + count, OF_TRANSACTION):
        producer.begin_transaction()
        for number in range(begin, min(begin + OF_TRANSACTION, first + count)):
            producer.produce(
                EVENTS,
                chance.randbytes(chance.randint(1_000, 3_000)),
                b"key-%d" % number,
                number % PARTITIONS,
                timestamp=FIRST_MS + number,
            )
        assert producer.flush(WAIT_S) == 0
        is_aborted = begin // OF_TRANSACTION % 5 == 4
        (producer.abort_transaction if is_aborted else producer.commit_transaction)(WAIT_S)


def read_events(bootstrap: str, isolation: str) -> list[list[Any]]:
    """As the job of Spark tells them, by librdkafka."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "check.crcs": True,
    }
    found: list[list[Any]] = []
    with closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(EVENTS, partition, 0) for partition in range(PARTITIONS)])
        ends = 0
        while ends < PARTITIONS:
            message = consumer.poll(WAIT_S)
            assert message is not None, "nothing more comes"
            if message.error() is not None:
                ends += 1
                continue
            sums = (zlib.crc32(message.key()), zlib.crc32(message.value()))
            found.append([message.partition(), message.offset(), *sums, message.timestamp()[1]])
    return sorted(found)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    try:
        log.server.start()
        log.write()
        yield log
    finally:
        log.server.close()
    assert "Traceback" not in log.server.log_file.read_text()


def test_spark_reads_a_log_whose_segments_are_merged(log: Log, tmp_path: Path) -> None:
    bootstrap = log.server.bootstrap
    before = {isolation: read_events(bootstrap, isolation) for isolation in ("read_committed", "read_uncommitted")}
    assert len(before["read_uncommitted"]) == TRANSACTIONS * OF_TRANSACTION > len(before["read_committed"])
    command = [sys.executable, "-m", "tests.e2e.spark_merged_job", str(tmp_path), bootstrap, EVENTS]
    job = ManagedProcess("reads", command, tmp_path / "reads.log", ENVIRONMENT)
    job.start()
    try:
        job.wait_for_line("^planned$", WAIT_S)
        log.merge()
        log.verified()
        write_events(bootstrap, TRANSACTIONS * OF_TRANSACTION, LATER)
        after = {isolation: read_events(bootstrap, isolation) for isolation in before}
        (tmp_path / "merged").touch()
        assert job.wait(WAIT_S) == 0, f"{job}"
    finally:
        job.kill()
    told = json.loads((tmp_path / "found.json").read_text())
    assert told["damage"] == []
    for isolation, records in before.items():
        added = after[isolation][:]
        for record in records:
            added.remove(record)
        assert len(added) == LATER
    expected = {f"planned {isolation}": records for isolation, records in before.items()}
    expected |= {f"stream {form}": after["read_uncommitted"] for form in ("bmq", "kafka")}
    expected |= {f"{form} {isolation}": records for form in ("bmq", "kafka") for isolation, records in after.items()}
    assert told["rows"].keys() == expected.keys()
    for name, records in expected.items():
        assert told["rows"][name] == records, name
