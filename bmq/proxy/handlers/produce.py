"""Produce: appends each partition's batch to its log. A failure of one partition never fails another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bmq.log.partition_log import AppendResult, ProducedBatch, TopicPartition
from bmq.log.refused_sequences import BEHIND_A_REFUSED_ONE
from bmq.log.transactions import TransactionClaim, claim_of_produce
from bmq.metadata.image import INTERNAL_TOPICS, MetadataImage, TopicImage, ViewImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader
from bmq.protocol.error_codes import OTHER_LEADER, ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.hot_parts import LeaderHint, NodeEndpoint
from bmq.protocol.hot_produce import (
    Produce,
    ProducedTopic,
    ProduceResult,
    ProduceTopicResult,
    encode_produce_response,
    parse_produce,
    without_duplicates,
)
from bmq.protocol.record_batch import (
    is_zstd,
    leader_epoch_in,
    own_base_offset_of,
    parsed_header,
    transactional_producer_of,
)
from bmq.protocol.request_context import RequestContext, Throttle
from bmq.proxy.access import Access, TopicGrants, TopicRights, asking
from bmq.proxy.dispatch import handles_hot
from bmq.proxy.lanes.stamping import lane_for, stamp
from bmq.proxy.reply import Reply
from bmq.proxy.services import Services
from bmq.proxy.topic_views import client_leader
from bmq.security.acls import Operation, ResourceType

_ZSTD_FROM: Final = 7
"""The first version of Produce with which clients may use zstd (KIP-110)."""
_UNSUPPORTED_ZSTD: Final = AppendResult(
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message=f"zstd is not for Produce requests before version {_ZSTD_FROM}"
)
_ANSWERS_NOT_TAKEN: Final = AppendResult(
    ErrorCode.NOT_ENOUGH_REPLICAS, message="this node does not know yet that the topic takes answers; send them again"
)
_WITHOUT_TRANSACTIONAL_ID: Final = AppendResult(
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message="a transactional record batch without a transactional id"
)
_ID_NOT_ALLOWED: Final = AppendResult(
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message="Transactional Id authorization failed."
)
_NOT_ALLOWED: Final = AppendResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED, message="Topic authorization failed.")
_SENT_WITHIN: Final = 0.8
_ADMIN_CLIENT_ID: Final = "__admin_client"
_TIMED_OUT: Final = AppendResult(
    ErrorCode.REQUEST_TIMED_OUT, message="the records were not durable within the request's timeout"
)

_Rights = TopicGrants | TopicRights | None


@handles_hot(ApiKey.PRODUCE)
def produce(frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, reply: Reply) -> None:
    """Answer a Produce. Source: ProduceRequest.json; KIP-98 (idempotence), KIP-516 (topic ids), KIP-951 (leaders), KIP-890."""
    request = parse_produce(frame, header.body_position, header.api_version)
    if (topics := without_duplicates(request.topics)) is not request.topics:
        request = request._replace(topics=topics)
    refusal, access = _refusal(request), services.access
    claim = None
    if request.transactional_id is not None:
        claim = _claim_of(request.transactional_id, request, header.api_version, services)
        is_denied = access.is_on and not _may_be_transactional(request, request.transactional_id, context, access)
        refusal = _ID_NOT_ALLOWED if is_denied else refusal
    pending = _PendingProduce(header, request, claim, services, reply, context.throttle)
    image, unknown = services.controller.image, services.refused_unknown
    is_before_zstd = header.api_version < _ZSTD_FROM
    # A produce forwarded by another node was checked there.
    is_between_nodes = services.is_between_nodes
    rights: _Rights = access.topic_grants(context, Operation.WRITE, image) if access.is_on else None
    may_write_internal = is_between_nodes or context.client_id == _ADMIN_CLIENT_ID
    index = -1
    for produced in request.topics:
        topic, code = _topic_of(produced, image, may_write_internal)
        topic_refusal, lane, append = _rules_of(topic, refusal, context, services)
        if rights is not None and (produced.name if topic is None else topic.name) not in rights.names:
            rights = asking(rights, ApiKey.PRODUCE)
            if not rights.allow(_name_of(produced, image)):
                topic_refusal = refusal or _NOT_ALLOWED
        for partition, records in produced.partitions:
            index += 1
            if topic_refusal is not None:
                pending.put(index, topic_refusal)
                continue
            if topic is None or not 0 <= partition < len(topic.partitions):
                # The topic may become known between this batch and later ones in flight, which must not overtake it.
                code = code if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if records:
                    unknown.add((produced.name or produced.topic_id, partition), records, pending.arrived_s, code)
                pending.put(index, AppendResult(code))
                continue
            if not records:
                pending.put(index, AppendResult(ErrorCode.INVALID_RECORD, message="no records"))
                continue
            head = parsed_header(records)
            batch = ProducedBatch(pending, TopicPartition(topic.topic_id, partition), records, head, index)
            if is_between_nodes:
                # The batch may come from a former owner, which has written a base offset into it.
                batch.leader_epoch = leader_epoch_in(records) if head is None else head[2]
            else:
                base_offset = own_base_offset_of(records) if head is None else head[0]
                if base_offset:
                    pending.refuse_base_offset(base_offset, batch)
                    continue
            refused = None if lane is None else stamp(batch, lane)
            refused = _UNSUPPORTED_ZSTD if is_before_zstd and is_zstd(records) else refused
            if refused is not None:
                batch.complete(refused)
            elif unknown.entries and unknown.is_passed_by(
                (produced.name or produced.topic_id, partition), records, pending.arrived_s
            ):
                batch.complete(BEHIND_A_REFUSED_ONE)
            else:
                append(batch)
    pending.all_begun()


def _rules_of(
    topic: TopicImage | None, refusal: AppendResult | None, context: RequestContext, services: Services
) -> tuple[AppendResult | None, str | None, Callable[[ProducedBatch], None]]:
    """(why the topic takes no batch, the lane that its batches get, what takes them). `refusal`: that of the whole request."""
    append: Callable[[ProducedBatch], None] = services.appender.append
    lane: str | None = None
    if topic is not None:
        config = topic.log_config
        if topic.view is not None and refusal is None:
            refusal = _refusal_of_view(topic, topic.view)
        if config.lane_producers and not services.is_between_nodes:
            lane = lane_for(topic, context)
        if config.takes_answers:
            append = _append_of_answers(context, services)
    return refusal, lane, append


def _append_of_answers(context: RequestContext, services: Services) -> Callable[[ProducedBatch], None]:
    """What takes batches of answers to checks of transactions."""
    answers = services.answers
    if answers is None:  # on the listener between nodes: the client's node did not know yet that answers are taken
        return lambda batch: batch.complete(_ANSWERS_NOT_TAKEN)
    return lambda batch: answers.take(batch, context, services.access)


def _refusal_of_view(topic: TopicImage, view: ViewImage) -> AppendResult:
    why = f"{topic.name} is a view of {view.base_name}, and cannot be written"
    return AppendResult(ErrorCode.POLICY_VIOLATION, message=why)


def _may_be_transactional(request: Produce, transactional_id: str, context: RequestContext, access: Access) -> bool:
    """Whether the client may use its transactional id. (Transactional records without an id are refused elsewhere.)"""
    is_transactional = any(
        records and transactional_producer_of(records) is not None
        for topic in request.topics
        for _, records in topic.partitions
    )
    return not is_transactional or access.allows(
        context, ApiKey.PRODUCE, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )


def _refusal(request: Produce) -> AppendResult | None:
    """The result that refuses all partitions; None if the request is valid. Transactional records come first, as in Kafka."""
    refusal = _refusal_of_transaction(request)
    if refusal is None and request.acks not in (-1, 0, 1):
        return AppendResult(ErrorCode.INVALID_REQUIRED_ACKS, message=f"acks {request.acks} is not -1, 0 or 1")
    return refusal


def _refusal_of_transaction(request: Produce) -> AppendResult | None:
    if request.transactional_id is None:
        for topic in request.topics:
            for _, records in topic.partitions:
                if records and transactional_producer_of(records) is not None:
                    return _WITHOUT_TRANSACTIONAL_ID
        return None
    producers = {
        transactional_producer_of(records) for topic in request.topics for _, records in topic.partitions if records
    } - {None}
    if len(producers) > 1:
        return AppendResult(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, message="transactional records of more than one producer id"
        )
    if producers and not request.transactional_id:
        return AppendResult(ErrorCode.INVALID_REQUEST, message="the transactional id is empty")
    return None


def _claim_of(transactional_id: str, request: Produce, version: int, services: Services) -> TransactionClaim:
    # A forwarded produce has a version of its own, and the client's version as a field.
    is_forwarded = services.is_between_nodes and request.client_version >= 0
    return claim_of_produce(transactional_id, request.client_version if is_forwarded else version)


def _topic_of(
    produced: ProducedTopic, image: MetadataImage, may_write_internal: bool
) -> tuple[TopicImage | None, ErrorCode]:
    if produced.name is None:
        topic = image.topics_by_id.get(produced.topic_id) if produced.topic_id is not None else None
        code = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = image.topics.get(produced.name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is not None and topic.name in INTERNAL_TOPICS and not may_write_internal:
        return None, ErrorCode.INVALID_TOPIC_EXCEPTION
    return topic, code


def _name_of(produced: ProducedTopic, image: MetadataImage) -> str | None:
    """The topic's name, also of one that `_topic_of` hides; None if no topic has the id."""
    if produced.name is not None:
        return produced.name
    topic = None if produced.topic_id is None else image.topics_by_id.get(produced.topic_id)
    return None if topic is None else topic.name


