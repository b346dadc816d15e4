"""`bmq dev up`: a person's cluster comes up, serves, takes orders, ends without a trace, and remembers the next time."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from bmq.cli.commands import app
from bmq.dev.bmq_plan import SCALED_IDS
from bmq.dev.ports import HOST, pick_ports
from testing.cluster import processes_of
from testing.patience import Patience
from testing.processes import dying_with_us, eventually
from testing.steady_load import read_everything

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(400)]

TOPIC = "kept"


class DevUp:
    """The foreground command, with two brokers and a proxy over one DataNode."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        kafka_port, rest_port = pick_ports(HOST, 2, Random())
        self.bootstrap = f"{HOST}:{kafka_port}"
        self.rest = f"{HOST}:{rest_port}"
        command = [sys.executable, "-m", "bmq.cli.main", "dev", "up", "--data", str(directory)]
        command += ["--kafka-port", str(kafka_port), "--rest-port", str(rest_port), *arguments]
        self.process = subprocess.Popen(
            dying_with_us(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: list[str] = []

    def wait_up(self) -> None:
        self.wait_said("Ctrl-C ends it")

    def wait_said(self, text: str) -> None:
        """Until a line has this in it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if text in line:
                return
        raise AssertionError(f"it ended with {self.process.wait(10)}: {''.join(self.lines)}")

    def end(self) -> str:
        """SIGTERM; all that it said."""
        self.process.send_signal(signal.SIGTERM)
        rest, _ = self.process.communicate(timeout=Patience(90).limit_s)
        said = "".join(self.lines) + rest
        assert self.process.returncode == 0, said
        return said

    def order(self, *arguments: str) -> str:
        result = CliRunner().invoke(app, ["dev", *arguments, "--data", str(self.directory)])
        assert result.exit_code == 0, f"{result.output}{result.exception}"
        return result.output

    def statuses(self) -> dict[str, tuple[str, str]]:
        """State and role by name of the process."""
        return {node["name"]: (node["state"], node["role"]) for node in json.loads(self.order("status", "--json"))}


@contextmanager
def dev_up(directory: Path, *arguments: str) -> Iterator[DevUp]:
    running = DevUp(directory, *arguments)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait(10)
        if running.process.stdout is not None:
            running.process.stdout.close()
        for left in scaled_processes(directory):
            left.kill()
        eventually(lambda: not processes_of(str(directory)), 20, "its processes are gone")


def scaled_processes(directory: Path) -> list[psutil.Process]:
    """Those that an order to scale has started and nobody has stopped."""
    pids = [json.loads(path.read_text())["pid"] for path in (directory / "scaled").glob("*.json")]
    return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]


def test_comes_up_serves_and_ends(tmp_path: Path) -> None:
    data = tmp_path / "cluster"
    with dev_up(data, "--brokers", "2", "--proxies", "1", "--datanodes", "1") as running:
        running.wait_up()
        statuses = running.statuses()
        assert {name: state for name, (state, _) in statuses.items()} == dict.fromkeys(
            ("bmq1", "bmq2", "bmq101", "zk0", "nn0", "dn0"), "running"
        )

        def controllers() -> int:
            return sum("active controller" in role for _, role in running.statuses().values())

        # A node that does not answer at once, on a busy machine, has no role.
        eventually(lambda: controllers() == 1, 30, "one of them is the active controller")
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 2, 2)])[TOPIC].result(30)
        produce(running, range(100))
        running.order("kill", "bmq1")
        assert running.statuses()["bmq1"][0] == "stopped"
        running.wait_said("bmq1 is stopped (SIGKILL)")
        produce(running, range(100, 200))
        running.order("start", "bmq1")
        running.wait_said("bmq1 is running")
        assert running.statuses()["bmq1"][0] == "running"
        said = running.end()
        assert ": running, active controller" in said, said
        assert processes_of(str(data)) == []
    # Other nodes the next time: no data belongs to any.
    with dev_up(data, "--brokers", "1", "--proxies", "0") as running:
        running.wait_up()
        assert sorted(read_everything(running.bootstrap, TOPIC, 2).values()) == list(range(200))
        # What an order to scale starts ends together with the rest.
        scaled = CliRunner().invoke(app, ["cluster", "scale", "2", "--yes", "--rest", f"http://{running.rest}"])
        assert scaled.exit_code == 0, f"{scaled.output}{scaled.exception}"
        (added,) = scaled_processes(data)
        assert str(SCALED_IDS[0]) in added.cmdline()
        running.end()
        # Who waits for an orphan that has ended is not our business.
        assert not added.is_running() or added.status() == psutil.STATUS_ZOMBIE
        assert scaled_processes(data) == []
        assert processes_of(str(data)) == []


def produce(running: DevUp, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": running.bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in numbers:
        producer.produce(TOPIC, b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0


def test_interrupt_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    data = tmp_path / "cluster"
    with dev_up(data, "--brokers", "1", "--datanodes", "1") as running:
        eventually(lambda: len(processes_of(str(data / "hdfs"))) > 0, 30, "HDFS was begun")
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 0
        assert processes_of(str(data)) == []


def test_taken_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as occupier:
        port = str(occupier.getsockname()[1])
        command = [sys.executable, "-m", "bmq.cli.main", "dev", "up", "--data", str(tmp_path / "cluster")]
        (rest_port,) = pick_ports(HOST, 1, Random())
        command += ["--brokers", "1", "--datanodes", "1", "--kafka-port", port, "--rest-port", str(rest_port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=Patience(60).limit_s, check=False)
    assert (done.returncode, done.stderr) == (1, f"bmq: something else listens on {HOST}:{port}\n")
