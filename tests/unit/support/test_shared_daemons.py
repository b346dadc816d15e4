"""A stage's processes find the daemons of the run by one file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from bmq.dev.hadoop_configuration import ClusterPlan
from bmq.dev.zookeeper import ZooKeeperPlan
from testing.shared_daemons import FILE_NAME, VARIABLE, shared_hdfs, shared_zookeeper
from tools.shared_daemons import SharedDaemons

pytestmark = pytest.mark.unit


def test_without_a_run_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert shared_hdfs() is None and shared_zookeeper() is None


def test_addresses_and_files_are_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = {
        "hdfs": ClusterPlan.of_ports(tuple(range(100, 111)), namenodes=1, datanodes=3),
        "zookeeper": ZooKeeperPlan.of_port(2181),
    }
    found = {name: {"directory": str(tmp_path / name), "plan": asdict(plan)} for name, plan in plans.items()}  # type: ignore[call-overload]
    (tmp_path / FILE_NAME).write_text(json.dumps(found))
    monkeypatch.setenv(VARIABLE, str(tmp_path / FILE_NAME))
    hdfs, zookeeper = shared_hdfs(), shared_zookeeper()
    assert hdfs is not None and zookeeper is not None
    assert (hdfs.plan, hdfs.directory) == (plans["hdfs"], tmp_path / "hdfs")
    assert len(hdfs.datanodes) == 3 and not any(daemon.is_running for daemon in hdfs.daemons)
    assert str(zookeeper.address) == "127.0.0.1:2181"


def test_daemons_that_do_not_start_are_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The module that holds them is not found there: its process ends with a traceback in its log."""
    with SharedDaemons(tmp_path) as daemons:
        assert daemons.environment() == {}
        assert daemons.environment() == {}
    said = capsys.readouterr().out
    assert said.count("warning: the shared daemons did not start, each stage starts its own: ") == 1
    assert "No module named" in said
