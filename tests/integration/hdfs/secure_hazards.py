"""Takeovers, mending, syncing, and what can happen to them at the worst moment: the open cluster's tests for a secure one.

    globals().update(secure_hazards("privacy", "authorization"))    # in a module of tests

The tests that hurt daemons are among them. Left out are those that want two NameNodes of their own, or a server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.config import HdfsConfig
from testing.hdfs import fresh_root, outside_any_loop
from tests.integration.hdfs import test_mending, test_on_disk, test_takeover, test_takeover_hazards
from tests.support.healed_hdfs import healed
from tests.support.same_tests import same_tests
from tests.support.secure_hdfs import SecureHdfs
from tests.support.secure_modes import secure_hdfs_of


@pytest.fixture
def hdfs(secure: SecureHdfs) -> HdfsCluster:
    return secure.cluster


@pytest.fixture
def hdfs_config(secure: SecureHdfs, request: pytest.FixtureRequest) -> HdfsConfig:
    return secure.config(fresh_root(request.node.name))


@pytest.fixture
def own_hdfs(secure: SecureHdfs) -> Iterator[HdfsCluster]:
    """Its daemons may be hurt: it is healed behind the test."""
    yield secure.cluster
    outside_any_loop(healed(secure.cluster))


def secure_hazards(*modes: str) -> Mapping[str, Any]:
    """By name: tests and fixtures, with a cluster in each of the modes (tests.support.secure_modes)."""

    @pytest.fixture(scope="module", params=modes)
    def secure(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHdfs]:
        with secure_hdfs_of(request.param, tmp_path_factory.mktemp("secure-hdfs"), datanodes=3) as cluster:
            yield cluster

    found: dict[str, Any] = {"secure": secure, "hdfs": hdfs, "hdfs_config": hdfs_config, "own_hdfs": own_hdfs}
    for module in (test_takeover, test_takeover_hazards, test_mending, test_on_disk):
        found.update(same_tests(module, _is_of_one_cluster))
    return found


def _is_of_one_cluster(fixtures: set[str]) -> bool:
    return bool(fixtures & {"hdfs_config", "own_hdfs"}) and not fixtures & {"own_ha_hdfs", "serve"}
