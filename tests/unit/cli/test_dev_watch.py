"""What a person is shown of a development cluster: a table, or where there is no terminal what changed."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bmq.cli.dev_watch import changes, render
from bmq.dev.bmq_cluster import BmqCluster
from bmq.dev.bmq_node import NodeReport
from bmq.dev.bmq_plan import WholePlan, plan_servers
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.zookeeper import ZooKeeperPlan, ZooKeeperServer
from tests.unit.dev.plans import make_jars, make_java, plan_of

pytestmark = pytest.mark.unit

SERVERS = plan_servers(
    brokers=1, proxies=1, controllers=0, kafka_port=9092, rest_port=8080, internal_ports=range(20_000, 20_010)
)


def reports(broker: NodeReport, proxy: NodeReport | None = None) -> dict[str, NodeReport]:
    return {"bmq1": broker, "bmq101": proxy or NodeReport("running", 1)}


def test_the_first_look_says_all() -> None:
    now = reports(NodeReport("running", 1, {"writing": 2, "starting": 1}))
    assert changes(SERVERS, {}, now) == ["bmq1: running, active controller, 3 partitions", "bmq101: running"]


def test_only_changes_are_said() -> None:
    before = reports(NodeReport("running", 1, {"writing": 1, "starting": 2}))
    assert changes(SERVERS, before, reports(NodeReport("running", 1, {"writing": 3}))) == []
    assert changes(SERVERS, before, reports(NodeReport("running", 1, {"writing": 1}))) == [
        "bmq1: running, active controller, 1 partition"
    ]
    assert changes(SERVERS, before, reports(NodeReport("stopped (SIGKILL)"), NodeReport("silent"))) == [
        "bmq1: stopped (SIGKILL)",
        "bmq101: silent",
    ]


def test_the_table_has_a_line_for_every_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for nodes that an order to scale has started."""
    make_java(tmp_path, monkeypatch)
    jars = make_jars(tmp_path)
    plan = WholePlan(plan_of(datanodes=1), ZooKeeperPlan.of_port(2181), SERVERS)
    cluster = BmqCluster(
        tmp_path,
        plan,
        HdfsCluster(tmp_path / "hdfs", jars, plan=plan.hdfs),
        ZooKeeperServer(tmp_path / "zookeeper", jars, plan=plan.zookeeper),
    )
    scaled = {"node_id": 301, "roles": ["broker"], "host": None, "port": None, "rest": "here:1", "partitions_led": 7}
    seen = NodeReport("running", 1, {"writing": 2, "idle": 0}, ({"node_id": 1}, {"node_id": 101}, scaled))
    console = Console(file=StringIO(), width=150)
    console.print(render(cluster, reports(seen, NodeReport("silent"))))
    assert isinstance(console.file, StringIO)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert [line[0] for line in lines] == ["node", "bmq1", "bmq101", "bmq301", "zk0", "nn0", "dn0"]
    assert lines[1][1:] == [
        "broker,",
        "coordinator,",
        "controller",
        "(active)",
        "running",
        "127.0.0.1:8080",
        "2",
        "writing",
    ]
    assert lines[2][1:] == ["proxy", "silent", "127.0.0.1:9092", "127.0.0.1:8081"]
    assert lines[3][1:] == ["broker", "scaled", "here:1", "7", "owned"]
    assert lines[4][1:] == ["stopped"]
