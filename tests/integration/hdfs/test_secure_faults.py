"""The whole server on a kerberized HDFS whose daemons are hurt, and disks that lose their power: the open cluster's tests again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bmq.dev.hdfs import HdfsCluster
from testing.hdfs import outside_any_loop
from tests.integration.hdfs import test_power_loss, test_server_faults
from tests.integration.hdfs.test_server_faults import serve
from tests.soak.hazards import disks_of
from tests.support.healed_hdfs import healed
from tests.support.same_tests import same_tests
from tests.support.secure_hdfs import Protection, SecureHdfs, secure_hdfs
from tests.support.unsafe_disk import UnsafeDisk

__all__ = ["serve"]

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.safety, pytest.mark.timeout(400)]

PRIVACY = Protection(rpc="privacy", data="privacy", is_aes=True)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHdfs]:
    with secure_hdfs(tmp_path_factory.mktemp("secure-hdfs"), PRIVACY, datanodes=3) as cluster:
        yield cluster


@pytest.fixture
def own_hdfs(secure: SecureHdfs) -> Iterator[HdfsCluster]:
    """Its daemons may be hurt: it is healed behind the test."""
    yield secure.cluster
    outside_any_loop(healed(secure.cluster))


@pytest.fixture
def own_ha_hdfs(tmp_path: Path) -> Iterator[HdfsCluster]:
    with secure_hdfs(tmp_path / "secure", PRIVACY, datanodes=3, is_ha=True) as secure:
        yield secure.cluster


@pytest.fixture
def unsafe_hdfs(tmp_path: Path) -> Iterator[tuple[HdfsCluster, tuple[UnsafeDisk, ...]]]:
    made: list[UnsafeDisk] = []

    def make_disks(cluster: HdfsCluster) -> None:
        for disk in disks_of(cluster):
            made.append(disk)
            disk.make()

    try:
        with secure_hdfs(tmp_path / "secure", PRIVACY, datanodes=3, before_start=make_disks) as secure:
            disks = tuple(made[-len(secure.cluster.plan.datanodes) :])
            for disk in disks:
                disk.sync()
            yield secure.cluster, disks
    finally:
        for disk in made:
            disk.close()


for each in (test_server_faults, test_power_loss):
    globals().update(same_tests(each, lambda fixtures: True))
