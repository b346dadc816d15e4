"""The drills of docs/OPERATIONS.md that are about HDFS: their commands, as the page has them, under a server with load."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bmq.dev.hdfs import HdfsCluster
from testing.hdfs import fresh_root, new_cluster, running
from testing.processes import eventually
from testing.servers import BmqServer
from tests.support.page_commands import hadoop_tools, run_page

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(300)]

WAIT_S = 60.0
SETTINGS = {"BMQ_HDFS__REPLICATION": "1", "BMQ_KAFKA": '{"offsets.topic.num.partitions": "1"}'}


@pytest.fixture(scope="module")
def drilled_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """One whose quotas and safe mode the drills change; its superuser is the one who runs the tests."""
    with running(new_cluster(tmp_path_factory.mktemp("hdfs"), datanodes=1)) as cluster:
        yield cluster


@pytest.fixture
def tools(drilled_hdfs: HdfsCluster, tmp_path: Path) -> Path:
    return hadoop_tools(tmp_path / "bin", drilled_hdfs.directory / "conf")


class Drill:
    """A server on a root of its own, and a client that knows what was acknowledged."""

    def __init__(self, hdfs: HdfsCluster, directory: Path, root: str) -> None:
        self.hdfs = hdfs
        self.root = root
        self.server = BmqServer(directory / "server", SETTINGS, store=f"{hdfs.url}{root}")
        self.acknowledged: dict[str, list[bytes]] = {}
        self._number = 0

    def produce(self, topic: str = "t", *, timeout_ms: int = 8_000) -> KafkaError | None:
        """One record; why it was refused."""
        outcomes: list[KafkaError | None] = []
        value = b"%d" % self._number
        self._number += 1
        producer = Producer(
            {"bootstrap.servers": self.server.bootstrap, "message.timeout.ms": timeout_ms, "log_level": 0}
        )
        producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(WAIT_S)
        (error,) = outcomes
        if error is None:
            self.acknowledged.setdefault(topic, []).append(value)
        return error

    def takes_records(self, topic: str = "t") -> bool:
        return self.produce(topic) is None

    def read(self, topic: str = "t") -> list[bytes]:
        """Every record of a topic."""
        consumer = Consumer({"bootstrap.servers": self.server.bootstrap, "group.id": "g", "log_level": 0})
        consumer.assign([TopicPartition(topic, 0, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
        values: list[bytes] = []
        while len(values) < end:
            message = consumer.poll(WAIT_S)
            assert message is not None and message.error() is None
            values.append(message.value())
        consumer.close()
        return values

    def check(self) -> None:
        """Every acknowledged record is there, once, in order. (One that was refused may be there too.)"""
        for topic, values in self.acknowledged.items():
            assert [value for value in self.read(topic) if value in values] == values


@pytest.fixture
def drill(drilled_hdfs: HdfsCluster, tmp_path: Path) -> Iterator[Drill]:
    made = Drill(drilled_hdfs, tmp_path, fresh_root("drill"))
    made.server.start()
    assert made.takes_records()
    yield made
    made.server.close()
    assert "Traceback" not in made.server.log_file.read_text()


def test_a_quota_is_used_up(drill: Drill, tools: Path) -> None:
    order(tools, f"hdfs dfsadmin -setSpaceQuota 1m {drill.root}")
    assert drill.produce("new", timeout_ms=8_000) is not None
    assert drill.takes_records(), "an open segment needs no more room"
    said = run_page("Drill: a quota is used up", tools, ROOT=drill.root)
    assert drill.root in said
    eventually(lambda: drill.takes_records("new"), WAIT_S, "writing works again without a restart")
    drill.check()


def test_hdfs_is_in_safe_mode(drill: Drill, tools: Path) -> None:
    order(tools, "hdfs dfsadmin -safemode enter")
    assert drill.takes_records(), "an open segment does not need the NameNode"
    said = run_page("Drill: HDFS is in safe mode", tools, ROOT=drill.root)
    assert "Safe mode is ON" in said and "Safe mode is OFF" in said and "HEALTHY" in said
    assert drill.takes_records()
    drill.check()


def test_the_root_moves(drill: Drill, tools: Path) -> None:
    assert drill.server.stop() == 0
    new_root = f"/moved{drill.root}"
    run_page("Drill: the root moves to another directory", tools, ROOT=drill.root, NEW_ROOT=new_root)
    drill.server.store = f"{drill.hdfs.url}{new_root}"
    drill.server.start()
    assert drill.takes_records()
    drill.check()
    assert len(drill.acknowledged["t"]) == 2


def order(tools: Path, command: str) -> None:
    """What an administrator does for the sake of the drill."""
    subprocess.run(["bash", "-c", f'PATH="{tools}:$PATH"; {command}'], check=True, capture_output=True, timeout=WAIT_S)
