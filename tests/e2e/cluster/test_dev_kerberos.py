"""`bmq dev up --kerberos`: a cluster on a kerberized HDFS serves clients, loses a node, and is as secure the next time."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from testing.kdc import install_kdc
from testing.patience import Patience
from testing.processes import eventually
from testing.steady_load import read_everything
from tests.e2e.cluster.test_dev_up import dev_up

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(400)]

TOPIC = "kept"
COUNT = 500


def test_a_cluster_on_kerberos(tmp_path: Path) -> None:
    install_kdc()
    data = tmp_path / "cluster"
    with dev_up(data, "--kerberos", "--brokers", "2", "--datanodes", "1") as running:
        running.wait_up()
        assert any("principal:" in line and "bmq@" in line for line in running.lines)
        assert running.statuses()["kdc"][0] == "running"
        producer = Producer({"bootstrap.servers": running.bootstrap, "acks": "all"})
        for number in range(COUNT):
            producer.produce(TOPIC, str(number))
        assert producer.flush(Patience(60).limit_s) == 0
        running.order("kill", "bmq2")
        eventually(lambda: running.statuses()["bmq2"][0] == "stopped", 20, "the node is gone")
        assert sorted(read_everything(running.bootstrap, TOPIC, 1).values()) == list(range(COUNT))
        running.end()
    with dev_up(data, "--brokers", "1") as running:
        running.wait_up()
        assert running.statuses()["kdc"][0] == "running"
        assert sorted(read_everything(running.bootstrap, TOPIC, 1).values()) == list(range(COUNT))
        running.end()
