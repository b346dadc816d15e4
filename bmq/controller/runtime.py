"""The active controller: replays the metadata log, lets the pure modules decide, writes their records, publishes images.

One request decides at a time, against a state with everything decided before it: the turn ends when its records are
durable and applied, or refused. So a decision never rests on something that may still fail, and nothing above the
metadata log's high watermark is acted on, answered or published (rule 17). Requests that only ask do not wait for a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from random import Random
from typing import Any, Final, TypeVar
from uuid import UUID

import structlog

from bmq.controller.assignment import reign_changes
from bmq.controller.broker_configs import BrokerConfigs, static_configs
from bmq.controller.config import ControllerConfig
from bmq.controller.config_alter import decide_alter_configs, decide_incremental_alter_configs
from bmq.controller.config_describe import describe_configs
from bmq.controller.decision import Decision, refuse_all
from bmq.controller.image import INTERNAL_TOPICS, METADATA_TOPIC_ID, OFFSETS_TOPIC_NAME, MetadataImage, Node
from bmq.controller.metadata_state import MetadataState, registration_record
from bmq.controller.metrics import ControllerMetrics
from bmq.controller.partition_counts import decide_create_partitions
from bmq.controller.topic_deletion import TopicDeletions
from bmq.controller.topics import NO_VALUE, decide_create_topics, decide_delete_topics
from bmq.log.clock import Clock
from bmq.log.partition_log import PartitionLog
from bmq.log.state_log import StateLog
from bmq.log.store import SegmentStore
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.alter_configs_request import AlterConfigsRequest
from bmq.protocol.messages.alter_configs_response import AlterConfigsResponse
from bmq.protocol.messages.create_partitions_request import CreatePartitionsRequest
from bmq.protocol.messages.create_partitions_response import CreatePartitionsResponse
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreateTopicsResponse
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest
from bmq.protocol.messages.delete_topics_response import DeleteTopicsResponse
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest
from bmq.protocol.messages.describe_configs_response import DescribeConfigsResponse
from bmq.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from bmq.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from bmq.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    ProducerIdsRecord,
    TopicFilesDeletedRecord,
    decode_record,
    encode_record,
)

_log = structlog.get_logger("bmq.controller")
R = TypeVar("R")
Decide = Callable[[MetadataImage, BrokerConfigs], Decision[R]]

PRODUCER_IDS_PER_BLOCK: Final = 1_000
_RESERVED_IDS: Final = frozenset({UUID(int=0), METADATA_TOPIC_ID})
_FENCED: Final = 1


class ControllerGone(KafkaError):
    """The metadata log has another owner: this controller must not decide any more."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, "this node is not the active controller any more")


