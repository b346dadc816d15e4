"""The file of a cluster's directory reads back, and whatever else lies there is named and not trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bmq.dev.cluster_file import FILE_NAME, BadClusterFile, ClusterBusy, ClusterFile, NoCluster, exclusive
from bmq.dev.hadoop_configuration import ClusterPlan
from bmq.hdfs.config import Address
from tests.unit.dev.plans import plan_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("namenodes", [1, 2])
@pytest.mark.parametrize("control", [None, Address("127.0.0.1", 4711)])
def test_it_reads_back(tmp_path: Path, namenodes: int, control: Address | None) -> None:
    written = ClusterFile(plan_of(namenodes=namenodes), control, None if control is None else 17)
    written.write(tmp_path / "new")
    assert ClusterFile.read(tmp_path / "new", ClusterPlan) == written


def test_no_file_is_no_cluster(tmp_path: Path) -> None:
    assert ClusterFile.read(tmp_path, ClusterPlan) is None
    assert ClusterFile.read(tmp_path / "missing", ClusterPlan) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"plan": null, "control": null, "pid": null}',
        b'{"plan": {"namenodes": [{"name": "nn0"}], "datanodes": []}, "control": null, "pid": null}',
        b'{"plan": {"namenodes": [], "datanodes": []}, "control": 5, "pid": null}',
    ],
)
def test_something_else_under_that_name_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(BadClusterFile, match=FILE_NAME):
        ClusterFile.read(tmp_path, ClusterPlan)


def test_a_cut_file_is_never_seen(tmp_path: Path) -> None:
    ClusterFile(plan_of()).write(tmp_path)
    ClusterFile(plan_of(datanodes=9)).write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE_NAME]
    assert len(json.loads((tmp_path / FILE_NAME).read_text())["plan"]["datanodes"]) == 9


def test_a_directory_is_one_cluster_s_at_a_time(tmp_path: Path) -> None:
    with exclusive(tmp_path), pytest.raises(ClusterBusy, match="running"), exclusive(tmp_path):
        pass
    with exclusive(tmp_path):
        pass


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NoCluster, match="cannot be used"), exclusive(tmp_path / "file"):
        pass
