"""Takeovers, mending, syncing, and what can happen to them at the worst moment, again on a kerberized HDFS.

The tests are those of the open cluster. Left out are tests that hurt daemons, which need a cluster of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.config import HdfsConfig
from tests.integration.hdfs import test_mending, test_on_disk, test_takeover, test_takeover_hazards
from tests.support.hdfs import fresh_root
from tests.support.secure_hdfs import Protection, SecureHdfs, secure_hdfs

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.safety, pytest.mark.timeout(120)]

# The second one as distributions set it up: DataNodes' own protocol is for DataNodes alone.
CLUSTERS = {
    "privacy": (Protection(rpc="privacy", data="privacy", is_aes=True), {}),
    "authorization": (Protection(rpc="integrity", data="authentication"), {"hadoop.security.authorization": "true"}),
}


@pytest.fixture(scope="module", params=CLUSTERS)
def secure(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHdfs]:
    protection, properties = CLUSTERS[request.param]
    with secure_hdfs(tmp_path_factory.mktemp("secure-hdfs"), protection, datanodes=3, properties=properties) as cluster:
        yield cluster


@pytest.fixture
def hdfs(secure: SecureHdfs) -> HdfsCluster:
    return secure.cluster


@pytest.fixture
def hdfs_config(secure: SecureHdfs, request: pytest.FixtureRequest) -> HdfsConfig:
    return secure.config(fresh_root(request.node.name))


def without_own_cluster(module: ModuleType) -> Mapping[str, Callable[..., Any]]:
    """Those that need no cluster of their own, under names that no other module has."""
    own = module.__name__.rpartition("test_")[2]
    found = {}
    for name, test in inspect.getmembers(module, inspect.isfunction):
        fixtures = set(inspect.signature(test).parameters)
        if name.startswith("test_") and "hdfs_config" in fixtures and not fixtures & {"own_hdfs", "own_ha_hdfs"}:
            found[f"test_{own}_{name.removeprefix('test_')}"] = test
    return found


for each in (test_takeover, test_takeover_hazards, test_mending, test_on_disk):
    globals().update(without_own_cluster(each))
