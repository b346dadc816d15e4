"""`bmq node --workers N` over a real HDFS and ZooKeeper, under a stock client that waits for long."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bmq.dev.hdfs import HdfsCluster
from bmq.dev.ports import HOST, pick_ports_in_a_row
from bmq.dev.zookeeper import ZooKeeperServer
from testing.cluster import ENVIRONMENT, READY_LINE
from testing.hdfs import fresh_root
from testing.processes import ManagedProcess, eventually
from testing.servers import server_command
from testing.steady_load import assert_nothing_lost
from tests.support.paced_load import producing
from tests.support.workers import started_pids

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(300)]

WORKERS = 2
PARTITIONS = 4
READY_WAIT_S = 60.0
# Until the supervisor notices that a worker hangs. Without it the client waits for its own two minutes.
HANG_NOTICED_S = 2.0
GO_ON_WAIT_S = 60.0


class Supervised:
    """A supervisor and its workers: nodes 1 to N."""

    def __init__(self, directory: Path, hdfs_url: str, zookeeper: str) -> None:
        root = fresh_root("workers")
        base = pick_ports_in_a_row(HOST, 3 * WORKERS, Random()).start
        self.bootstrap = ",".join(f"{HOST}:{base + number}" for number in range(WORKERS))
        command = [
            server_command(),
            "node",
            "--workers",
            str(WORKERS),
            "--node-id",
            "1",
            "--store",
            f"{hdfs_url}{root}",
        ]
        command += ["--zookeeper", f"{zookeeper}{root}", "--listen", f"{HOST}:{base}"]
        command += ["--internal", f"{HOST}:{base + WORKERS}", "--rest", f"{HOST}:{base + 2 * WORKERS}"]
        self.process = ManagedProcess("supervisor", command, directory / "supervisor.log", ENVIRONMENT)

    def start(self) -> None:
        self.process.start()
        eventually(lambda: self.ready_nodes() >= {1, 2}, READY_WAIT_S, f"all workers are ready{self.process}")

    def ready_nodes(self) -> set[int]:
        return {int(found[1]) for found in re.finditer(READY_LINE, self.process.log_of_this_run(), re.MULTILINE)}

    def ready_count(self, node_id: int) -> int:
        return len(re.findall(rf"^bmq node ready id={node_id} ", self.process.log_of_this_run(), re.MULTILINE))

    def pid_of(self, node_id: int) -> int:
        """Of its newest process."""
        return started_pids(self.process.log_of_this_run(), node_id)[-1]

    def pids(self) -> list[int]:
        return started_pids(self.process.log_of_this_run())

    def close(self) -> None:
        if self.process.is_running:
            self.process.kill()
        for pid in self.pids():
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def supervised(hdfs: HdfsCluster, zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[Supervised]:
    supervised = Supervised(tmp_path, hdfs.url, str(zookeeper.address))
    supervised.start()
    yield supervised
    supervised.close()


def make_topic(supervised: Supervised) -> str:
    # Should it not be answered, the client's log tells what it waited for.
    admin = AdminClient({"bootstrap.servers": supervised.bootstrap, "debug": "admin,broker,metadata,protocol"})
    admin.create_topics([NewTopic("events", PARTITIONS, 1)])["events"].result(30)
    return "events"


def test_a_worker_that_hangs_lets_its_clients_go(supervised: Supervised) -> None:
    """A patient client: while the connection stood it would wait for two minutes."""
    topic = make_topic(supervised)
    with producing(supervised.bootstrap, topic, PARTITIONS) as load:
        for victim in (1, 2):
            hung = supervised.pid_of(victim)
            ready = supervised.ready_count(victim)
            os.kill(hung, signal.SIGSTOP)
            load.wait_for_every_partition(500, GO_ON_WAIT_S)
            eventually(lambda: supervised.ready_count(victim) > ready, READY_WAIT_S, "it is ready again")  # noqa: B023
            assert supervised.pid_of(victim) != hung and not psutil.pid_exists(hung)
    load.assert_no_hang(HANG_NOTICED_S)
    assert_nothing_lost(load, supervised.bootstrap)
    print(f"longest gap: {load.longest_gap_s:.2f} s")


def test_a_worker_that_dies_is_started_again(supervised: Supervised) -> None:
    topic = make_topic(supervised)
    with producing(supervised.bootstrap, topic, PARTITIONS) as load:
        ready = supervised.ready_count(2)
        os.kill(supervised.pid_of(2), signal.SIGKILL)
        load.wait_for_every_partition(500, GO_ON_WAIT_S)
        eventually(lambda: supervised.ready_count(2) > ready, READY_WAIT_S, "it is ready again")
        load.wait_for_every_partition(500, GO_ON_WAIT_S)
    assert_nothing_lost(load, supervised.bootstrap)
    assert supervised.process.stop(60) == 0
    assert not any(psutil.pid_exists(pid) for pid in supervised.pids())
