"""`bmq spark compact` where files are on HDFS and the partition has another owner by the time of the swap."""

from __future__ import annotations

import json

import pytest

from testing.cluster import BmqCluster
from testing.processes import eventually
from tests.e2e.cluster.conftest import TopicMaker
from tests.e2e.test_spark_compaction import CONFIGS, KEYS, ROUNDS, WAIT_S, planned, read, run, write

pytestmark = [pytest.mark.campaign("spark-cluster"), pytest.mark.bmq_only, pytest.mark.timeout(600)]


def test_what_a_job_leaves_outlives_the_owner(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    topic = make_topic(cluster, 1, config=CONFIGS)
    expected = write(cluster.bootstrap, [topic])
    end_offset = ROUNDS * (KEYS + 1)
    owner = cluster.owner_of(topic, 0)
    # Whoever is asked leads to the owner.
    other = next(node for node in cluster.healthy if node is not owner)
    rest = f"http://{other.rest}"
    eventually(lambda: planned(rest, topic)["end_offset"] == end_offset, WAIT_S, "all segments are closed")
    before = read(cluster.bootstrap, topic)
    (done,) = json.loads(run(cluster.bootstrap, rest, topic).stdout)
    assert done["first_dirty_offset"] == end_offset
    left = read(cluster.bootstrap, topic)
    assert {key: value for _, key, value, _ in left} == expected
    assert len(left) == KEYS < len(before)
    owner.kill()
    eventually(lambda: owner.node_id not in cluster.owners_of(topic), WAIT_S, "the partition has a new owner")
    assert read(cluster.bootstrap, topic) == left
    owner.start()
