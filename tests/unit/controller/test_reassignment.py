"""Reassignments are done at once, and refused with Kafka's codes and words."""

from __future__ import annotations

import pytest

from bmq.controller.reassignment import (
    REASSIGNED,
    decide_alter_partition_reassignments,
    list_partition_reassignments,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from bmq.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.controller.cluster_support import ManyNodes, registered, require_sound

pytestmark = pytest.mark.unit


def reassign(
    cluster: ManyNodes,
    wanted: list[tuple[str, int, tuple[int, ...] | None]],
    *,
    allow_replication_factor_change: bool = True,
) -> list[tuple[ErrorCode, str | None]]:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=allow_replication_factor_change,
        topics=[
            ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=number, replicas=replicas)])
            for name, number, replicas in wanted
        ],
    )
    decision = decide_alter_partition_reassignments(cluster.context, request)
    cluster.take(decision.records)
    assert decision.response.error_code == ErrorCode.NONE
    assert decision.response.allow_replication_factor_change == allow_replication_factor_change
    return [
        (ErrorCode(partition.error_code), partition.error_message)
        for topic in decision.response.responses
        for partition in topic.partitions
    ]


@pytest.fixture
def cluster() -> ManyNodes:
    made = ManyNodes(
        registered(2),
        registered(3),
        registered(4),
        registered(5, fenced=True),
        registered(6, roles=("proxy",)),
        registered(7, draining=True),
    )
    made.topic("t", [(2, 3), (3, 2), (2, 4)])
    return made


def test_the_owner_stays_when_it_may(cluster: ManyNodes) -> None:
    assert reassign(cluster, [("t", 0, (4, 2))]) == [(ErrorCode.NONE, None)]
    partition = cluster.partitions("t")[0]
    assert (partition.leader, partition.leader_epoch, partition.replicas, partition.isr) == (2, 0, (4, 2), (4, 2))


def test_else_the_first_that_lives_takes_over(cluster: ManyNodes) -> None:
    topic_id = cluster.image.topics["t"].topic_id
    cluster.floors[topic_id, 0] = 12
    assert reassign(cluster, [("t", 0, (5, 7, 4))]) == [(ErrorCode.NONE, None)]
    partition = cluster.partitions("t")[0]
    assert (partition.leader, partition.leader_epoch, partition.high_watermark_floor) == (4, 1, 12)
    assert (partition.replicas, partition.isr) == ((5, 7, 4), (7, 4))
    assert [change.reason for change in cluster.state.history.of(topic_id, 0)] == [REASSIGNED]
    assert reassign(cluster, [("t", 0, (5, 7))]) == [(ErrorCode.NONE, None)]
    assert cluster.leaders("t")[0] == 7
    require_sound(cluster.image)


def test_what_is_already_so_takes_no_record(cluster: ManyNodes) -> None:
    before = cluster.offset
    assert reassign(cluster, [("t", 0, (2, 3))]) == [(ErrorCode.NONE, None)]
    assert cluster.offset == before


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (("x", 0, (2,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named x."),
        (("t", 3, (2,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:3."),
        (("t", -1, (2,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:-1."),
        (("t", 0, None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."),
        (
            ("t", 0, ()),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            ("t", 0, (2, 9)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            ("t", 0, (8, 2, 9)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes brokers 8, 9, but no such brokers are registered.",
        ),
        (
            ("t", 0, (2, 3, 2)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 2 more than once.",
        ),
        (
            ("t", 0, (2, 6)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes node 6, which does not have the broker role.",
        ),
        (
            ("t", 0, (5,)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "None of the brokers of the manual partition assignment is alive: 5.",
        ),
    ],
)
def test_refused(
    cluster: ManyNodes, wanted: tuple[str, int, tuple[int, ...] | None], code: ErrorCode, message: str
) -> None:
    before = cluster.offset
    assert reassign(cluster, [wanted, ("t", 1, (3, 4))]) == [(code, message), (ErrorCode.NONE, None)]
    assert cluster.offset == before + 1


def test_the_replication_factor_may_be_kept(cluster: ManyNodes) -> None:
    wanted: list[tuple[str, int, tuple[int, ...] | None]] = [("t", 0, (2,)), ("t", 1, (4, 3))]
    assert reassign(cluster, wanted, allow_replication_factor_change=False) == [
        (ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor is changed from 2 to 1"),
        (ErrorCode.NONE, None),
    ]


def test_one_partition_twice_is_refused_the_second_time(cluster: ManyNodes) -> None:
    assert reassign(cluster, [("t", 0, (3,)), ("t", 0, (4,))]) == [
        (ErrorCode.NONE, None),
        (ErrorCode.INVALID_REQUEST, "Partition t:0 appears more than once."),
    ]
    assert cluster.leaders("t")[0] == 3


def test_a_request_for_nothing_has_kafkas_answer(cluster: ManyNodes) -> None:
    decision = decide_alter_partition_reassignments(cluster.context, AlterPartitionReassignmentsRequest())
    assert (decision.response.error_code, decision.response.error_message, list(decision.records)) == (0, "", [])


@pytest.mark.parametrize("topics", [None, [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])]])
def test_nothing_is_ever_in_progress(topics: list[ListPartitionReassignmentsTopics] | None) -> None:
    response = list_partition_reassignments(ListPartitionReassignmentsRequest(topics=topics))
    assert (response.error_code, list(response.topics)) == (ErrorCode.NONE, [])
