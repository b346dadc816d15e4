"""Clusters to test with: daemons shared by all tests, nodes shared by the tests of a module, and healed in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bmq.dev.hdfs import HdfsCluster
from bmq.dev.zookeeper import ZooKeeperServer
from testing import hdfs as hdfs_support
from testing.cluster import BmqCluster, open_clusters
from testing.zookeeper import own_zookeeper, zookeeper
from tests.e2e.conftest import unique_name

__all__ = ["own_zookeeper", "zookeeper"]

TRACEBACK = "Traceback (most recent call last)"

ClusterMaker = Callable[..., BmqCluster]


class TopicMaker(Protocol):
    """Makes a topic of a name of its own that every node knows when this returns; its name."""

    def __call__(
        self,
        cluster: BmqCluster,
        partitions: int = 1,
        replication_factor: int = 3,
        config: dict[str, str] | None = None,
    ) -> str: ...


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failure shows the logs of nodes that are dead too; those that run are shown already."""
    report = yield
    if report.failed:  # type: ignore[attr-defined]
        for cluster in open_clusters():
            for node in cluster.nodes.values():
                if not node.is_running and node.process.log_file.exists():
                    report.sections.append((f"log of {node}", str(node.process)))  # type: ignore[attr-defined]
    return report


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """One NameNode and two DataNodes for all tests of the session: its daemons are not to be hurt."""
    with hdfs_support.shared(lambda: tmp_path_factory.mktemp("hdfs"), datanodes=2) as cluster:
        yield cluster


class SharedCluster:
    """The cluster of a module. Every test leaves it well, or fails; the next one then gets a new cluster."""

    def __init__(self, make: Callable[[], BmqCluster]) -> None:
        self._make = make
        self._cluster: BmqCluster | None = None

    @contextmanager
    def lent(self) -> Iterator[BmqCluster]:
        """Raises AssertionError behind a test after which it cannot be healed, or whose nodes logged a traceback."""
        if self._cluster is None:
            self._cluster = self._make()
            self._cluster.start()
        cluster = self._cluster
        with no_tracebacks(cluster):
            yield cluster
            try:
                cluster.heal()
            except Exception as error:
                logs = "".join(str(node.process) for node in cluster.nodes.values())
                self.close()
                raise AssertionError(f"the cluster does not heal after this test: {error}{logs}") from error

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


@pytest.fixture(scope="module")
def shared_cluster(
    hdfs: HdfsCluster, zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedCluster]:
    def make() -> BmqCluster:
        cluster = BmqCluster(tmp_path_factory.mktemp("cluster"), hdfs.url, str(zookeeper.address), "cluster")
        for _ in range(3):
            cluster.add()
        return cluster

    shared = SharedCluster(make)
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def shared_separated(
    hdfs: HdfsCluster, zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedCluster]:
    def make() -> BmqCluster:
        cluster = BmqCluster(tmp_path_factory.mktemp("separated"), hdfs.url, str(zookeeper.address), "separated")
        for roles in (*["broker,coordinator"] * 3, *["proxy"] * 2, *["controller"] * 2):
            cluster.add(roles)
        return cluster

    shared = SharedCluster(make)
    yield shared
    shared.close()


@pytest.fixture
def cluster(shared_cluster: SharedCluster) -> Iterator[BmqCluster]:
    """Three nodes with all roles, all well. A test may do to them what it likes."""
    with shared_cluster.lent() as cluster:
        yield cluster


@pytest.fixture
def separated(shared_separated: SharedCluster) -> Iterator[BmqCluster]:
    """Three brokers, two proxies and two controllers, each a process of its own. A test may do to them what it likes."""
    with shared_separated.lent() as cluster:
        yield cluster


@pytest.fixture
def new_cluster(hdfs: HdfsCluster, zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[ClusterMaker]:
    """`new_cluster(nodes=0, roles=…)` makes a cluster of the test's own, not started; gone when the test ends."""
    made: list[BmqCluster] = []

    def make(nodes: int = 0, *, zookeeper_hosts: str = str(zookeeper.address), **settings: str) -> BmqCluster:
        directory = tmp_path / f"cluster-{len(made)}"
        cluster = BmqCluster(directory, hdfs.url, zookeeper_hosts, "own", environment=settings)
        made.append(cluster)
        for _ in range(nodes):
            cluster.add()
        return cluster

    yield make
    for cluster in made:
        cluster.close()
        assert_no_traceback(cluster, {})


@pytest.fixture
def make_topic() -> TopicMaker:
    def make(
        cluster: BmqCluster, partitions: int = 1, replication_factor: int = 3, config: dict[str, str] | None = None
    ) -> str:
        name = unique_name("topic")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        topic = NewTopic(name, partitions, min(replication_factor, len(cluster.brokers)), config=config or {})
        admin.create_topics([topic])[name].result(timeout=30)
        cluster.wait_settled()
        return name

    return make


@contextmanager
def no_tracebacks(cluster: BmqCluster) -> Iterator[None]:
    """While inside, no node of the cluster may log a traceback, whatever is done to it."""
    sizes = {node.node_id: _size(node.process.log_file) for node in cluster.nodes.values()}
    yield
    assert_no_traceback(cluster, sizes)


def assert_no_traceback(cluster: BmqCluster, from_bytes: dict[int, int]) -> None:
    for node in cluster.nodes.values():
        if node.process.log_file.exists():
            logged = node.process.log_file.read_bytes()[from_bytes.get(node.node_id, 0) :].decode(errors="replace")
            assert TRACEBACK not in logged, f"{node} logged a traceback: {logged[logged.index(TRACEBACK) :][:4_000]}"


def _size(log_file: Path) -> int:
    return log_file.stat().st_size if log_file.exists() else 0
