"""A call that was given up is carried out late on a kerberized HDFS: the tests of the open cluster again.

Calls are not encrypted here, so that a proxy can tell which ones to keep back.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bmq.hdfs.config import HdfsConfig
from testing.hdfs import fresh_root
from tests.integration.hdfs import test_same_late_calls
from tests.support.same_tests import same_tests
from tests.support.secure_hdfs import Protection, SecureHdfs, secure_hdfs

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.safety, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHdfs]:
    protection = Protection(rpc="authentication", data="privacy", is_aes=True)
    with secure_hdfs(tmp_path_factory.mktemp("secure-hdfs"), protection, datanodes=3) as cluster:
        yield cluster


@pytest.fixture
def hdfs_config(secure: SecureHdfs, request: pytest.FixtureRequest) -> HdfsConfig:
    return secure.config(fresh_root(request.node.name))


globals().update(same_tests(test_same_late_calls, lambda fixtures: "hdfs_config" in fixtures))
