"""Fixtures with a real HDFS. Java or jars that are missing are an error here: a test that did not run proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.config import HdfsConfig
from tests.support.hdfs import PATIENT, config_of, fresh_root, new_cluster, running, shared


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """One NameNode and three DataNodes for all tests of the session: its daemons are not to be hurt."""
    with shared(lambda: tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture
def own_hdfs(tmp_path: Path) -> Iterator[HdfsCluster]:
    """A cluster of the test's own: kill, pause and restart what you like. It costs some seconds."""
    with running(new_cluster(tmp_path / "hdfs")) as cluster:
        yield cluster


@pytest.fixture
def own_ha_hdfs(tmp_path: Path) -> Iterator[HdfsCluster]:
    """As `own_hdfs` with two NameNodes, the first of them active."""
    with running(new_cluster(tmp_path / "hdfs", is_ha=True)) as cluster:
        yield cluster


@pytest.fixture
def hdfs_config(hdfs: HdfsCluster, request: pytest.FixtureRequest) -> HdfsConfig:
    """The shared cluster, with a root directory that is this test's alone and does not exist yet."""
    return config_of(hdfs, fresh_root(request.node.name), **PATIENT)
