"""The development ZooKeeper: a real server that comes up, is hurt, comes back with its data, and is gone at the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psutil
import pytest
from kazoo.client import KazooClient
from typer.testing import CliRunner

from bmq.cli.commands import app
from bmq.dev.cluster_file import NoCluster
from bmq.dev.daemon import WrongDaemonState
from bmq.dev.ports import PortTaken, pick_ports
from bmq.dev.zookeeper import ZooKeeperServer
from bmq.dev.zookeeper_probe import zookeeper_trouble
from testing.hdfs import outside_any_loop
from testing.processes import eventually
from testing.zookeeper import ZOOKEEPER_JARS, new_zookeeper, running_zookeeper
from tests.integration.test_dev_hdfs import processes_in

pytestmark = pytest.mark.campaign("zookeeper")

SEEN_WAIT_S = 30


def read(server: ZooKeeperServer, path: str) -> bytes | None:
    client = KazooClient(str(server.address), timeout=10.0)
    client.start()
    try:
        return bytes(client.get(path)[0]) if client.exists(path) else None
    finally:
        client.stop()
        client.close()


def write(server: ZooKeeperServer, path: str, data: bytes) -> None:
    client = KazooClient(str(server.address), timeout=10.0)
    client.start()
    try:
        client.create(path, data)
    finally:
        client.stop()
        client.close()


@pytest.mark.contract
def test_life(tmp_path: Path) -> None:
    directory = tmp_path / "zookeeper"
    server = new_zookeeper(directory)
    with running_zookeeper(server):
        assert len(processes_in(directory)) == 1
        write(server, "/kept", b"1")
        with pytest.raises(WrongDaemonState, match="zk0 is running already"):
            outside_any_loop(server.start())
        with pytest.raises(WrongDaemonState, match="cannot be taken away"):
            server.wipe()
        second = ZooKeeperServer(tmp_path / "second", ZOOKEEPER_JARS, plan=server.plan)
        with pytest.raises(PortTaken, match=str(server.address)):
            outside_any_loop(second.start())

        for order in (server.kill, server.stop):
            outside_any_loop(order())
            assert server.process.state == "stopped"
            assert "Connect call failed" in (outside_any_loop(zookeeper_trouble(server.address)) or "")
            outside_any_loop(server.start())
            assert read(server, "/kept") == b"1"

        outside_any_loop(server.pause())
        assert server.process.state == "paused"
        stopping = psutil.Process(server.process.pid)
        eventually(lambda: stopping.status() == psutil.STATUS_STOPPED, SEEN_WAIT_S, "it stands still")
        assert "within 0.2 s" in (outside_any_loop(zookeeper_trouble(server.address, wait_s=0.2)) or "")
        assert outside_any_loop(server.roles()) == {"zk0": "?"}
        outside_any_loop(server.resume())
        eventually(lambda: outside_any_loop(server.roles()) == {"zk0": "serving"}, SEEN_WAIT_S, "it serves again")

        outside_any_loop(server.restart())
        assert read(server, "/kept") == b"1"
    assert processes_in(tmp_path) == []

    with running_zookeeper(ZooKeeperServer(directory, ZOOKEEPER_JARS, plan=server.plan)) as again:
        assert again.address == server.address
        assert read(again, "/kept") == b"1"
        outside_any_loop(again.stop())
        again.wipe()
        outside_any_loop(again.start())
        assert read(again, "/kept") is None
    assert processes_in(tmp_path) == []


class TestCommandLine:
    """`bmq dev zookeeper` in two terminals."""

    @pytest.fixture
    def up(self, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
        (port,) = pick_ports("127.0.0.1", 1, Random())
        command = [sys.executable, "-m", "bmq.cli.main", "dev", "zookeeper", "up"]
        command += ["--data", str(tmp_path / "zookeeper"), "--port", str(port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            yield process
            process.kill()

    def ctl(self, directory: Path, *arguments: str) -> str:
        result = CliRunner().invoke(app, ["dev", "zookeeper", *arguments, "--data", str(directory)])
        assert result.exit_code == 0, f"{result.output}{result.exception}"
        return result.output

    def wait_up(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C ends it" in line:
                return "".join(lines)
        raise AssertionError(f"it ended with {process.wait(10)}: {lines}")

    def wait_state(self, directory: Path, *state_and_role: str) -> None:
        """A server that has just been resumed may give a session later than `status` waits for one."""

        def is_told() -> bool:
            (node,) = json.loads(self.ctl(directory, "status", "--json"))
            return (node["state"], node["role"]) == state_and_role

        eventually(is_told, SEEN_WAIT_S, f"it is told as {state_and_role}")

    def test_orders_from_a_second_terminal(self, up: subprocess.Popen[str], tmp_path: Path) -> None:
        directory = tmp_path / "zookeeper"
        assert "bmq node --zookeeper 127.0.0.1:" in self.wait_up(up)
        self.wait_state(directory, "running", "serving")
        assert "zk0" in self.ctl(directory, "status")
        for order, wanted in (
            ("pause", ("paused", "?")),
            ("resume", ("running", "serving")),
            ("kill", ("stopped", "?")),
            ("start", ("running", "serving")),
            ("stop", ("stopped", "?")),
            ("restart", ("running", "serving")),
        ):
            self.ctl(directory, order)
            self.wait_state(directory, *wanted)
        assert "SLF4J" in self.ctl(directory, "logs", "-n", "500")
        self.ctl(directory, "down")
        assert up.wait(30) == 0
        assert processes_in(directory) == []

    def test_ctrl_c_leaves_nothing(self, up: subprocess.Popen[str], tmp_path: Path) -> None:
        directory = tmp_path / "zookeeper"
        self.wait_up(up)
        up.send_signal(signal.SIGINT)
        assert up.wait(30) == 0
        assert processes_in(directory) == []

    def test_kill_9_of_the_foreground_process_leaves_nothing(self, up: subprocess.Popen[str], tmp_path: Path) -> None:
        directory = tmp_path / "zookeeper"
        self.wait_up(up)
        up.kill()
        up.wait(30)
        eventually(lambda: processes_in(directory) == [], 10, "the server is gone")
        result = CliRunner().invoke(app, ["dev", "zookeeper", "status", "--data", str(directory)])
        assert isinstance(result.exception, NoCluster)
