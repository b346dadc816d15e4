"""Metadata: the nodes, and the requested topics with their partitions and leaders.

The answer about all topics is the largest and most frequent one, so its bytes are cached, topic by topic. A node that has just
gone is listed a moment longer (bmq/membership/departures.py says why). A request for a missing topic may create it. Unlike in
Kafka, the answer waits for that, so the client need not ask again. A client with share sessions is sent the leaders that it knows
(share/former_leaders). Sources: MetadataRequest.json; KIP-4, KIP-516 (ids), KIP-1102 (rebootstrap).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.aio.loop_turns import run_in_turns
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import MetadataImage, Node, PartitionImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import encode, is_flexible, message_format
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.formats import FormatField, codec_of
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from bmq.protocol.request_context import RequestContext
from bmq.protocol.turns import Pace, Turns, at_once
from bmq.protocol.wire import unsigned_varint
from bmq.protocol.wire_turns import InTurns
from bmq.proxy.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED_FOR, TOPIC_OPERATIONS
from bmq.proxy.dispatch import EncodedBody, handles
from bmq.proxy.services import ClientLeaders, Services
from bmq.proxy.topic_views import (
    client_controller,
    client_leader,
    client_nodes,
    created_topic_error,
    is_valid_name,
    leader_error,
    offline_replicas,
)

_IDS_FROM_VERSION: Final = 12
_CREATIONS_AT_ONCE_MAX: Final = 16
_SIZES: Final = {"int16": 2, "int32": 4}
_RESPONSE_FORMAT: Final = message_format("response", ApiKey.METADATA)
_TOPIC_FORMAT: Final = next(one.entity for one in _RESPONSE_FORMAT.fields if one.name == "topics" and one.entity)
_Key = tuple[int, bool, bool]
"""(version, whether the cluster's authorized operations are asked for, whether the topics' are)."""
_PASSING: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)


class AllTopics:
    """Encoded answers about all topics of one image, by version and flags (at most 14 versions times 4).

    After a change only the changed topics are encoded again, because in a busy cluster topics change all the time.
    """

    def __init__(self) -> None:
        self._image: MetadataImage | None = None
        self._departed: tuple[Node, ...] = ()
        self._bodies: dict[tuple[int, bool, bool], bytes] = {}
        self._parts: dict[tuple[int, bool], dict[UUID, tuple[TopicImage, bytes]]] = {}
        self._parts_used: set[tuple[int, bool]] = set()
        self._encoding: dict[_Key, asyncio.Future[None]] = {}  # answers being encoded

    def body(self, image: MetadataImage, departed: tuple[Node, ...], version: int, request: MetadataRequest) -> bytes:
        """The body of a Metadata response of this version about all topics."""
        key = self._key(image, departed, version, request)
        body = self._bodies.get(key)
        if body is None:
            body = self._bodies[key] = at_once(self._encoded(image, departed, key))
        return body

    async def body_in_turns(
        self,
        image: MetadataImage,
        departed: tuple[Node, ...],
        version: int,
        request: MetadataRequest,
        turns: Turns,
    ) -> bytes:
        """The body as `body` returns it; topics that are not encoded yet are encoded in turns, once for all requests."""
        key = self._key(image, departed, version, request)
        while True:
            body = self._bodies.get(key) if self._image is image and self._departed is departed else None
            if body is not None:
                return body
            encoding = self._encoding.get(key)
            if encoding is None:
                break
            await asyncio.shield(encoding)
            # The answer is encoded, or its client left, or the image has changed: look again.
            image, departed = self._image or image, self._departed
        done = self._encoding[key] = asyncio.get_running_loop().create_future()
        try:
            body = await run_in_turns(self._encoded(image, departed, key), turns)
        finally:
            del self._encoding[key]
            done.set_result(None)
        if self._image is image and self._departed is departed:
            self._bodies[key] = body
        return body

    def _key(self, image: MetadataImage, departed: tuple[Node, ...], version: int, request: MetadataRequest) -> _Key:
        if self._image is not image:
            self._forget_old(image)
        if self._departed is not departed:
            self._departed, self._bodies = departed, {}
        return (version, *_flags(request))

    def _forget_old(self, image: MetadataImage) -> None:
        is_other_cluster = self._image is None or self._image.nodes is not image.nodes
        # Leaders and offline replicas depend on the nodes, so drop all topics then. Drop versions that were not used lately.
        self._parts = (
            {} if is_other_cluster else {key: self._parts[key] for key in self._parts_used if key in self._parts}
        )
        self._parts_used = set()
        self._bodies = {}
        self._image = image

    def _encoded(self, image: MetadataImage, departed: tuple[Node, ...], wanted: _Key) -> InTurns[bytes]:
        version, with_cluster, with_topics = wanted
        key = (version, with_topics)
        self._parts_used.add(key)
        before = self._parts.get(key, {})
        write = codec_of(_TOPIC_FORMAT, version).write
        parts = {}
        pace = Pace()
        for topic in image.topics.values():
            part = before.get(topic.topic_id)
            if part is None or part[0] is not topic:
                out = bytearray()
                write(out, _topic(image, topic, with_operations=with_topics))
                part = (topic, bytes(out))
                if pace.is_over(len(topic.partitions)):
                    parts[topic.topic_id] = part
                    yield
            parts[topic.topic_id] = part
        if self._image is not None and self._image.nodes is image.nodes:
            self._parts[key] = parts  # most of these are right even if the image has changed meanwhile
        head, tail = _split_at_topics(_response(image, departed, [], with_cluster), version)
        return b"".join((head, _array_length(len(parts), version), *(part for _, part in parts.values()), tail))


def _array_length(count: int, version: int) -> bytes:
    return unsigned_varint(count + 1) if is_flexible(ApiKey.METADATA, version) else count.to_bytes(4, "big")


def _split_at_topics(response: MetadataResponse, version: int) -> tuple[bytes, bytes]:
    """(the bytes before the topics, the bytes behind them), from a response without topics."""
    body = encode("response", ApiKey.METADATA, version, response)
    tail = 1 if is_flexible(ApiKey.METADATA, version) else 0
    tail += sum(_SIZES[one.kafka_type or ""] for one in _fields_behind_topics(version))
    end = len(body) - tail
    return body[: end - len(_array_length(0, version))], body[end:]


def _fields_behind_topics(version: int) -> list[FormatField]:
    present = [one for one in _RESPONSE_FORMAT.fields if one.since <= version <= one.until]
    return present[1 + next(index for index, one in enumerate(present) if one.name == "topics") :]


_all_topics: Final = AllTopics()


@handles(ApiKey.METADATA)
async def metadata(
    request: MetadataRequest, context: RequestContext, services: Services
) -> MetadataResponse | EncodedBody:
    """Metadata 0-13. One topic's error never fails the others."""
    version = context.api_version
    if request.topics is None or (version == 0 and not request.topics):
        image, departed = services.controller.image, services.departed()
        return EncodedBody(await _all_topics.body_in_turns(image, departed, version, request, context.turns))
    with_cluster, with_topics = _flags(request)
    if version < _IDS_FROM_VERSION and any(
        topic.name is None or topic.topic_id is not None for topic in request.topics
    ):
        # Kafka's refusal leaves out the cluster.
        topics = [_failed(topic.name or "", topic, ErrorCode.INVALID_REQUEST) for topic in request.topics]
        return MetadataResponse(topics=topics)
    refusals: dict[str, ErrorCode] = {}
    if request.allow_auto_topic_creation and services.is_auto_create_enabled:
        refusals = await _create_missing(request, services)
    image = services.controller.image
    leaders = None if services.share is None else services.share.leaders(context.peer)
    topics = []
    # As in Kafka each topic is answered once, also if it is named several times.
    for asked in {(one.topic_id, one.name): one for one in request.topics}.values():
        found = _find(image, asked)
        if found is not None:
            topics.append(_topic(image, found, with_operations=with_topics, leaders=leaders))
        elif asked.topic_id is not None:
            topics.append(_failed(asked.name, asked, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            code = refusals.get(asked.name or "") or _why_missing(asked.name or "")
            topics.append(_failed(asked.name, asked, code))
    return _response(image, services.departed(), topics, with_cluster)


def _flags(request: MetadataRequest) -> tuple[bool, bool]:
    return bool(request.include_cluster_authorized_operations), bool(request.include_topic_authorized_operations)


def _find(image: MetadataImage, asked: MetadataRequestTopic) -> TopicImage | None:
    if asked.topic_id is not None:
        return image.topics_by_id.get(asked.topic_id)
    return image.topics.get(asked.name or "")


async def _create_missing(request: MetadataRequest, services: Services) -> dict[str, ErrorCode]:
    """Create the missing topics that are requested by name. Returns error codes by name."""
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
    # A transient error becomes a code on which clients retry: codes about the controller mean nothing to them here.
    return ErrorCode.LEADER_NOT_AVAILABLE if code in _PASSING else code


def _why_missing(name: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION


def _failed(name: str | None, asked: MetadataRequestTopic, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=asked.topic_id)


def _topic(
    image: MetadataImage, topic: TopicImage, *, with_operations: bool, leaders: ClientLeaders | None = None
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(image, topic, partition, leaders) for partition in topic.partitions],
        topic_authorized_operations=TOPIC_OPERATIONS if with_operations else NOT_ASKED_FOR,
    )


def _partition(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, leaders: ClientLeaders | None
) -> MetadataResponsePartition:
    key = TopicPartition(topic.topic_id, partition.partition)
    if leaders is None:
        leader, leader_epoch = client_leader(image, key, partition), partition.leader_epoch
    else:
        leader, leader_epoch = leaders.leader(image, key, partition)
    return MetadataResponsePartition(
        error_code=leader_error(leader),
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=offline_replicas(partition, image),
    )


def _response(
    image: MetadataImage, departed: Sequence[Node], topics: list[MetadataResponseTopic], with_cluster: bool
) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in client_nodes(image, departed)
        ],
        cluster_id=image.cluster_id,
        controller_id=client_controller(image),
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if with_cluster else NOT_ASKED_FOR,
    )
