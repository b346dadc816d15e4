"""Sends a request's acknowledgements to the shards; the outcome is an error code for each partition.

Order of checks as in Kafka's KafkaApis (4.3): topic id, the batches, right over the topic, partition, then the shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from bmq.aio.loop_turns import run_in_turns
from bmq.log.partition_log import TopicPartition
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.share_state_messages import AcknowledgedBatch, AcknowledgePartition, AckType, ShareAcknowledgeRequest
from bmq.protocol.turns import Pace, Turns
from bmq.proxy.access import TopicRights
from bmq.proxy.share.acknowledgements import AcknowledgementBatch, acknowledged_batches

if TYPE_CHECKING:
    from bmq.metadata.image import MetadataImage
    from bmq.proxy.share.consumers import ShareConsumers
    from bmq.proxy.share.group_terms import GroupTerms

_UNREACHABLE: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
_NOT_LOADED: Final = (ErrorCode.INVALID_REQUEST, ErrorCode.GROUP_ID_NOT_FOUND)
"""A shard's error codes for a partition of which it has no state."""


class Acknowledged(NamedTuple):
    """The outcome of a partition's acknowledgements, for the client."""

    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class AcknowledgingRequest(NamedTuple):
    """The member, the request's version and flags, and the client's rights (None: it has all)."""

    group_id: str
    member_id: str
    version: int
    is_renew_ack: bool
    terms: GroupTerms
    rights: TopicRights | None
    turns: Turns


async def acknowledge(
    consumers: ShareConsumers,
    image: MetadataImage,
    asked: AcknowledgingRequest,
    named: Mapping[TopicPartition, Sequence[AcknowledgementBatch]],
) -> dict[TopicPartition, Acknowledged]:
    """Check and send the acknowledgements in `named`. Returns the outcome for each partition."""
    found: dict[TopicPartition, Acknowledged] = {}
    parts: list[AcknowledgePartition] = []
    pace = Pace()
    for topic_partition, batches in named.items():
        if pace.is_over():
            await asked.turns.next()
        try:
            checked = await _checked(image, asked, topic_partition, batches)
        except KafkaError as error:
            found[topic_partition] = Acknowledged(error.code, str(error))
            continue
        topic_id, partition = topic_partition
        parts.append(AcknowledgePartition(topic_id=topic_id, partition=partition, batches=checked))
    if not parts:
        return found
    request = ShareAcknowledgeRequest(group_id=asked.group_id, member_id=asked.member_id, partitions=parts)
    try:
        response = await consumers.states.acknowledge(request)
    except BmqError as error:
        refused = Acknowledged(client_code(error.code), str(error))
        return {**found, **{TopicPartition(one.topic_id, one.partition): refused for one in parts}}
    for part, answer in zip(parts, response.partitions, strict=True):
        if pace.is_over(len(part.batches)):
            await asked.turns.next()
        code = client_code(ErrorCode(answer.error_code))
        found[TopicPartition(part.topic_id, part.partition)] = Acknowledged(code, answer.error_message)
        if not code:
            _count(consumers.counts.acknowledged, part.batches)
            if any(AckType.RELEASE in batch.types for batch in part.batches):
                consumers.released(asked.group_id, TopicPartition(part.topic_id, part.partition))
    return found


async def _checked(
    image: MetadataImage,
    asked: AcknowledgingRequest,
    topic_partition: TopicPartition,
    batches: Sequence[AcknowledgementBatch],
) -> list[AcknowledgedBatch]:
    """The partition's acknowledgements, checked in Kafka's order. Raises KafkaError."""
    topic = image.topics_by_id.get(topic_partition.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    checking = acknowledged_batches(
        batches, asked.version, is_renew_ack=asked.is_renew_ack, is_renew_enabled=asked.terms.is_renew_enabled
    )
    checked = await run_in_turns(checking, asked.turns)
    if asked.rights is not None and not asked.rights.allow(topic.name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic.partition(topic_partition.partition) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return checked


def client_code(code: ErrorCode) -> ErrorCode:
    """The code as clients of share groups understand it: they do not expect codes of coordinators."""
    if code in _UNREACHABLE:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if code in _NOT_LOADED:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return ErrorCode.INVALID_REQUEST
    if code == ErrorCode.FENCED_STATE_EPOCH:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code


def _count(counts: list[int], batches: Iterable[AcknowledgedBatch]) -> None:
    for batch in batches:
        types = batch.types
        if len(types) == 1:
            counts[types[0]] += batch.last - batch.first + 1
        else:
            for kind in set(types):
                counts[kind] += sum(1 for one in types if one == kind)
