"""The drills of docs/OPERATIONS.md that are about HDFS: their commands, as the page has them, under a server with load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bmq.dev.hdfs import HdfsCluster
from testing.hdfs import fresh_root, new_cluster, running
from testing.processes import eventually
from tests.support.hdfs_drill import WAIT_S, Drill
from tests.support.page_commands import hadoop_tools, run_commands, run_page

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def drilled_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """One whose quotas and safe mode the drills change; its superuser is the one who runs the tests."""
    with running(new_cluster(tmp_path_factory.mktemp("hdfs"), datanodes=1)) as cluster:
        yield cluster


@pytest.fixture
def tools(drilled_hdfs: HdfsCluster, tmp_path: Path) -> Path:
    return hadoop_tools(tmp_path / "bin", drilled_hdfs.directory / "conf")


@pytest.fixture
def drill(drilled_hdfs: HdfsCluster, tmp_path: Path) -> Iterator[Drill]:
    made = Drill(drilled_hdfs, tmp_path, fresh_root("drill"))
    made.server.start()
    assert made.takes_records()
    yield made
    made.server.close()
    assert "Traceback" not in made.server.log_file.read_text()


def test_a_quota_is_used_up(drill: Drill, tools: Path) -> None:
    run_commands(f"hdfs dfsadmin -setSpaceQuota 1m {drill.root}", tools)
    assert drill.produce("new", timeout_ms=8_000) is not None
    assert drill.takes_records(), "an open segment needs no more room"
    said = run_page("Drill: a quota is used up", tools, ROOT=drill.root)
    assert drill.root in said
    eventually(lambda: drill.takes_records("new"), WAIT_S, "writing works again without a restart")
    drill.check()


def test_hdfs_is_in_safe_mode(drill: Drill, tools: Path) -> None:
    run_commands("hdfs dfsadmin -safemode enter", tools)
    assert drill.takes_records(), "an open segment does not need the NameNode"
    said = run_page("Drill: HDFS is in safe mode", tools, ROOT=drill.root)
    assert "Safe mode is ON" in said and "Safe mode is OFF" in said and "HEALTHY" in said
    assert drill.takes_records()
    drill.check()


def test_the_root_moves(drill: Drill, tools: Path) -> None:
    assert drill.server.stop() == 0
    new_root = f"/moved{drill.root}"
    run_page("Drill: the root moves to another directory", tools, ROOT=drill.root, NEW_ROOT=new_root)
    drill.server.store = f"{drill.hdfs.url}{new_root}"
    drill.server.start()
    assert drill.takes_records()
    drill.check()
    assert len(drill.acknowledged["t"]) == 2


def test_the_root_is_copied(drill: Drill, tools: Path) -> None:
    assert drill.takes_records("u")
    assert drill.server.stop() == 0
    new_root = f"{drill.root}-copy"
    new_store = f"{drill.hdfs.url}{new_root}"
    said = run_page("Drill: the root is copied", tools, ROOT=drill.root, NEW_ROOT=new_root, NEW_STORE=new_store)
    assert "files have new ids in manifests" in said
    counts = [line.split()[:3] for line in said.splitlines() if line.endswith((drill.root, new_root))]
    assert len(counts) == 2 and counts[0] == counts[1], said
    drill.server.store = new_store
    drill.server.start()
    drill.check()
    assert drill.takes_records() and drill.takes_records("u")
    drill.check()
