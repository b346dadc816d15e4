"""ShareFetch and ShareAcknowledge (1-2): checks in Kafka's order, sessions, acknowledgements, records, answers.

Source: KIP-932, KIP-1222, Kafka's KafkaApis.handleShareFetchRequest and handleShareAcknowledgeRequest (4.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from bmq.aio.loop_turns import run_in_turns
from bmq.log.partition_log import TopicPartition
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import OTHER_LEADER, ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.hot_parts import LeaderHint
from bmq.protocol.messages.share_acknowledge_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from bmq.protocol.parts import Part
from bmq.protocol.turns import Pace, Turns
from bmq.proxy.access import TopicRights
from bmq.proxy.dispatch import EncodedPieces
from bmq.proxy.fetch_results import endpoints
from bmq.proxy.share.acknowledging import Acknowledged, AcknowledgingRequest, acknowledge
from bmq.proxy.share.fetch_job import Found, ShareFetchJob, Wanted
from bmq.proxy.share.fetch_response import ShareResult, empty_share_fetch, encode_share_fetch
from bmq.proxy.share.sessions import INITIAL_EPOCH, NO_TOPIC, SESSION_PARTITIONS_MAX, ShareScope, must_send_partition
from bmq.proxy.topic_views import client_leader
from bmq.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from bmq.metadata.image import MetadataImage
    from bmq.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
    from bmq.protocol.messages.share_fetch_request import ShareFetchRequest
    from bmq.protocol.request_context import Peer, RequestContext
    from bmq.proxy.services import Services
    from bmq.proxy.share.consumers import ShareConsumers
    from bmq.proxy.share.former_leaders import FormerLeaders

MEMBER_ID_CHARS_MAX: Final = 36
NO_LEADER: Final = LeaderHint(0, 0)


class ShareRequests:
    """Implements bmq.proxy.services.ShareHandler."""

    def __init__(self, consumers: ShareConsumers) -> None:
        self._consumers = consumers

    def leaders(self, connection: Peer | None) -> FormerLeaders | None:
        """Implements ShareHandler.leaders."""
        is_known = self._consumers.sessions.has_connection(cast(Hashable, connection))
        return self._consumers.leaders if is_known else None

    async def fetch(self, request: ShareFetchRequest, context: RequestContext, services: Services) -> EncodedPieces:
        """Implements ShareHandler.fetch. Raises KafkaError if the whole request is refused."""
        _check_member(ApiKey.SHARE_FETCH, request, context, services)
        if request.is_renew_ack and (
            request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
        ):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "a request that renews fetches nothing: its limits have to be 0"
            )
        return await _Fetch(self._consumers, request, context, services).answer()

    async def acknowledge(
        self, request: ShareAcknowledgeRequest, context: RequestContext, services: Services
    ) -> ShareAcknowledgeResponse:
        """Implements ShareHandler.acknowledge. Raises KafkaError if the whole request is refused."""
        _check_member(ApiKey.SHARE_ACKNOWLEDGE, request, context, services)
        consumers, image = self._consumers, services.controller.image
        assert request.group_id is not None and request.member_id is not None
        _, acknowledged = await _named_in(request.topics, context.turns)
        scope = consumers.sessions.acknowledge((request.group_id, request.member_id), request.share_session_epoch)
        if scope.error_code:
            raise KafkaError(scope.error_code)
        terms = consumers.terms(services, request.group_id)
        asked = AcknowledgingRequest(
            request.group_id,
            request.member_id,
            context.api_version,
            request.is_renew_ack,
            terms,
            _rights(ApiKey.SHARE_ACKNOWLEDGE, context, services),
            context.turns,
        )
        found = await acknowledge(consumers, image, asked, acknowledged)
        if scope.is_final and scope.session is not None:
            consumers.end(scope.session)
        topics: dict[Any, list[PartitionData]] = {}
        hinted: set[int] = set()
        pace = Pace()
        for topic_partition, outcome in found.items():
            if pace.is_over():
                await context.turns.next()
            if outcome.error_code:
                services.stats.note_error(ApiKey.SHARE_ACKNOWLEDGE, outcome.error_code)
            leader = _leader(image, topic_partition, outcome.error_code, hinted)
            topics.setdefault(topic_partition.topic_id, []).append(
                PartitionData(
                    partition_index=topic_partition.partition,
                    error_code=outcome.error_code,
                    error_message=outcome.message,
                    current_leader=LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch),
                )
            )
        return ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=terms.lock_timeout_ms,
            responses=[
                ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
            node_endpoints=[
                NodeEndpoint(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
                for one in endpoints(image, hinted)
            ],
        )


class _Fetch:
    """Answers one ShareFetch whose fields are valid."""

    def __init__(
        self, consumers: ShareConsumers, request: ShareFetchRequest, context: RequestContext, services: Services
    ) -> None:
        self._consumers = consumers
        self._request = request
        self._context = context
        self._services = services
        assert request.group_id is not None
        self._terms = consumers.terms(services, request.group_id)
        self._rights = _rights(ApiKey.SHARE_FETCH, context, services)
        self._turns = context.turns
        self._throttle_ms = 0

    async def answer(self) -> EncodedPieces:
        request, consumers = self._request, self._consumers
        named, acknowledged = await _named_in(request.topics, self._turns)
        forgotten = await _forgotten_in(request.forgotten_topics_data, self._turns)
        scope = self._scope(named, forgotten, has_acknowledgements=bool(acknowledged))
        if scope.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            await self._pause(request.max_wait_ms)
        if scope.error_code:
            raise KafkaError(scope.error_code)
        consumers.counts.fetches += 1
        if not acknowledged:
            found = {}
            job, errors = await self._fetch(scope)
        else:
            # Acknowledgements and acquisitions go to the shards at the same time. The acknowledgements are first: their task
            # begins in the next turn, before the appends of this turn are written.
            throttle = self._context.throttle
            fetch = self._fetch(scope)
            fetching = asyncio.ensure_future(fetch if throttle is None else throttle.drive(fetch))
            try:
                found = await self._acknowledge(acknowledged)
            except BaseException:
                fetching.cancel()
                raise
            job, errors = await fetching
        if scope.is_final and scope.session is not None:
            consumers.end(scope.session)
        return await self._encoded(scope, job, errors, found)

    def _scope(
        self,
        named: Sequence[TopicPartition],
        forgotten: Sequence[TopicPartition],
        *,
        has_acknowledgements: bool,
    ) -> ShareScope:
        request, sessions, peer = self._request, self._consumers.sessions, self._context.peer
        assert request.group_id is not None and request.member_id is not None
        connection = cast(Hashable, peer)
        is_watched = sessions.has_connection(connection)
        scope = sessions.fetch(
            (request.group_id, request.member_id),
            request.share_session_epoch,
            named,
            forgotten,
            has_acknowledgements=has_acknowledgements,
            connection=connection,
        )
        if request.share_session_epoch == INITIAL_EPOCH and not scope.error_code and not is_watched:
            self._consumers.watch(peer)
        if named and not scope.error_code:
            self._consumers.leaders.watch({one.topic_id for one in named})
        return scope

    async def _pause(self, wait_ms: int) -> None:
        shared = self._consumers.shared
        woken = shared.loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        wait_s = min(max(wait_ms, 0), shared.config.fetch_wait_ms_max) / 1000
        if not shared.is_stopping and len(shared.deadlines) < shared.config.fetch_waiting_max:
            shared.deadlines.add(wake, shared.loop.time() + wait_s)
            try:
                await woken
            finally:
                shared.deadlines.discard(wake)

    async def _acknowledge(self, named: Mapping[TopicPartition, Any]) -> dict[TopicPartition, Acknowledged]:
        request = self._request
        assert request.group_id is not None and request.member_id is not None
        asked = AcknowledgingRequest(
            request.group_id,
            request.member_id,
            self._context.api_version,
            request.is_renew_ack,
            self._terms,
            self._rights,
            self._turns,
        )
        return await acknowledge(self._consumers, self._services.controller.image, asked, named)

    async def _fetch(self, scope: ShareScope) -> tuple[ShareFetchJob | None, dict[TopicPartition, ErrorCode]]:
        request, image = self._request, self._services.controller.image
        errors: dict[TopicPartition, ErrorCode] = {}
        valid: list[TopicPartition] = []
        pace = Pace()
        for one in scope.partitions:
            if pace.is_over():
                await self._turns.next()
            code = self._refusal(image, one.topic_partition)
            if code:
                errors[one.topic_partition] = code
            else:
                valid.append(one.topic_partition)
        if request.is_renew_ack or scope.session is None or not valid:
            return None, errors
        max_bytes = request.max_bytes
        throttle = self._context.throttle
        if throttle is not None:
            self._throttle_ms = throttle.fetch_wait_ms()
            if self._throttle_ms:
                return None, errors
            max_bytes = min(max_bytes, throttle.fetch_bytes_max)
        wanted = Wanted(
            request.max_wait_ms,
            min(request.min_bytes, max_bytes),
            max_bytes,
            request.max_records,
            request.batch_size,
            request.share_acquire_mode,
        )
        job = ShareFetchJob(self._consumers, self._services, scope.session, valid, wanted, self._terms, self._turns)
        await job.run()
        self._consumers.counts.partitions += len(valid)
        self._consumers.counts.given_partitions += len(job.found)
        if throttle is not None and job.size_bytes:
            self._throttle_ms = throttle.fetched(job.size_bytes)
        return job, {**errors, **job.errors}

    def _refusal(self, image: MetadataImage, topic_partition: TopicPartition) -> ErrorCode:
        topic = image.topics_by_id.get(topic_partition.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if self._rights is not None and not self._rights.allow(topic.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topic.partition(topic_partition.partition) is None or topic.view is not None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # share groups do not read views
        return ErrorCode.NONE

    async def _encoded(
        self,
        scope: ShareScope,
        job: ShareFetchJob | None,
        errors: Mapping[TopicPartition, ErrorCode],
        acknowledged: dict[TopicPartition, Acknowledged],
    ) -> EncodedPieces:
        found: Mapping[TopicPartition, Found] = {} if job is None else job.found
        lock_timeout_ms = self._terms.lock_timeout_ms if job is None else job.lock_timeout_ms
        if not (found or errors or acknowledged or scope.is_opening or any(one.must_send for one in scope.partitions)):
            return EncodedPieces([empty_share_fetch(self._throttle_ms, lock_timeout_ms)])
        image, stats = self._services.controller.image, self._services.stats
        results: list[ShareResult] = []
        hinted: set[int] = set()
        unnamed = dict(acknowledged)
        pace = Pace()
        for one in scope.partitions:
            if pace.is_over():
                await self._turns.next()
            key = one.topic_partition
            code, records = errors.get(key, ErrorCode.NONE), found.get(key)
            is_sent = must_send_partition(scope, one, has_records=records is not None, has_error=bool(code))
            if is_sent or key in unnamed:
                outcome = unnamed.pop(key, None) or Acknowledged()
                results.append(_result(image, key, code, outcome, records, hinted))
        results += (_result(image, key, ErrorCode.NONE, outcome, None, hinted) for key, outcome in unnamed.items())
        for result in results:
            for sent_code in filter(None, (result.error_code, result.acknowledge_error_code)):
                stats.note_error(ApiKey.SHARE_FETCH, sent_code)
        encoding = encode_share_fetch(
            results,
            throttle_time_ms=self._throttle_ms,
            lock_timeout_ms=lock_timeout_ms,
            endpoints=endpoints(image, hinted),
        )
        pieces: list[Part] = list(await run_in_turns(encoding, self._turns))
        if job is not None and job.size_bytes:
            self._consumers.shared.budget.hold(pieces, job.size_bytes)
        return EncodedPieces(pieces)  # type: ignore[arg-type]


def _check_member(api_key: ApiKey, request: Any, context: RequestContext, services: Services) -> None:
    """Check the group and member ids, and the right over the group. Raises KafkaError."""
    if request.group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the group id is null")
    if services.access.is_on and not services.access.allows(
        context, api_key, Operation.READ, ResourceType.GROUP, request.group_id
    ):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.member_id or len(request.member_id) > MEMBER_ID_CHARS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the member id has to have 1 to {MEMBER_ID_CHARS_MAX} characters")


def _rights(api_key: ApiKey, context: RequestContext, services: Services) -> TopicRights | None:
    if not services.access.is_on:
        return None
    return TopicRights(services.access.topic_grants(context, Operation.READ, services.controller.image), api_key)


async def _named_in(
    topics: Sequence[Any], turns: Turns
) -> tuple[list[TopicPartition], dict[TopicPartition, Sequence[Any]]]:
    """(the partitions of a request, their acknowledgements by partition). Raises KafkaError INVALID_REQUEST.

    If a partition is named twice, its last acknowledgements count, as in Kafka.
    """
    named: list[TopicPartition] = []
    acknowledged: dict[TopicPartition, Sequence[Any]] = {}
    pace = Pace()
    for topic in topics:
        topic_id = topic.topic_id or NO_TOPIC
        if pace.is_over():
            await turns.next()
        for one in topic.partitions:
            key = TopicPartition(topic_id, one.partition_index)
            named.append(key)
            if one.acknowledgement_batches:
                acknowledged[key] = one.acknowledgement_batches
            if pace.is_over():
                await turns.next()
    if len(named) > SESSION_PARTITIONS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"more than {SESSION_PARTITIONS_MAX} partitions are named")
    return named, acknowledged


async def _forgotten_in(topics: Sequence[Any], turns: Turns) -> list[TopicPartition]:
    """The partitions that a request removes from its session. Raises KafkaError INVALID_REQUEST."""
    forgotten: list[TopicPartition] = []
    pace = Pace()
    for topic in topics:
        topic_id = topic.topic_id or NO_TOPIC
        if pace.is_over():
            await turns.next()
        for number in topic.partitions:
            forgotten.append(TopicPartition(topic_id, number))
            if pace.is_over():
                await turns.next()
    if len(forgotten) > SESSION_PARTITIONS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"more than {SESSION_PARTITIONS_MAX} partitions are forgotten")
    return forgotten


def _leader(image: MetadataImage, key: TopicPartition, code: int, hinted: set[int]) -> LeaderHint:
    partition = image.partition(*key) if code in OTHER_LEADER else None
    if partition is None:
        return NO_LEADER
    leader = client_leader(image, key, partition)
    hinted.add(leader)
    return LeaderHint(leader, partition.leader_epoch)


def _result(
    image: MetadataImage,
    key: TopicPartition,
    code: ErrorCode,
    outcome: Acknowledged,
    records: Found | None,
    hinted: set[int],
) -> ShareResult:
    leader = _leader(image, key, code or outcome.error_code, hinted)
    return ShareResult(
        key.topic_id,
        key.partition,
        code,
        outcome.error_code,
        leader,
        records.views if records is not None and not code else (),
        records.acquired if records is not None and not code else (),
        acknowledge_message=outcome.message,
    )
