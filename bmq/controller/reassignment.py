"""AlterPartitionReassignments and ListPartitionReassignments: which nodes may own a partition. Decisions only.

Checks, codes and words are those of Kafka's ReplicationControlManager (4.3). Replicas hold no data, so a reassignment is
done when its record is written: there is never one in progress, to be listed or cancelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.controller.decision import Deciding, Decision
from bmq.controller.decision_context import DecisionContext
from bmq.controller.replica_placement import first_live
from bmq.controller.views import require_log
from bmq.metadata.image import NO_LEADER, ROLE_BROKER, PartitionImage
from bmq.metadata.state import node_of
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from bmq.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from bmq.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from bmq.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from bmq.protocol.metadata_records import PartitionChangeRecord
from bmq.protocol.turns import Pace
from bmq.protocol.wire_turns import InTurns

REASSIGNED: Final = "partition reassignment"


@Deciding
def decide_alter_partition_reassignments(
    context: DecisionContext, request: AlterPartitionReassignmentsRequest
) -> InTurns[Decision[AlterPartitionReassignmentsResponse]]:
    """Each partition succeeds or fails by itself. The owner stays if it is among the new replicas."""
    records: list[PartitionChangeRecord] = []
    seen = set[tuple[str, int]]()
    topics = []
    pace = Pace()
    for topic in request.topics:
        results = []
        for wanted in topic.partitions:
            if pace.is_over():
                yield
            result = ReassignablePartitionResponse(partition_index=wanted.partition_index)
            try:
                if (topic.name, wanted.partition_index) in seen:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"Partition {topic.name}:{wanted.partition_index} appears more than once.",
                    )
                seen.add((topic.name, wanted.partition_index))
                record = _record(context, topic.name, wanted, request.allow_replication_factor_change)
                if record is not None:
                    records.append(record)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, str(error)
            results.append(result)
        topics.append(ReassignableTopicResponse(name=topic.name, partitions=results))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=topics,
        # As Kafka, which answers a request for nothing by itself.
        error_message=None if request.topics else "",
    )
    return Decision(response, records)


def list_partition_reassignments(_: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Nothing is ever in progress."""
    return ListPartitionReassignmentsResponse()


def _record(
    context: DecisionContext, name: str, wanted: ReassignablePartition, is_factor_free: bool
) -> PartitionChangeRecord | None:
    topic = context.image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partition(wanted.partition_index)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{wanted.partition_index}."
        )
    require_log(topic)
    if wanted.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    replicas = tuple(wanted.replicas)
    _require_valid(context, replicas)
    if not is_factor_free and len(replicas) != len(partition.replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(partition.replicas)} to {len(replicas)}",
        )
    if partition.leader in replicas:
        return _same_owner(context, topic.topic_id, partition, replicas)
    live = context.owners
    willing = [node for node in replicas if node in live and not live[node].is_draining]
    owner = first_live(willing or replicas, live)
    if owner == NO_LEADER:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"None of the brokers of the manual partition assignment is alive: {_listed(replicas)}.",
        )
    return context.new_leader_epoch(topic.topic_id, partition, owner, replicas, live, REASSIGNED)


def _same_owner(
    context: DecisionContext, topic_id: UUID, partition: PartitionImage, replicas: tuple[int, ...]
) -> PartitionChangeRecord | None:
    if replicas == partition.replicas:
        return None
    return PartitionChangeRecord(
        partition_id=partition.partition,
        topic_id=topic_id,
        replicas=replicas,
        isr=tuple(node for node in replicas if node in context.owners),
    )


def _require_valid(context: DecisionContext, replicas: Sequence[int]) -> None:
    """Fenced nodes are fine, as in Kafka; nodes that could never own a partition are not."""
    registered = context.registrations
    if not replicas:
        why = "The manual partition assignment includes an empty replica list."
    elif unknown := [node for node in replicas if node not in registered]:
        why = (
            f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
            if len(unknown) == 1
            else f"The manual partition assignment includes brokers {_listed(unknown)}, but no such brokers are "
            "registered."
        )
    elif unable := [node for node in replicas if ROLE_BROKER not in node_of(registered[node]).roles]:
        why = f"The manual partition assignment includes node {unable[0]}, which does not have the broker role."
    elif twice := [node for node, count in Counter(replicas).items() if count > 1]:
        why = f"The manual partition assignment includes the broker {twice[0]} more than once."
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)


def _listed(nodes: Sequence[int]) -> str:
    return ", ".join(str(node) for node in nodes)
