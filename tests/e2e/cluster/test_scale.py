"""One broker becomes three and three become two under load, by REST and the driver that starts processes here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testing.cluster import BmqCluster, processes_of
from testing.patience import Patience
from testing.processes import eventually
from testing.steady_load import assert_nothing_lost
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.support.paced_load import producing

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(400)]

PARTITIONS = 6
SCALE_WAIT_S = 150.0
REST_WAIT_S = 60.0
BALANCED_WAIT_S = 60.0


@pytest.fixture
def small(new_cluster: ClusterMaker, tmp_path: Path) -> BmqCluster:
    """One node with all roles, which starts others as processes of this machine."""
    cluster = new_cluster(1, BMQ_SCALE__DRIVER="local", BMQ_SCALE__DIRECTORY=str(tmp_path / "scaled"))
    cluster.start()
    return cluster


def scale(cluster: BmqCluster, brokers: int) -> dict[str, Any]:
    """Order it and follow the task to its end; the task."""
    (node,) = cluster.nodes.values()
    status, task = node.call("POST", "/v1/scale", {"brokers": brokers}, timeout_s=REST_WAIT_S)
    assert status == 202, task
    patience = Patience(SCALE_WAIT_S)
    while task["state"] == "running":
        assert not patience.is_over(), f"not within {SCALE_WAIT_S} s: {task}"
        path = f"/v1/tasks/{task['id']}/events?after={task['version']}&wait_ms=2000"
        status, task = node.call("GET", path, timeout_s=REST_WAIT_S)
        assert status == 200, task
    assert task["error"] is None, task
    return task


def wait_shared(cluster: BmqCluster, topic: str, counts: list[int]) -> None:
    """Return once nodes own so many of its partitions each; for a while they do not when one got no processor."""

    def is_shared() -> bool:
        owners = cluster.owners_of(topic)
        return sorted(owners.count(node) for node in set(owners)) == counts

    eventually(is_shared, BALANCED_WAIT_S, f"the nodes own {counts} partitions")


def test_one_three_two(small: BmqCluster, make_topic: TopicMaker) -> None:
    topic = make_topic(small, PARTITIONS)
    with producing(small.bootstrap, topic, PARTITIONS) as load:
        scale(small, 3)
        assert len(processes_of(small.root)) == 3
        wait_shared(small, topic, [2, 2, 2])
        load.wait_for_every_partition(200)
        scale(small, 2)
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
