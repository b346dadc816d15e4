"""The state of share partitions in this process: message in, message out (bmq/protocol/share_state_messages.py).

Errors are in the parts of the answers. Parts are carried out at the same time: what they append leaves in one batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from bmq.coordinator.config import ShareConfig, ShareRecordTerms
from bmq.coordinator.runtime.directory import ShardDirectory, Shards
from bmq.coordinator.runtime.inherited_shards import InheritedShards
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.coordinator.share_state.acquisition import Acquisition, Held
from bmq.coordinator.share_state.config import ShareStateConfig
from bmq.coordinator.share_state.dead_letters import DeadLetterContext, DeadLetterWriter
from bmq.coordinator.share_state.decisions import Ack, Span, Wanted
from bmq.coordinator.share_state.explanation import explained
from bmq.coordinator.share_state.group_figures import PartitionFigures
from bmq.coordinator.share_state.holder import holder_of
from bmq.coordinator.share_state.metrics import ShareStateMetrics
from bmq.coordinator.share_state.partition import ActiveMember, PartitionKey
from bmq.coordinator.share_state.shard import IsGone, ShareStateContext, ShareStateShard
from bmq.coordinator.topics import CurrentTopics
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog, TopicPartition
from bmq.protocol import share_state_messages as messages
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.group_terms_cache import NO_CONFIGS, GroupTermsCache
from bmq.protocol.request_context import RequestContext
from bmq.protocol.share_state_messages import state_key

AT_ONCE_MAX: Final = 200
"""Parts of one request that are carried out at the same time."""
_CLOSE_SNAPSHOT_RECORDS_MIN: Final = 1_000

T = TypeVar("T")


class _Named(Protocol):
    """A part of a request."""

    @property
    def topic_id(self) -> UUID: ...
    @property
    def partition(self) -> int: ...


class ShareStateCoordinator:
    """All share partitions whose shards this process owns. Create it inside its event loop.

    `share_config()`: the settings of share groups now in force. `is_gone`: whether a proxy's incarnation has ended.
    `dead_letters`: None where no group has any.
    """

    def __init__(
        self,
        shards: Shards,
        clock: Clock,
        config: ShareStateConfig,
        image: CurrentTopics,
        share_config: Callable[[], ShareConfig],
        is_gone: IsGone,
        dead_letters: DeadLetterWriter | None = None,
    ) -> None:
        self.metrics = ShareStateMetrics(self._figures)
        cached = GroupTermsCache(share_config, ShareConfig.record_terms)

        def terms(group_id: str) -> ShareRecordTerms:
            found = cached(group_id, image().group_configs.get(group_id, NO_CONFIGS))
            if found.dead_letters is None or (dead_letters is not None and dead_letters.is_enabled()):
                return found
            return found._replace(dead_letters=None)

        self._terms = terms
        letters = None
        if dead_letters is not None:
            letters = DeadLetterContext(
                dead_letters, lambda group_id: terms(group_id).dead_letters, self.metrics.dead_letters
            )
        context = ShareStateContext(clock, config, self.metrics, terms, is_gone, letters)

        def make(number: int, log: ReplayableLog, on_lost: Callable[[ShareStateShard], None]) -> ShareStateShard:
            return ShareStateShard(number, log, on_lost, context)

        self.directory = ShardDirectory(
            ShareStateShard.kind, shards, make, config, lambda number: self._inherited.lost(number)
        )
        self._inherited = InheritedShards(
            self.directory,
            shards,
            None,
            loads_max=config.shards_inheriting_max,
            retry_min_ms=config.load_retry_min_ms,
            retry_max_ms=config.load_retry_max_ms,
        )
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._waits = 0
        self._handlers: Final[dict[ApiKey, Callable[[Any], Awaitable[Any]]]] = {
            ApiKey.SHARE_ACQUIRE: self.acquire,
            ApiKey.SHARE_ACKNOWLEDGE_STATE: self.acknowledge,
            ApiKey.SHARE_RELEASE: self.release,
            ApiKey.SHARE_WAIT: self.wait,
            ApiKey.SHARE_INITIALIZE: self.initialize,
            ApiKey.SHARE_SUMMARY: self.summarize,
            ApiKey.SHARE_DELETE: self.delete,
            ApiKey.SHARE_ACTIVATE: self.activate,
            ApiKey.SHARE_EXPLAIN: self.explain,
        }

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """Answer one of the calls; nothing is raised for a peer's faults."""
        return await self._handlers[api_key](request)

    def here(self, request: messages.ShareAcquireRequest) -> ShareStateCoordinator:
        """Implements bmq.proxy.share.states.ShareStates where there is one process."""
        return self

    def place_of(self, group_id: str, topic_partition: TopicPartition) -> int:
        """The shard that answers for a share partition."""
        return self.directory.number_of(state_key(group_id, *topic_partition))

    async def prepare(self, key: str) -> None:
        """Load the key's shard. Raises KafkaError (FindCoordinator)."""
        await self.directory.get(key)

    def shards_changed(self) -> None:
        """This process may have taken over partitions: load their shards, whose locks, back-offs and dead letters go on."""
        self._inherited.changed()

    def resign(self, shard: int) -> None:
        """The shard's partition has another owner now."""
        self.directory.resign(shard)
        self._inherited.resigned(shard)

    def nodes_changed(self) -> None:
        """Call when nodes have come or gone: what members acquired through those is released."""
        for shard in tuple(self.directory.ready.values()):
            shard.nodes_changed()

    def after_stall(self) -> None:
        """This process was stalled: locks must not run out for acknowledgements that it could not read."""
        for shard in self.directory.ready.values():
            shard.after_stall()

    async def close(self) -> None:
        """Answer all waiting requests with an error and stop."""
        self._inherited.close()
        await self.directory.close(snapshot_records_min=_CLOSE_SNAPSHOT_RECORDS_MIN)

    # ---------------------------------------------------------------- members

    async def acquire(self, request: messages.ShareAcquireRequest) -> messages.ShareAcquireResponse:
        holder = holder_of(request.member_id, request.node_id, request.node_epoch, request.session)

        async def one(part: messages.AcquirePartition) -> messages.AcquiredPartition:
            shard, key = await self._place(request.group_id, part)
            asked = Acquisition(
                holder,
                Wanted(part.records_max, part.batch_size, request.mode),
                [Span(batch.first, batch.last) for batch in part.batches],
                [Span(span.first, span.last) for span in part.archive],
                part.log_start_offset,
                part.reset_offset,
                part.hash_offset,
                part.key_hashes,
            )
            got = await shard.acquire(key, asked)
            return messages.AcquiredPartition(
                topic_id=part.topic_id,
                partition=part.partition,
                start_offset=got.start_offset,
                next_offset=got.next_offset,
                version=got.version,
                lock_timeout_ms=got.lock_duration_ms,
                ranges=[
                    messages.AcquiredRange(first=given.first, last=given.last, delivery_count=given.delivery_count)
                    for given in got.given
                ],
            )

        parts = await _each(request.partitions, one, messages.AcquiredPartition)
        return messages.ShareAcquireResponse(partitions=parts)

    async def acknowledge(self, request: messages.ShareAcknowledgeRequest) -> messages.ShareAcknowledgeResponse:
        async def one(part: messages.AcknowledgePartition) -> messages.StatePart:
            shard, key = await self._place(request.group_id, part)
            acks = [Ack(batch.first, batch.last, batch.types) for batch in part.batches]
            await shard.acknowledge(key, acks, request.member_id)
            return _done(part)

        return messages.ShareAcknowledgeResponse(partitions=await _each(request.partitions, one, messages.StatePart))

    async def release(self, request: messages.ShareReleaseRequest) -> messages.ShareReleaseResponse:
        node = None if request.node_id == messages.ANY_NODE else (request.node_id, request.node_epoch)
        held = Held(request.member_id, node, request.session, request.locked_before_ms)

        async def one(part: messages.NamedPartition) -> messages.StatePart:
            shard, key = await self._place(request.group_id, part)
            await shard.release_member(key, held)
            return _done(part)

        return messages.ShareReleaseResponse(partitions=await _each(request.partitions, one, messages.StatePart))

    async def wait(self, request: messages.ShareWaitRequest) -> messages.ShareWaitResponse:
        watched: list[tuple[messages.WaitPartition, ShareStateShard, PartitionKey]] = []
        news: list[messages.AvailablePartition] = []
        for part in request.partitions:
            try:
                shard, key = await self._place(part.group_id, part)
                watched.append((part, shard, key))
            except KafkaError as error:
                news.append(_available(part, coordinator_error(error), 0))
        found = _seen(watched)
        if found or news or self._waits >= self._config.waits_max:
            return messages.ShareWaitResponse(partitions=[*news, *found])
        happened: asyncio.Future[None] = self._loop.create_future()
        self._waits += 1
        try:
            for _, shard, key in watched:
                shard.watch(key, happened)
            wait_ms = min(max(request.max_wait_ms, 0), self._config.wait_max_ms)
            await asyncio.wait({happened}, timeout=wait_ms / 1000)
        finally:
            self._waits -= 1
            for _, shard, key in watched:
                shard.unwatch(key, happened)
        return messages.ShareWaitResponse(partitions=_seen(watched))

    # ---------------------------------------------------------------- groups

    async def initialize(self, request: messages.ShareInitializeRequest) -> messages.ShareInitializeResponse:
        async def one(part: messages.InitializePartition) -> messages.StatePart:
            shard, key = await self._place(request.group_id, part)
            await shard.initialize(key, request.state_epoch, part.start_offset)
            return _done(part)

        return messages.ShareInitializeResponse(partitions=await _each(request.partitions, one, messages.StatePart))

    async def summarize(self, request: messages.ShareSummaryRequest) -> messages.ShareSummaryResponse:
        async def one(part: messages.NamedPartition) -> messages.PartitionSummary:
            shard, key = await self._place(request.group_id, part)
            await shard.prove()
            partition = shard.partitions.get(key)
            summary = messages.PartitionSummary(topic_id=part.topic_id, partition=part.partition)
            if partition is not None:
                summary.state_epoch = partition.state_epoch
                if partition.window is not None:
                    summary.start_offset = partition.window.start
                    summary.complete_count = partition.window.done
                    summary.window_end = partition.window.end
                    summary.locked_count = partition.window.locked
            return summary

        return messages.ShareSummaryResponse(partitions=await _each(request.partitions, one, messages.PartitionSummary))

    async def delete(self, request: messages.ShareDeleteRequest) -> messages.ShareDeleteResponse:
        async def one(part: messages.NamedPartition) -> messages.StatePart:
            shard, key = await self._place(request.group_id, part)
            await shard.delete(key)
            return _done(part)

        return messages.ShareDeleteResponse(partitions=await _each(request.partitions, one, messages.StatePart))

    async def activate(self, request: messages.ShareActivateRequest) -> messages.ShareActivateResponse:
        async def one(part: messages.ActivePartition) -> messages.StatePart:
            shard, key = await self._place(request.group_id, part)
            await shard.activate(key, ActiveMember(request.epoch, part.member_id))
            return _done(part)

        return messages.ShareActivateResponse(partitions=await _each(request.partitions, one, messages.StatePart))

    async def explain(self, request: messages.ShareExplainRequest) -> messages.ShareExplainResponse:
        limits = self._terms(request.group_id).limits

        async def one(part: messages.NamedPartition) -> messages.ExplainedPartition:
            try:
                shard, key = await self._place(request.group_id, part)
            except KafkaError as error:
                number = self.directory.number_of(state_key(request.group_id, part.topic_id, part.partition))
                why = self.directory.reason_of(number) or str(error)
                raise KafkaError(error.code, f"shard {number} of the state is not served: {why}") from error
            await shard.prove()
            failure = None if shard.dead_letters is None else shard.dead_letters.why(request.group_id)
            return explained(key, shard.partitions.get(key), limits, shard.now(), failure)

        parts = await _each(request.partitions, one, messages.ExplainedPartition)
        return messages.ShareExplainResponse(partitions=parts)

    # ---------------------------------------------------------------- inside

    async def _place(self, group_id: str, part: _Named) -> tuple[ShareStateShard, PartitionKey]:
        """Raises KafkaError."""
        key = state_key(group_id, part.topic_id, part.partition)
        shard = self.directory.find(key) or await self.directory.get(key)
        return shard, PartitionKey(group_id, part.topic_id, part.partition)

    def _figures(self) -> list[PartitionFigures]:
        now_ms = self._loop.time() * 1000
        return [
            PartitionFigures(
                partition.key.group_id,
                0 if partition.window is None else partition.window.locked,
                0 if partition.window is None else partition.window.holds.locks,
                0 if partition.window is None else partition.window.delayed,
                0 if partition.window is None else partition.window.archiving,
                0.0 if partition.oldest is None else max(0.0, now_ms - partition.oldest[1]) / 1000,
            )
            for shard in self.directory.ready.values()
            for partition in shard.partitions.values()
        ]


