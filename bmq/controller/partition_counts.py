"""Adding partitions to a topic: decides what is allowed and which records it takes. Pure.

Checks, codes and words are those of Kafka's ReplicationControlManager.createPartitions (4.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from bmq.controller.decision import Deciding, Decision
from bmq.controller.mutation_quotas import uncharged
from bmq.controller.replica_placement import new_partition, owner_nodes, place
from bmq.controller.topics import TopicLimits, validate_assignment
from bmq.controller.views import require_log
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.metadata.state import partition_record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from bmq.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from bmq.protocol.metadata_records import MetadataRecord
from bmq.protocol.turns import Pace
from bmq.protocol.wire_turns import InTurns


@Deciding
def decide_create_partitions(
    image: MetadataImage,
    request: CreatePartitionsRequest,
    limits: TopicLimits,
    charge: Callable[[int], None] = uncharged,
) -> InTurns[Decision[CreatePartitionsResponse]]:
    """New partitions after the existing ones, which keep their owners."""
    names = Counter(topic.name for topic in request.topics)
    results, records = [], list[MetadataRecord]()
    seen = set[str]()
    room = limits.partitions_max - image.partition_count
    pace = Pace()
    for wanted in request.topics:
        if pace.is_over():
            yield
        if wanted.name in seen:
            continue
        seen.add(wanted.name)
        result = CreatePartitionsTopicResult(name=wanted.name)
        try:
            if names[wanted.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = image.topics.get(wanted.name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.")
            added = _added(topic, wanted)
            if len(records) + added > limits.partitions_per_request_max or added > room:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"Adding {added} partition(s) to topic {wanted.name} is more than is allowed: "
                    f"{limits.partitions_per_request_max} per request, {limits.partitions_max} in the cluster.",
                )
            charge(added)
            records += _new_partitions(image, topic, wanted, added)
            if pace.is_over(added):
                yield
            room -= added
        except BmqError as error:
            result.error_code, result.error_message = error.code, str(error)
        results.append(result)
    return Decision(CreatePartitionsResponse(results=results), () if request.validate_only else records)


def _added(topic: TopicImage, wanted: CreatePartitionsTopic) -> int:
    require_log(topic)
    current = len(topic.partitions)
    if wanted.count == current:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if wanted.count < current:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); {wanted.count} would not be an increase.",
        )
    added = wanted.count - current
    if wanted.assignments is not None and len(wanted.assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} assignment(s) were "
            "specified.",
        )
    return added


def _new_partitions(
    image: MetadataImage, topic: TopicImage, wanted: CreatePartitionsTopic, added: int
) -> list[MetadataRecord]:
    current = len(topic.partitions)
    owners = owner_nodes(image.nodes)
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is not None:
        placed = [tuple(assignment.broker_ids) for assignment in wanted.assignments]
        for replicas in placed:
            validate_assignment(replicas, owners, factor)
    elif factor > len(owners):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(owners)} broker(s) are registered.",
        )
    else:
        placed = place(owners, added, factor, topic.topic_id.int + current)
    return [
        partition_record(topic.topic_id, new_partition(current + number, replicas, owners))
        for number, replicas in enumerate(placed)
    ]
