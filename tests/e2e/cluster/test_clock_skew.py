"""Nodes whose clocks differ by minutes: nothing between them depends on the time of day."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from testing.cluster import NODE_SESSION_S
from testing.steady_load import assert_nothing_lost
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.e2e.cluster.test_separate_roles import owners_and_epochs
from tests.support.paced_load import producing
from tests.support.wrong_clock import clock_off_by

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(180), pytest.mark.safety]

PARTITIONS = 3
SKEW_S = 60
SESSIONS = 1.5


def test_clocks_a_minute_off(new_cluster: ClusterMaker, make_topic: TopicMaker) -> None:
    cluster = new_cluster()
    skews = (0, SKEW_S, -SKEW_S)
    for seconds in skews:
        cluster.add(environment=clock_off_by(seconds) if seconds else None)
    cluster.start()
    topic = make_topic(cluster, PARTITIONS)
    stamped = make_topic(cluster, PARTITIONS, config={"message.timestamp.type": "LogAppendTime"})
    with producing(cluster.bootstrap, stamped, PARTITIONS, records_s=100) as load:
        load.wait_for_every_partition(10)
    assert_nothing_lost(load, cluster.bootstrap)
    assert spread_s(cluster.bootstrap, stamped) > SKEW_S, "the clocks are not wrong: nothing was tested"

    with producing(cluster.bootstrap, topic, PARTITIONS) as load:
        cluster.wait_settled()
        cluster.wait_balanced()
        owners = owners_and_epochs(cluster, topic)
        load.go_on_for(SESSIONS * NODE_SESSION_S)
        assert owners_and_epochs(cluster, topic) == owners, "a node was fenced for its clock"
        cluster.owner_of(topic, 0).kill()
        load.wait_for_every_partition(200)
    assert_nothing_lost(load, cluster.bootstrap)


def spread_s(bootstrap: str, topic: str) -> float:
    """Between the earliest and the latest timestamp of each partition's first record."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    times_ms = []
    for partition in range(PARTITIONS):
        consumer.assign([TopicPartition(topic, partition, 0)])
        (message,) = consumer.consume(1, timeout=20)
        times_ms.append(message.timestamp()[1])
    consumer.close()
    return (max(times_ms) - min(times_ms)) / 1000
