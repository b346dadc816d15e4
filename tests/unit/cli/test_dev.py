"""`bmq dev hdfs` without a cluster: what is wrong is said in a sentence, and nothing is made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bmq.cli.commands import app
from bmq.dev.cluster_file import ClusterBusy, ClusterFile, NoCluster, exclusive
from bmq.dev.daemon import DaemonFailed
from bmq.dev.java import JarsMissing, JavaMissing
from testing.patience import Patience
from tests.unit.dev.plans import make_jars, make_java, plan_of

pytestmark = pytest.mark.unit

ORDERS = [
    "status",
    "start dn0",
    "stop dn0",
    "kill dn0",
    "pause dn0",
    "resume dn0",
    "restart dn0",
    "activate nn0",
    "down",
]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["dev", "hdfs", *map(str, arguments)])


@pytest.mark.parametrize("order", [*ORDERS, "logs dn0"])
def test_a_directory_without_a_cluster(tmp_path: Path, order: str) -> None:
    result = run(*order.split(), "--data", tmp_path / "none")
    assert isinstance(result.exception, NoCluster)
    assert str(result.exception).startswith(f"there is no cluster in {tmp_path / 'none'}: `bmq dev hdfs up` makes one")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("order", ORDERS)
def test_a_cluster_that_is_not_running(tmp_path: Path, order: str) -> None:
    ClusterFile(plan_of()).write(tmp_path)
    result = run(*order.split(), "--data", tmp_path)
    assert isinstance(result.exception, NoCluster)
    assert "is not running" in str(result.exception)


@pytest.mark.parametrize("order", ["kill", "logs"])
def test_an_unknown_node_is_a_usage_error_that_lists_the_nodes(tmp_path: Path, order: str) -> None:
    ClusterFile(plan_of()).write(tmp_path)
    with exclusive(tmp_path):
        result = run(order, "dn3", "--data", tmp_path)
    assert result.exit_code == 2
    assert "there is no node 'dn3'" in result.output


def test_a_running_cluster_that_takes_no_orders_yet(tmp_path: Path) -> None:
    ClusterFile(plan_of()).write(tmp_path)
    with exclusive(tmp_path):
        result = run("status", "--data", tmp_path)
    assert "is still starting, or ending" in str(result.exception)


def test_logs_of_a_node_that_is_down(tmp_path: Path) -> None:
    ClusterFile(plan_of()).write(tmp_path)
    assert "dn0 has no log" in str(run("logs", "dn0", "--data", tmp_path).exception)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "dn0.log").write_text("".join(f"line {i}\n" for i in range(100)))
    result = run("logs", "dn0", "--data", tmp_path, "--lines", "2")
    assert (result.exit_code, result.output) == (0, "line 98\nline 99\n")


def test_up_on_a_directory_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path, monkeypatch)
    with exclusive(tmp_path / "data"):
        result = run("up", "--data", tmp_path / "data", "--jars", make_jars(tmp_path))
    assert isinstance(result.exception, ClusterBusy)


def test_up_without_java_or_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path, monkeypatch)
    result = run("up", "--data", tmp_path / "data", "--jars", tmp_path / "absent")
    assert isinstance(result.exception, JarsMissing)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = run("up", "--data", tmp_path / "data", "--jars", tmp_path / "absent")
    assert isinstance(result.exception, JavaMissing)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--datanodes", "4"], "holds a cluster with 3 DataNodes"),
        (["--ha"], "holds a cluster with one NameNode"),
        (["--port", "8020"], "holds a cluster with its NameNode on port 20000"),
        (["--property", "novalue"], "write NAME=VALUE"),
    ],
)
def test_what_does_not_fit_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    make_java(tmp_path, monkeypatch)
    ClusterFile(plan_of()).write(tmp_path / "data")
    result = run("up", "--data", tmp_path / "data", "--jars", make_jars(tmp_path), *arguments)
    assert result.exit_code == 2
    assert sentence in " ".join(result.output.replace("│", " ").split())


def test_up_shows_the_last_words_of_a_daemon_that_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_java(tmp_path, monkeypatch)
    result = run("up", "--data", tmp_path / "data", "--jars", make_jars(tmp_path), "--port", "20100")
    assert isinstance(result.exception, DaemonFailed)
    assert "the format of nn0 ended with exit code 3" in str(result.exception)
    assert "no JVM today" in str(result.exception)


def test_a_failure_is_one_line_on_standard_error_and_exit_code_1(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bmq.cli.main", "dev", "hdfs", "status", "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=Patience(60).limit_s, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("bmq: there is no cluster in ")
    assert done.stderr.count("\n") == 1
