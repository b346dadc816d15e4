"""One broker becomes three and three become two under load, by REST and the driver that starts processes here."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.cluster import BmqCluster, processes_of
from testing.processes import eventually
from testing.steady_load import assert_nothing_lost
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.support.paced_load import producing
from tests.support.scaling import REST_WAIT_S, scale

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(400)]

PARTITIONS = 6
BALANCED_WAIT_S = 60.0


@pytest.fixture
def small(new_cluster: ClusterMaker, tmp_path: Path) -> BmqCluster:
    """One node with all roles, which starts others as processes of this machine."""
    cluster = new_cluster(1, BMQ_SCALE__DRIVER="local", BMQ_SCALE__DIRECTORY=str(tmp_path / "scaled"))
    cluster.start()
    return cluster


def wait_shared(cluster: BmqCluster, topic: str, counts: list[int]) -> None:
    """Return once nodes own so many of its partitions each; for a while they do not when one got no processor."""

    def is_shared() -> bool:
        owners = cluster.owners_of(topic)
        return sorted(owners.count(node) for node in set(owners)) == counts

    eventually(is_shared, BALANCED_WAIT_S, f"the nodes own {counts} partitions")


def test_one_three_two(small: BmqCluster, make_topic: TopicMaker) -> None:
    (first,) = small.nodes.values()
    topic = make_topic(small, PARTITIONS)
    with producing(small.bootstrap, topic, PARTITIONS) as load:
        scale(first, 3)
        assert len(processes_of(small.root)) == 3
        wait_shared(small, topic, [2, 2, 2])
        load.wait_for_every_partition(200)
        scale(first, 2)
        wait_shared(small, topic, [3, 3])
        load.wait_for_every_partition(200)
        eventually(lambda: len(processes_of(small.root)) == 2, 60, "the third process is gone")
    assert_nothing_lost(load, small.bootstrap)
    load.assert_no_hang()


def test_what_cannot_be_is_refused_in_a_sentence(small: BmqCluster) -> None:
    (node,) = small.nodes.values()
    for brokers, statuses in ((0, (409, 422)), (-1, (409, 422)), (10_000, (409, 422, 502))):
        status, problem = node.call("POST", "/v1/scale", {"brokers": brokers}, timeout_s=REST_WAIT_S)
        assert status in statuses, problem
        assert problem["detail"], problem
    status, problem = node.call("POST", "/v1/nodes/99/drain", timeout_s=REST_WAIT_S)
    assert status == 404 and "99" in problem["detail"], problem
    assert [process.pid for process in processes_of(small.root)] == [node.process.pid]
