"""One Kubernetes for the tests of a module, and a namespace for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testing.kubernetes import Kubernetes, running_kubernetes
from testing.processes import eventually
from testing.zookeeper import zookeeper
from tests.e2e.cluster.conftest import hdfs, make_topic, new_cluster
from tests.e2e.conftest import unique_name

__all__ = ["hdfs", "make_topic", "new_cluster", "zookeeper"]

GONE_WAIT_S = 60.0


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with running_kubernetes(tmp_path_factory.mktemp("kubernetes")) as running:
        yield running


@pytest.fixture
def namespace(kubernetes: Kubernetes) -> Iterator[str]:
    """Gone with the test: ports of machines are for all namespaces."""
    name = unique_name("ns").lower().replace("_", "-")
    kubernetes.kubectl("create", "namespace", name)
    path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    kubernetes.wait_for("GET", path, "the namespace has its service account")
    yield name
    kubernetes.kubectl("delete", "namespace", name, "--wait=false")
    # A pod that is bound to a machine waits for it, and there is none any more.
    kubernetes.kubectl("-n", name, "delete", "pods", "--all", "--grace-period=0", "--force")
    eventually(lambda: kubernetes.request("GET", f"/api/v1/namespaces/{name}")[0] == 404, GONE_WAIT_S, "it is gone")