async def _each(parts: Sequence[Any], work: Callable[[Any], Awaitable[T]], refusal: Callable[..., T]) -> list[T]:
    """Each part's answer, or `refusal` with its error, in order."""

    async def answer(part: Any) -> T:
        try:
            return await work(part)
        except BmqError as error:
            code = coordinator_error(error)
            return refusal(
                topic_id=part.topic_id, partition=part.partition, error_code=code, error_message=str(error) or None
            )

    if len(parts) == 1:
        return [await answer(parts[0])]
    answers: list[T] = []
    for start in range(0, len(parts), AT_ONCE_MAX):
        answers += await asyncio.gather(*(answer(part) for part in parts[start : start + AT_ONCE_MAX]))
    return answers


def _done(part: _Named) -> messages.StatePart:
    return messages.StatePart(topic_id=part.topic_id, partition=part.partition)


def _available(part: messages.WaitPartition, code: ErrorCode, version: int) -> messages.AvailablePartition:
    return messages.AvailablePartition(
        group_id=part.group_id, topic_id=part.topic_id, partition=part.partition, error_code=code, version=version
    )


def _seen(
    watched: Sequence[tuple[messages.WaitPartition, ShareStateShard, PartitionKey]],
) -> list[messages.AvailablePartition]:
    """Those with news, and those whose shard is lost or that have no state any more."""
    found = []
    for part, shard, key in watched:
        if shard.is_lost:
            found.append(_available(part, ErrorCode.NOT_COORDINATOR, 0))
        elif key not in shard.partitions:
            found.append(_available(part, ErrorCode.INVALID_REQUEST, 0))
        elif shard.version_of(key) > part.version:
            found.append(_available(part, ErrorCode.NONE, shard.version_of(key)))
    return found
