"""Kafka Streams with exactly_once_v2 counts on exactly while the nodes it needs die."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.cluster import BmqCluster, ClusterNode
from testing.processes import eventually
from tests.e2e.cluster.conftest import TopicMaker
from tests.e2e.cluster.test_groups_failover import java_hash
from tests.support.word_count import PROTOCOLS, WORDS_PER_LINE, WordCount, compile_word_count

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(240), pytest.mark.safety]

PARTITIONS = 2
LINES = 60
GROUP_TOPIC = "__consumer_offsets"
GO_ON_WAIT_S = 90.0


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_word_count(tmp_path_factory.mktemp("classes"))


@pytest.fixture(params=PROTOCOLS)
def word_count(
    request: pytest.FixtureRequest, cluster: BmqCluster, make_topic: TopicMaker, classes: Path, tmp_path: Path
) -> Iterator[tuple[WordCount, str]]:
    source, target = (make_topic(cluster, PARTITIONS) for _ in range(2))
    bootstrap, state = cluster.bootstrap, tmp_path / "state"
    application = WordCount(bootstrap, classes, source, target, PARTITIONS, request.param, state)
    yield application, source
    if application.process.is_running:
        application.process.kill()


def coordinator_of(cluster: BmqCluster, group_id: str) -> ClusterNode:
    return cluster.owner_of(GROUP_TOPIC, abs(java_hash(group_id)) % len(cluster.owners_of(GROUP_TOPIC)))


def test_every_word_counts_exactly_once_while_nodes_die(cluster: BmqCluster, word_count: tuple[WordCount, str]) -> None:
    application, source = word_count
    application.start()

    def count_on() -> None:
        before = sum(application.expected.values())
        application.write(LINES)
        eventually(lambda: application.counted() > before + WORDS_PER_LINE * LINES // 2, GO_ON_WAIT_S, "it counts on")

    count_on()
    for victim in (
        lambda: coordinator_of(cluster, application.application_id),
        lambda: cluster.owner_of(source, 0),
    ):
        node = victim()
        node.kill()
        count_on()
        node.start()
        cluster.wait_settled()
    eventually(lambda: application.counted() >= sum(application.expected.values()), GO_ON_WAIT_S, "all is counted")
    application.assert_exact()
