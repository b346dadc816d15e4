"""`bmq dev up --secure`: what it prints works as it is printed, Java's tools take its files, and the next start is as secure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from testing.patience import Patience
from tests.e2e.cluster.test_dev_up import DevUp, dev_up
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(400)]

TOPICS = "org.apache.kafka.tools.TopicCommand"


def printed(running: DevUp) -> dict[str, str]:
    """What to type, by what it is for."""
    lines = [line.strip() for line in running.lines if " bmq " in line]
    return dict(re.split(r":\s+", line, maxsplit=1) for line in lines if ": " in line)


def typed(command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1"}
    return subprocess.run(
        command, shell=True, env=environment, input=stdin, capture_output=True, text=True, timeout=Patience(120).limit_s
    )


def assert_closed(zookeeper: str) -> None:
    """ZooKeeper tells nobody without a login who leads."""
    stranger = KazooClient(hosts=zookeeper)
    stranger.start()
    try:
        with pytest.raises(NoAuthError):
            stranger.get("/bmq/controller")
    finally:
        stranger.stop()
        stranger.close()


def test_what_is_printed_works(tmp_path: Path) -> None:
    data = tmp_path / "cluster"
    with dev_up(data, "--secure", "--brokers", "1", "--datanodes", "1") as running:
        running.wait_up()
        commands = printed(running)
        for name in ("a topic", "its ACL", "as alice", "the cluster"):
            ran = typed(commands[name])
            assert ran.returncode == 0, (commands[name], ran)
        alice = commands["as alice"].partition("produce demo ")[2]
        assert typed(f"bmq topic consume demo {alice}").stdout.split()[-1] == "hello"
        bob = alice.replace("alice.conf", "bob.conf")
        assert "demo" not in typed(f"bmq topic list {bob}").stdout
        cluster = commands["the cluster"]
        assert "has no right" in typed(cluster.replace("admin.rest.toml", "bob.rest.toml")).stderr
        assert (
            "log in"
            in typed(cluster.replace("--rest-config", "--rest-ca-file").replace("admin.rest.toml", "ca.pem")).stderr
        )
        assert_closed(next(found[1] for line in running.lines if (found := re.search(r"--zookeeper (\S+)/bmq ", line))))
        properties = str(data / "security" / "alice.properties")
        listed = run_tool(TOPICS, "--list", "--bootstrap-server", running.bootstrap, "--command-config", properties)
        assert listed.out.split() == ["demo"]
        assert running.statuses()["bmq1"][0] == "running"
        assert "active controller" in running.statuses()["bmq1"][1]
        running.end()
    with dev_up(data, "--brokers", "1") as running:
        running.wait_up()
        again = printed(running)["as alice"].partition("produce demo ")[2]
        assert typed(f"bmq topic consume demo {again}").stdout.split()[-1] == "hello"
        running.end()
