"""Fixtures with a real HDFS. Java or jars that are missing are an error here: a test that did not run proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.config import HdfsConfig
from testing.hdfs import PATIENT, config_of, fresh_root, new_cluster, running, shared
from tests.support.healed_hdfs import HealedHdfs


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """One NameNode and three DataNodes for all tests of the session: its daemons are not to be hurt."""
    with shared(lambda: tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def healed_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HealedHdfs]:
    healed = HealedHdfs(lambda: tmp_path_factory.mktemp("healed-hdfs"))
    yield healed
    healed.close()


@pytest.fixture
def own_hdfs(healed_hdfs: HealedHdfs) -> Iterator[HdfsCluster]:
    """A cluster without a file, whose daemons the test may kill, pause and restart: it is healed behind the test."""
    with healed_hdfs.lent() as cluster:
        yield cluster


@pytest.fixture
def own_ha_hdfs(tmp_path: Path) -> Iterator[HdfsCluster]:
    """A cluster of the test's own with two NameNodes, the first of them active."""
    with running(new_cluster(tmp_path / "hdfs", is_ha=True)) as cluster:
        yield cluster


@pytest.fixture
def hdfs_config(hdfs: HdfsCluster, request: pytest.FixtureRequest) -> HdfsConfig:
    """The shared cluster, with a root directory that is this test's alone and does not exist yet."""
    return config_of(hdfs, fresh_root(request.node.name), **PATIENT)  # type: ignore[arg-type]
