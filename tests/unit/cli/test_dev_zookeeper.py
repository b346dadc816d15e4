"""`bmq dev zookeeper` without a server: what is wrong is said in a sentence, and nothing is made."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bmq.cli.commands import app
from bmq.dev.cluster_file import ClusterBusy, ClusterFile, NoCluster, exclusive
from bmq.dev.daemon import DaemonFailed
from bmq.dev.java import JarsMissing
from bmq.dev.zookeeper import ZooKeeperPlan
from tests.unit.dev.plans import make_jars, make_java

pytestmark = pytest.mark.unit

ORDERS = ["status", "start", "stop", "kill", "pause", "resume", "restart", "down"]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["dev", "zookeeper", *map(str, arguments)])


@pytest.mark.parametrize("order", [*ORDERS, "logs"])
def test_a_directory_without_a_server(tmp_path: Path, order: str) -> None:
    result = run(order, "--data", tmp_path / "none")
    assert isinstance(result.exception, NoCluster)
    wanted = f"there is no ZooKeeper in {tmp_path / 'none'}: `bmq dev zookeeper up` makes one, --data names another"
    assert str(result.exception).startswith(wanted)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("order", ORDERS)
def test_a_server_that_is_not_running(tmp_path: Path, order: str) -> None:
    ClusterFile(ZooKeeperPlan.of_port(20_000)).write(tmp_path)
    result = run(order, "--data", tmp_path)
    assert isinstance(result.exception, NoCluster)
    assert "is not running: start it with `bmq dev zookeeper up`" in str(result.exception)


def test_logs_of_a_server_that_is_down(tmp_path: Path) -> None:
    ClusterFile(ZooKeeperPlan.of_port(20_000)).write(tmp_path)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "zk0.log").write_text("one\ntwo\nthree\n")
    result = run("logs", "--data", tmp_path, "--lines", "2")
    assert (result.exit_code, result.output) == (0, "two\nthree\n")


def test_up_on_a_directory_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path, monkeypatch)
    with exclusive(tmp_path / "data"):
        result = run("up", "--data", tmp_path / "data", "--jars", make_jars(tmp_path))
    assert isinstance(result.exception, ClusterBusy)


def test_up_without_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path, monkeypatch)
    result = run("up", "--data", tmp_path / "data", "--jars", tmp_path / "absent")
    assert isinstance(result.exception, JarsMissing)
    assert not (tmp_path / "data").exists()


def test_up_with_another_port_than_before_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path, monkeypatch)
    ClusterFile(ZooKeeperPlan.of_port(20_000)).write(tmp_path / "data")
    result = run("up", "--data", tmp_path / "data", "--jars", make_jars(tmp_path), "--port", "20001")
    assert result.exit_code == 2
    assert "holds a ZooKeeper on port 20000" in " ".join(result.output.replace("│", " ").split())


def test_up_shows_the_last_words_of_a_server_that_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_java(tmp_path, monkeypatch)
    result = run("up", "--data", tmp_path / "data", "--jars", make_jars(tmp_path), "--port", "20100")
    assert isinstance(result.exception, DaemonFailed)
    assert "no JVM today" in str(result.exception)
