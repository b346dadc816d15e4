"""What is missing is said in one sentence, with the command that brings it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bmq.dev.hdfs import ClusterFailed, HdfsCluster
from bmq.dev.java import JarsMissing, JavaMissing, class_path, java_command, java_executable
from tests.unit.dev.plans import make_jars, make_java, plan_of

pytestmark = pytest.mark.unit


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_java(tmp_path, monkeypatch)


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    return make_jars(tmp_path)


def test_java_home_comes_first(java: Path) -> None:
    assert java_executable() == str(java.resolve())


def test_a_java_home_without_java_is_not_replaced_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=r"JAVA_HOME.*make tools"):
        java_executable()


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="on the path"):
        java_executable()


def test_the_jars_stand_in_order_before_the_configuration(java: Path, jars: Path, tmp_path: Path) -> None:
    command = java_command("Main", ["x"], jars=jars, configuration=tmp_path / "conf", heap_mb=99, options=["-Xint"])
    assert command[:3] == [str(java.resolve()), "-Xint", "-Xmx99m"]
    path = command[command.index("-cp") + 1]
    assert path.split(os.pathsep) == [str(jars / "a.jar"), str(jars / "b.jar"), str(tmp_path / "conf")]
    assert command[-2:] == ["Main", "x"]


@pytest.mark.parametrize("missing", ["empty", "absent"])
def test_missing_jars_name_the_directory_and_make_jars(tmp_path: Path, missing: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(JarsMissing, match=rf"{missing}: run `make jars`"):
        class_path(tmp_path / missing)


@pytest.mark.usefixtures("java")
def test_a_cluster_without_jars_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(JarsMissing, match="make jars"):
        HdfsCluster(tmp_path / "cluster", tmp_path / "absent", plan=plan_of())
    assert not (tmp_path / "cluster").exists()


@pytest.mark.usefixtures("java")
async def test_files_of_another_kind_of_cluster_are_not_touched(tmp_path: Path, jars: Path) -> None:
    directory = tmp_path / "cluster"
    directory.mkdir()
    (directory / "formatted").write_text("nn0 nn1")
    cluster = HdfsCluster(directory, jars, plan=plan_of())
    with pytest.raises(ClusterFailed, match="holds a cluster with the NameNodes nn0 nn1, not nn0"):
        await cluster.start()
    assert [path.name for path in directory.iterdir()] == ["formatted"]