class Controller:
    """Implements bmq.proxy.services.Controller. `start` first, once; `close` stops what runs in the background.

    `log`: the metadata log, this node being its owner. `on_image(old, new)` is called with every new image, before the
    answers that rest on it leave; it must not raise.
    """

    def __init__(
        self,
        log: PartitionLog,
        store: SegmentStore,
        node: Node,
        clock: Clock,
        rng: Random,
        config: ControllerConfig,
        on_image: Callable[[MetadataImage, MetadataImage], None],
    ) -> None:
        """Raises InvalidConfig when the settings hold broker configs that do not exist or cannot have their values."""
        self._node = node
        self._rng = rng
        self._config = config
        self._on_image = on_image
        self._state_log = StateLog(log, clock)
        self._state = MetadataState(config.cluster_id, node.node_id, static_configs(node, config.broker_configs))
        self._image = MetadataImage(cluster_id=config.cluster_id)
        self._broker = self._state.broker_configs_of({})
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._is_active = False
        self._is_closed = False
        self._auto_creations: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._deletions = TopicDeletions(store, config, self._forget_topic)
        self.metrics = ControllerMetrics(lambda: self._image, lambda: self._is_active)

    # --- life

    async def start(self) -> None:
        """Replay the log and begin this node's new incarnation: its partitions get new leader epochs, all at once.

        Raises KafkaError, StoreError when the log cannot be read or written, ImpossibleRecord, MalformedMessage or
        UnsupportedVersion when it cannot be understood.
        """
        count = await self._state_log.replay(self._apply, self._state.replay_snapshot)
        self._state.set_controller(self._node.node_id)
        before = self._state.image_at(self._state_log.applied_offset)
        live = {self._node.node_id: self._node}
        records: list[MetadataRecord] = [
            registration_record(self._node, self._new_uuid(), self._state_log.applied_offset)
        ]
        # Nobody else has a session with this controller yet; whoever lives registers again.
        records.extend(
            BrokerRegistrationChangeRecord(broker_id=node_id, fenced=_FENCED)
            for node_id, registration in sorted(self._state.registrations.items())
            if node_id not in live and not registration.fenced
        )
        changes = reign_changes(before, live, self._node.node_id)
        await self._append([*records, *changes])
        self._is_active = True
        _log.info(
            "controller_started",
            node_id=self._node.node_id,
            records_replayed=count,
            topics=len(self._image.topics),
            new_leader_epochs=len(changes),
            offset=self._image.offset,
        )

    async def close(self) -> None:
        """Let what is being written finish, save a snapshot if one is worth it, stop the background work."""
        self._is_closed = True
        await self._deletions.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._config.close_wait_max_ms / 1000)
        if self._is_active and self._state_log.records_since_snapshot:
            await self._save_snapshot(force=True)
        self._is_active = False

    @property
    def image(self) -> MetadataImage:
        """The newest published image."""
        return self._image

    @property
    def broker_configs(self) -> BrokerConfigs:
        """What holds for this node now."""
        return self._broker

    # --- requests

    async def create_topics(self, request: CreateTopicsRequest, *, principal: str) -> CreateTopicsResponse:
        topic_ids = [self._new_uuid() for _ in request.topics]

        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[CreateTopicsResponse]:
            return decide_create_topics(image, request, broker, self._config.topic_limits, topic_ids)

        response = await self._answer(decide, request.timeout_ms, lambda response: response.topics)
        for result in response.topics:
            if result.error_code != ErrorCode.NONE:
                result.topic_id, result.num_partitions, result.replication_factor = None, -1, -1
                result.configs = ()
            elif not request.validate_only:
                _log.info(
                    "topic_created", topic=result.name, partitions=result.num_partitions, principal=principal,
                    topic_id=str(result.topic_id),
                )  # fmt: skip
        return response

    async def delete_topics(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[DeleteTopicsResponse]:
            is_enabled = broker.value_of("delete.topic.enable") != "false"
            return decide_delete_topics(image, request, is_enabled=is_enabled)

        response = await self._answer(decide, request.timeout_ms, lambda response: response.responses)
        for result in response.responses:
            if result.error_code == ErrorCode.NONE:
                _log.info("topic_deleted", topic=result.name, topic_id=str(result.topic_id))
        return response

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[CreatePartitionsResponse]:
            return decide_create_partitions(image, request, self._config.topic_limits)

        return await self._answer(decide, request.timeout_ms, lambda response: response.results)

    async def describe_configs(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        return describe_configs(
            self._image, request, self._broker, self._node.node_id, {"root": self._config.log_level.upper()}
        )

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[IncrementalAlterConfigsResponse]:
            return decide_incremental_alter_configs(image, request, broker, self._node.node_id)

        return await self._answer(
            decide, self._config.internal_request_wait_max_ms, lambda response: response.responses
        )

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[AlterConfigsResponse]:
            return decide_alter_configs(image, request, broker, self._node.node_id)

        return await self._answer(
            decide, self._config.internal_request_wait_max_ms, lambda response: response.responses
        )

    async def auto_create_topic(self, name: str) -> None:
        """Create a topic with the server's defaults; fine when it is there. Internal topics get their own settings.

        Calls for one name share one creation. Raises KafkaError with the code and message CreateTopics would give.
        """
        if name in self._image.topics:
            return
        task = self._auto_creations.get(name)
        if task is None:
            task = self._spawn(self._auto_create(name))
            self._auto_creations[name] = task
            task.add_done_callback(lambda _: self._auto_creations.pop(name, None) and None)
        await asyncio.shield(task)

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that was never given out before. Raises KafkaError."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[range]:
            first = image.next_producer_id
            last = first + PRODUCER_IDS_PER_BLOCK
            record = ProducerIdsRecord(broker_id=self._node.node_id, next_producer_id=last)
            return Decision(range(first, last), (record,))

        return await self._decide(decide, self._config.internal_request_wait_max_ms)

    async def _auto_create(self, name: str) -> None:
        topic = self._internal_topic(name) if name in INTERNAL_TOPICS else _topic_with_defaults(name)
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=self._config.internal_request_wait_max_ms)
        result = (await self.create_topics(request, principal="bmq")).topics[0]
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(ErrorCode(result.error_code), result.error_message or "")

    def _internal_topic(self, name: str) -> CreatableTopic:
        """Compacted, in smaller segments, on as many nodes as wanted or as there are: replicas hold no data."""
        prefix = "offsets.topic" if name == OFFSETS_TOPIC_NAME else "transaction.state.log"
        segment_bytes = self._broker.value_of("offsets.topic.segment.bytes") or ""
        configs = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": segment_bytes}
        return CreatableTopic(
            name=name,
            num_partitions=self._broker.number(f"{prefix}.num.partitions"),
            replication_factor=min(self._broker.number(f"{prefix}.replication.factor"), len(self._image.nodes)),
            configs=[CreatableTopicConfig(name=config, value=value) for config, value in configs.items()],
        )

    # --- deciding in turn

    async def _answer(self, decide: Decide[R], timeout_ms: int, results_of: Callable[[R], Iterable[Any]]) -> R:
        """Decide and write. When writing fails, whatever had succeeded carries that error instead."""
        decided: list[R] = []

        def remember(image: MetadataImage, broker: BrokerConfigs) -> Decision[R]:
            decision = decide(image, broker)
            decided.append(decision.response)
            return decision

        try:
            return await self._decide(remember, timeout_ms)
        except BmqError as error:
            # Without a turn there is no decision: what the request would have had says which parts were good.
            response = decided[-1] if decided else decide(self._image, self._broker).response
            refuse_all(results_of(response), error.code, str(error))
            return response

    async def _decide(self, decide: Decide[R], timeout_ms: int) -> R:
        """Decide when our turn comes; the answer, once its records are applied.

        Raises KafkaError: REQUEST_TIMED_OUT after `timeout_ms` (nothing is decided after that, but what was being
        written goes on), NOT_CONTROLLER, or the code of the failed write.
        """
        config = self._config
        if self._waiting >= config.requests_waiting_max:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too many requests wait for the controller")
        wait_s = min(max(timeout_ms, config.request_wait_min_ms), config.request_wait_max_ms) / 1000
        deadline = asyncio.get_running_loop().time() + wait_s
        self._waiting += 1
        task = self._spawn(self._take_turn(decide, deadline))
        try:
            return await asyncio.wait_for(asyncio.shield(task), wait_s)
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not done within {round(wait_s * 1000)} ms") from None

    async def _take_turn(self, decide: Decide[R], deadline: float) -> R:
        try:
            async with self._turn:
                if asyncio.get_running_loop().time() >= deadline:
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the controller was busy")
                self._require_active()
                decision = decide(self._image, self._broker)
                if decision.records:
                    await self._append(decision.records)
                return decision.response
        finally:
            self._waiting -= 1

    async def _append(self, records: Iterable[MetadataRecord]) -> None:
        """Write records as one batch, all or none, and publish what comes of them. Raises KafkaError."""
        values = [(b"", encode_record(record)) for record in records]
        try:
            await self._state_log.append(values)
        except BmqError as error:
            self.metrics.appends_failed += 1
            _log.warning("metadata_write_failed", error=str(error), code=error.code.name, records=len(values))
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._is_active = False
                raise ControllerGone from error
            if error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                self._publish()  # it is in the log, and so in the state
            raise
        self.metrics.records_written += len(values)
        self._publish()
        if self._state_log.is_snapshot_due:
            self._spawn(self._save_snapshot())

    def _apply(self, key: bytes | None, value: bytes | None) -> None:
        self._state.replay(decode_record(value or b""))

    def _publish(self) -> None:
        old = self._image
        new = self._state.image_at(self._state_log.applied_offset)
        if new is old:
            return
        self._image = new
        if new.broker_configs is not old.broker_configs:
            self._broker = self._state.broker_configs_of(new.broker_configs)
        self._on_image(old, new)
        self._deletions.start(new.deleted_topics - old.deleted_topics)

    def _require_active(self) -> None:
        if not self._is_active or self._is_closed:
            raise ControllerGone

    # --- in the background

    def _spawn(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        task: asyncio.Task[R] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Whoever waits still gets the exception; nobody may be waiting any more after a timeout.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _save_snapshot(self, *, force: bool = False) -> None:
        try:
            if await self._state_log.save_snapshot(self._state.snapshot, force=force):
                self.metrics.snapshots_written += 1
                _log.info("metadata_snapshot_saved", offset=self._state_log.applied_offset)
        except BmqError as error:
            _log.warning("metadata_snapshot_failed", error=str(error))

    async def _forget_topic(self, topic_id: UUID) -> None:
        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[None]:
            records = (TopicFilesDeletedRecord(topic_id=topic_id),) if topic_id in image.deleted_topics else ()
            return Decision(None, records)

        await self._decide(decide, self._config.internal_request_wait_max_ms)

    def _new_uuid(self) -> UUID:
        """Random (version 4), never one that a topic has or had while its files are still there."""
        image = self._image
        while True:
            new = UUID(int=self._rng.getrandbits(128), version=4)
            if new not in _RESERVED_IDS and new not in image.topics_by_id and new not in image.deleted_topics:
                return new


def _topic_with_defaults(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=NO_VALUE, replication_factor=NO_VALUE)
