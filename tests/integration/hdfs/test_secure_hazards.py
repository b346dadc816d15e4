"""Takeovers, mending, syncing, and what can happen to them at the worst moment, again on a kerberized HDFS.

The tests are those of the open cluster, with those that hurt its daemons.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.config import HdfsConfig
from tests.integration.hdfs import test_mending, test_on_disk, test_takeover, test_takeover_hazards
from tests.support.hdfs import fresh_root, outside_any_loop
from tests.support.healed_hdfs import healed
from tests.support.same_tests import same_tests
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


@pytest.fixture
def own_hdfs(secure: SecureHdfs) -> Iterator[HdfsCluster]:
    """Its daemons may be hurt: it is healed behind the test."""
    yield secure.cluster
    outside_any_loop(healed(secure.cluster))


def is_of_one_namenode(fixtures: set[str]) -> bool:
    return bool(fixtures & {"hdfs_config", "own_hdfs"}) and not fixtures & {"own_ha_hdfs", "serve"}


for each in (test_takeover, test_takeover_hazards, test_mending, test_on_disk):
    globals().update(same_tests(each, is_of_one_namenode))
