"""Metadata: the nodes, and the topics a client asks for with their partitions and leaders.

The answer that lists all topics is the largest and the one most asked for: its bytes are kept until the image changes.
Asking for a topic that is not there may create it; unlike Kafka, which answers before the topic is made, the answer waits
for it, and the client need not ask again. Sources: MetadataRequest.json; KIP-4, KIP-516 (ids), KIP-1102 (rebootstrap).
"""

from __future__ import annotations

import asyncio
from typing import Final

from bmq.controller.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import encode
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from bmq.proxy.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED_FOR, TOPIC_OPERATIONS
from bmq.proxy.dispatch import EncodedBody, RequestContext, handles
from bmq.proxy.services import Services
from bmq.proxy.topic_views import created_topic_error, is_valid_name, leader_error, offline_replicas

_IDS_FROM_VERSION: Final = 12
_CREATIONS_AT_ONCE_MAX: Final = 16
_PASSING: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)


class _AllTopics:
    """Encoded answers about all topics of one image, by version and flags (at most 14 versions times 4)."""

    def __init__(self) -> None:
        self._image: MetadataImage | None = None
        self._bodies: dict[tuple[int, bool, bool], bytes] = {}

    def body(self, image: MetadataImage, version: int, request: MetadataRequest) -> bytes:
        if self._image is not image:
            self._image = image
            self._bodies = {}
        with_cluster, with_topics = _flags(request)
        key = (version, with_cluster, with_topics)
        body = self._bodies.get(key)
        if body is None:
            topics = [_topic(image, topic, with_operations=with_topics) for topic in image.topics.values()]
            body = encode("response", ApiKey.METADATA, version, _response(image, topics, with_cluster))
            self._bodies[key] = body
        return body


_all_topics: Final = _AllTopics()


@handles(ApiKey.METADATA)
async def metadata(
    request: MetadataRequest, context: RequestContext, services: Services
) -> MetadataResponse | EncodedBody:
    """Metadata 0-13. One topic's error never fails the others."""
    version = context.api_version
    if request.topics is None or (version == 0 and not request.topics):
        return EncodedBody(_all_topics.body(services.controller.image, version, request))
    with_cluster, with_topics = _flags(request)
    if version < _IDS_FROM_VERSION and any(
        topic.name is None or topic.topic_id is not None for topic in request.topics
    ):
        topics = [_failed(topic.name or "", topic, ErrorCode.INVALID_REQUEST) for topic in request.topics]
        return _response(services.controller.image, topics, with_cluster)
    refusals: dict[str, ErrorCode] = {}
    if request.allow_auto_topic_creation and services.is_auto_create_enabled:
        refusals = await _create_missing(request, services)
    image = services.controller.image
    topics = []
    for asked in request.topics:
        found = _find(image, asked)
        if found is not None:
            topics.append(_topic(image, found, with_operations=with_topics))
        elif asked.topic_id is not None:
            topics.append(_failed(asked.name, asked, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            code = refusals.get(asked.name or "") or _why_missing(asked.name or "")
            topics.append(_failed(asked.name, asked, code))
    return _response(image, topics, with_cluster)


def _flags(request: MetadataRequest) -> tuple[bool, bool]:
    return bool(request.include_cluster_authorized_operations), bool(request.include_topic_authorized_operations)


def _find(image: MetadataImage, asked: MetadataRequestTopic) -> TopicImage | None:
    if asked.topic_id is not None:
        return image.topics_by_id.get(asked.topic_id)
    return image.topics.get(asked.name or "")


async def _create_missing(request: MetadataRequest, services: Services) -> dict[str, ErrorCode]:
    """Create what is asked for by name and not there; why that failed, by name."""
    topics = services.controller.image.topics
    missing = list(
        dict.fromkeys(
            asked.name
            for asked in request.topics or ()
            if asked.topic_id is None and asked.name is not None and asked.name not in topics
        )
    )
    refusals: dict[str, ErrorCode] = {}
    for start in range(0, len(missing), _CREATIONS_AT_ONCE_MAX):
        names = missing[start : start + _CREATIONS_AT_ONCE_MAX]
        codes = await asyncio.gather(*(_create(name, services) for name in names))
        refusals.update((name, code) for name, code in zip(names, codes, strict=True) if code is not ErrorCode.NONE)
    return refusals


async def _create(name: str, services: Services) -> ErrorCode:
    if not is_valid_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    code = await created_topic_error(name, services)
    # What will pass the client hears in a code it asks again for; one about the controller would mean nothing to it here.
    return ErrorCode.LEADER_NOT_AVAILABLE if code in _PASSING else code


def _why_missing(name: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION


def _failed(name: str | None, asked: MetadataRequestTopic, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=asked.topic_id)


def _topic(image: MetadataImage, topic: TopicImage, *, with_operations: bool) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(image, partition) for partition in topic.partitions],
        topic_authorized_operations=TOPIC_OPERATIONS if with_operations else NOT_ASKED_FOR,
    )


def _partition(image: MetadataImage, partition: PartitionImage) -> MetadataResponsePartition:
    code = leader_error(partition, image)
    return MetadataResponsePartition(
        error_code=code,
        partition_index=partition.partition,
        leader_id=NO_LEADER if code else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=offline_replicas(partition, image),
    )


def _response(image: MetadataImage, topics: list[MetadataResponseTopic], with_cluster: bool) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in image.nodes.values()
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if with_cluster else NOT_ASKED_FOR,
    )