class _PendingProduce:
    """Collects one request's results, and answers when all have come or the timeout has passed.

    It is the AppendRequest of the request's batches.
    """

    __slots__ = (
        "_header",
        "_left",
        "_reply",
        "_request",
        "_results",
        "_services",
        "_starts",
        "_throttle",
        "arrived_s",
        "claim",
        "deadline_s",
        "is_acks_all",
        "is_answered",
        "is_internal",
        "send_until_s",
    )

    def __init__(
        self,
        header: RequestHeader,
        request: Produce,
        claim: TransactionClaim | None,
        services: Services,
        reply: Reply,
        throttle: Throttle | None,
    ) -> None:
        self._header = header
        self._throttle = throttle
        self._request = request
        self._services = services
        self._reply = reply
        count = sum([len(topic.partitions) for topic in request.topics])
        self._results: list[AppendResult | None] = [None] * count
        self._starts: tuple[asyncio.Task[None], ...] = ()
        self._left = count + 1  # one more than appends until all_begun: an append may finish before the next begins
        self.is_acks_all = request.acks == -1
        self.is_answered = request.acks != 0
        self.is_internal = False
        self.claim = claim
        self.arrived_s = now_s = services.loop.time()
        timeout_s = max(request.timeout_ms, 0) / 1000
        self.deadline_s = now_s + timeout_s
        # Stock clients give up after exactly this timeout, counted from when they sent the request. A batch sent to its
        # owner at the last moment would arrive after the client's retry.
        self.send_until_s = now_s + timeout_s * _SENT_WITHIN

    def is_wanted(self) -> bool:
        """Implements AppendRequest.is_wanted: a client that has disconnected sends its records again, except with acks=0."""
        return self._request.acks == 0 or not self._reply.is_done

    def refuse_base_offset(self, base_offset: int, batch: ProducedBatch) -> None:
        """Refuse a batch whose base offset is not 0. Starts an idle partition, because the answer has the log's start offset."""
        key, partitions = batch.topic_partition, self._services.partitions
        message = f"the base offset of a produced record batch is 0, not {base_offset}"
        log = partitions.ready(key)
        if log is not None:
            batch.complete(
                AppendResult(ErrorCode.INVALID_RECORD, log_start_offset=log.log_start_offset, message=message)
            )
            return

        async def refuse() -> None:
            log_start_offset = -1
            with suppress(BmqError):
                log_start_offset = (await partitions.leader_of(key)).log_start_offset
            batch.complete(AppendResult(ErrorCode.INVALID_RECORD, log_start_offset=log_start_offset, message=message))

        self._starts += (self._services.loop.create_task(refuse()),)

    def all_begun(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._answer()
        else:
            self._services.produce_deadlines.add(self)

    def answered(self, batch: ProducedBatch, result: AppendResult) -> None:
        """Implements Receiver.answered."""
        self.put(batch.index, result)

    def put(self, index: int, result: AppendResult) -> None:
        """Set the result of the partition at this place of the request. A late result is ignored."""
        if self._left and self._results[index] is None:
            self._results[index] = result
            self._left -= 1
            if self._left == 0:
                self._services.produce_deadlines.discard(self)
                self._answer()

    def expire(self) -> None:
        self._services.produce_deadlines.discard(self)
        for start in self._starts:
            start.cancel()
        self._left = 0
        self._results = [_TIMED_OUT if result is None else result for result in self._results]
        self._answer()

    def _answer(self) -> None:
        stats = self._services.stats
        endpoints: dict[int, NodeEndpoint] = {}
        topics = []
        has_failed = False
        results = iter(self._results)
        for topic in self._request.topics:
            answers = []
            for partition, _ in topic.partitions:
                result = next(results)
                assert result is not None
                hint = None
                if result.error_code:
                    has_failed = True
                    stats.note_error(ApiKey.PRODUCE, result.error_code)
                    hint = self._hint(topic, partition, result.error_code, endpoints)
                answers.append(
                    ProduceResult(
                        partition,
                        result.error_code,
                        result.base_offset,
                        result.log_append_time_ms,
                        result.log_start_offset,
                        result.message,
                        result.record_errors,
                        hint,
                    )
                )
            topics.append(ProduceTopicResult(topic.name, topic.topic_id, answers))
        throttle_time_ms = 0 if self._throttle is None else self._throttle.produced()
        if self._request.acks == 0:
            # With acks=0 there is no answer, so the connection is closed to show the producer that the batch failed.
            self._reply(None if has_failed else ())
            return
        header = self._header
        self._reply(
            (
                encode_produce_response(
                    header.api_version,
                    header.correlation_id,
                    topics,
                    throttle_time_ms=throttle_time_ms,
                    node_endpoints=tuple(endpoints.values()),
                ),
            )
        )

    def _hint(
        self, topic: ProducedTopic, partition: int, code: ErrorCode, endpoints: dict[int, NodeEndpoint]
    ) -> LeaderHint | None:
        if code not in OTHER_LEADER:
            return None
        image = self._services.controller.image
        found = image.topics.get(topic.name) if topic.name is not None else image.topics_by_id.get(topic.topic_id)  # type: ignore[arg-type]
        leader = None if found is None else found.partition(partition)
        if found is None or leader is None:
            return None
        node_id = client_leader(image, TopicPartition(found.topic_id, partition), leader)
        node = image.nodes.get(node_id)
        if node is not None:
            endpoints[node.node_id] = NodeEndpoint(node.node_id, node.host, node.port, node.rack)
        return LeaderHint(node_id, leader.leader_epoch)
