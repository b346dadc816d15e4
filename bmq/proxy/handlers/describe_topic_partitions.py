"""DescribeTopicPartitions: topics and their partitions, page by page (KIP-966).

Topics are sorted by name. A page ends after a limited number of partitions; its cursor names the first partition of the
next page.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop

from bmq.aio.loop_turns import run_in_turns
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import MetadataImage, PartitionImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from bmq.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from bmq.protocol.request_context import RequestContext
from bmq.protocol.turns import Pace, at_once
from bmq.protocol.wire_turns import InTurns
from bmq.proxy.authorized_operations import TOPIC_OPERATIONS
from bmq.proxy.dispatch import handles
from bmq.proxy.services import DESCRIBED_PARTITIONS_MAX, Services
from bmq.proxy.topic_views import client_leader, is_valid_name, leader_error, offline_replicas


@handles(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
async def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: RequestContext, services: Services
) -> DescribeTopicPartitionsResponse:
    """Answer DescribeTopicPartitions 0. A request without topics asks for all."""
    page = page_in_turns(services.controller.image, request, services.described_partitions_max)
    return await run_in_turns(page, context.turns)


def page_of(
    image: MetadataImage, request: DescribeTopicPartitionsRequest, partitions_max: int = DESCRIBED_PARTITIONS_MAX
) -> DescribeTopicPartitionsResponse:
    """One page, made in one turn of the event loop; else as `page_in_turns`."""
    return at_once(page_in_turns(image, request, partitions_max))


def page_in_turns(
    image: MetadataImage, request: DescribeTopicPartitionsRequest, partitions_max: int
) -> InTurns[DescribeTopicPartitionsResponse]:
    """One page, with at least one partition, even if the requested limit is 0. INVALID_REQUEST for a cursor below 0."""
    names: Iterable[str] = {topic.name for topic in request.topics} or image.topics
    first_name, first_partition = "", 0
    if request.cursor is not None:
        first_name, first_partition = request.cursor.topic_name, request.cursor.partition_index
        if first_partition < 0:
            return DescribeTopicPartitionsResponse(
                topics=[
                    DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
                    for topic in request.topics
                ]
            )
    left = max(min(partitions_max, request.response_partition_limit), 1)
    described: list[DescribeTopicPartitionsResponseTopic] = []
    pace = Pace()
    left_names = [name for name in names if name >= first_name]
    heapify(left_names)  # sorting 100,000 names would take a turn of its own
    while left_names:
        name = heappop(left_names)
        if pace.is_over():
            yield
        if left <= 0:
            return DescribeTopicPartitionsResponse(topics=described, next_cursor=Cursor(topic_name=name))
        topic = image.topics.get(name)
        if topic is None:
            described.append(_unknown(name))
            continue
        begin = first_partition if name == first_name else 0
        chosen = topic.partitions[begin : begin + left]
        described.append(_described(image, topic, chosen))
        if pace.is_over(len(chosen)):
            yield
        left -= len(chosen)
        if begin + len(chosen) < len(topic.partitions):
            cursor = Cursor(topic_name=name, partition_index=begin + len(chosen))
            return DescribeTopicPartitionsResponse(topics=described, next_cursor=cursor)
    return DescribeTopicPartitionsResponse(topics=described)


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )


def _described(
    image: MetadataImage, topic: TopicImage, partitions: Iterable[PartitionImage]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        topic_authorized_operations=TOPIC_OPERATIONS,
        partitions=[_partition(image, topic, partition) for partition in partitions],
    )


def _partition(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    leader = client_leader(image, TopicPartition(topic.topic_id, partition.partition), partition)
    return DescribeTopicPartitionsResponsePartition(
        error_code=leader_error(leader),
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=offline_replicas(partition, image),
    )
