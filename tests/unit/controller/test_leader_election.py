"""ElectLeaders answers as Kafka's controller does; an unclean one accepts a loss, and only a named one."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.controller.leader_election import LOSS_ACCEPTED, PREFERRED_ELECTION, decide_elect_leaders
from bmq.metadata.image import PartitionImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from bmq.protocol.messages.elect_leaders_response import ElectLeadersResponse
from tests.unit.controller.cluster_support import ManyNodes, registered, require_sound

pytestmark = pytest.mark.unit

PREFERRED, UNCLEAN = 0, 1


def elect(
    cluster: ManyNodes, election: int, wanted: dict[str, list[int]] | None, offline: set[tuple[UUID, int]] | None = None
) -> dict[tuple[str, int], tuple[ErrorCode, str | None]]:
    def is_offline(topic_id: UUID, partition: PartitionImage) -> bool:
        return (topic_id, partition.partition) in (offline or ())

    named = None if wanted is None else [TopicPartitions(topic=t, partitions=p) for t, p in wanted.items()]
    request = ElectLeadersRequest(election_type=election, topic_partitions=named)
    decision = decide_elect_leaders(cluster.context, request, is_offline)
    cluster.take(decision.records)
    return results_of(decision.response)


def results_of(response: ElectLeadersResponse) -> dict[tuple[str, int], tuple[ErrorCode, str | None]]:
    return {
        (topic.topic, result.partition_id): (ErrorCode(result.error_code), result.error_message)
        for topic in response.replica_election_results
        for result in topic.partition_result
    }


@pytest.fixture
def cluster() -> ManyNodes:
    made = ManyNodes(registered(2), registered(3), registered(4, fenced=True), registered(5, draining=True))
    made.topic("t", [(2, 3), (2, 3), (4, 3), (5, 3)], leaders=[2, 3, 3, 3])
    return made


def test_preferred(cluster: ManyNodes) -> None:
    results = elect(cluster, PREFERRED, {"t": [0, 1, 2, 3, 9, -1], "unknown": [0]})
    assert results == {
        ("t", 0): (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
        ("t", 1): (ErrorCode.NONE, None),
        ("t", 2): (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
        ("t", 3): (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader, node 5, is being drained."),
        ("t", 9): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-9"),
        ("t", -1): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t--1"),
        ("unknown", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as unknown"),
    }
    assert cluster.leaders("t") == [2, 2, 3, 3]
    assert cluster.partitions("t")[1].leader_epoch == 1
    history = cluster.state.history.of(cluster.image.topics["t"].topic_id, 1)
    assert [change.reason for change in history] == [PREFERRED_ELECTION]
    require_sound(cluster.image)


def test_all_partitions_without_those_that_need_nothing(cluster: ManyNodes) -> None:
    results = elect(cluster, PREFERRED, None)
    assert {key: code for key, (code, _) in results.items()} == {
        ("t", 1): ErrorCode.NONE,
        ("t", 2): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ("t", 3): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }


def test_all_topics_are_named_also_where_nothing_was_needed() -> None:
    cluster = ManyNodes(registered(2))
    cluster.topic("t", [(2,)], leaders=[2])
    decision = decide_elect_leaders(cluster.context, ElectLeadersRequest(topic_partitions=None), lambda *_: False)
    (topic,) = decision.response.replica_election_results
    assert (topic.topic, list(topic.partition_result)) == ("t", [])


def test_one_partition_twice_is_elected_once(cluster: ManyNodes) -> None:
    request = ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic="t", partitions=[1]), TopicPartitions(topic="t", partitions=[1])]
    )
    decision = decide_elect_leaders(cluster.context, request, lambda topic_id, partition: False)
    assert len(decision.records) == 1
    codes = [topic.partition_result[0].error_code for topic in decision.response.replica_election_results]
    assert codes == [ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED]


def test_unclean_is_not_needed_where_there_is_an_owner(cluster: ManyNodes) -> None:
    results = elect(cluster, UNCLEAN, {"t": [0, 1]})
    assert {code for code, _ in results.values()} == {ErrorCode.ELECTION_NOT_NEEDED}


def test_unclean_accepts_the_loss_of_a_named_partition(cluster: ManyNodes) -> None:
    topic_id = cluster.image.topics["t"].topic_id
    cluster.floors[topic_id, 0] = 500
    offline = {(topic_id, 0), (topic_id, 1)}
    everything = elect(cluster, UNCLEAN, None, offline)
    assert everything == {
        ("t", number): (
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Its log ends before what was acknowledged; name the partition to accept that loss.",
        )
        for number in (0, 1)
    }
    assert elect(cluster, UNCLEAN, {"t": [0]}, offline) == {("t", 0): (ErrorCode.NONE, None)}
    partition = cluster.partitions("t")[0]
    assert (partition.leader, partition.leader_epoch, partition.high_watermark_floor) == (2, 1, 0)
    assert [change.reason for change in cluster.state.history.of(topic_id, 0)] == [LOSS_ACCEPTED]


def test_unclean_without_anybody_alive() -> None:
    cluster = ManyNodes(registered(2, fenced=True))
    cluster.topic("t", [(2,)], leaders=[-1])
    assert elect(cluster, UNCLEAN, {"t": [0]}) == {
        ("t", 0): (
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
    }


def test_unclean_with_nobody_in_charge_accepts_no_loss() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    topic_id = cluster.topic("t", [(2, 3)], leaders=[-1])
    cluster.floors[topic_id, 0] = 70
    assert elect(cluster, UNCLEAN, {"t": [0]}) == {("t", 0): (ErrorCode.NONE, None)}
    assert cluster.partitions("t")[0].high_watermark_floor == 70
    require_sound(cluster.image)


def test_an_unknown_election_is_refused(cluster: ManyNodes) -> None:
    with pytest.raises(KafkaError, match="Unknown election type 7") as refused:
        elect(cluster, 7, {"t": [0]})
    assert refused.value.code is ErrorCode.INVALID_REQUEST
