"""The controller's APIs about topics: CreateTopics, DeleteTopics, CreatePartitions; topics that are created by themselves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final
from uuid import UUID

import structlog

from bmq.controller.api.context import ControllerContext
from bmq.controller.decision import Decision
from bmq.controller.mutation_quotas import MutationCharge, MutationQuotas, uncharged
from bmq.controller.partition_counts import decide_create_partitions
from bmq.controller.replica_placement import owner_nodes
from bmq.controller.topics import NO_VALUE, decide_create_topics, decide_delete_topics
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import (
    INTERNAL_TOPIC_CONFIGS,
    INTERNAL_TOPICS,
    SHARE_STATE_TOPIC_NAME,
    TRANSACTIONS_TOPIC_NAME,
    MetadataImage,
)
from bmq.metadata.view_configs import VIEW_FILTER
from bmq.protocol.apis import ApiKey
from bmq.protocol.default_topic import default_topic
from bmq.protocol.delete_topics_versions import as_version_knows, with_topic_states
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.create_partitions_request import CreatePartitionsRequest
from bmq.protocol.messages.create_partitions_response import CreatePartitionsResponse
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreateTopicsResponse
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest
from bmq.protocol.messages.delete_topics_response import DeleteTopicsResponse
from bmq.protocol.request_context import RequestContext, by_itself, is_own
from bmq.protocol.turns import Pace, in_turns
from bmq.protocol.wire_turns import InTurns
from bmq.views.view_filter import load_parser

_log = structlog.get_logger("bmq.controller")

_LOGGED_PER_TURN_MAX: Final = 100


class TopicApi:
    """topics.py and partition_counts.py decide."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._auto_creations: dict[str, asyncio.Task[None]] = {}
        self._mutations = MutationQuotas(lambda: int(context.clock.elapsed_s() * 1_000))

    async def create_topics(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
        """CreateTopics 2-7. Versions before 5 have no room for the configs (KIP-525), before 7 none for the topic id."""
        charge = self._charge(ApiKey.CREATE_TOPICS, context)
        topic_ids, topics = list[UUID](), list[CreatableTopic]()
        async for some in in_turns(request.topics, context.turns):
            topic_ids += (self._context.new_uuid() for _ in some)
            topics += map(self._with_own_settings, some)
            if any(config.name == VIEW_FILTER for topic in some for config in topic.configs):
                await self._context.config.run_aside(load_parser)
        request = replace(request, topics=topics)

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[CreateTopicsResponse]]:
            return decide_create_topics.in_turns(
                image, request, broker, self._context.config.topic_limits, topic_ids, charge or uncharged
            )

        response = await self._context.decisions.answer(
            decide, request.timeout_ms, lambda response: response.topics, context.turns
        )
        response.throttle_time_ms = 0 if charge is None else charge.throttle_ms
        pace = Pace(_LOGGED_PER_TURN_MAX)
        for result in response.topics:
            if pace.is_over():
                await context.turns.next()
            if result.error_code != ErrorCode.NONE:
                result.topic_id, result.num_partitions, result.replication_factor = None, -1, -1
                result.configs = ()
            elif not request.validate_only:
                _log.info(
                    "topic_created", topic=result.name, partitions=result.num_partitions,
                    principal=context.principal, client_host=context.client_host, topic_id=str(result.topic_id),
                )  # fmt: skip
        return response

    async def delete_topics(self, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
        """DeleteTopics 1-6. Files are removed later, in the background."""
        charge = self._charge(ApiKey.DELETE_TOPICS, context)
        request = with_topic_states(request, context.api_version)

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[DeleteTopicsResponse]]:
            is_enabled = broker.value_of("delete.topic.enable") != "false"
            return decide_delete_topics.in_turns(image, request, is_enabled=is_enabled, charge=charge or uncharged)

        response = await self._context.decisions.answer(
            decide, request.timeout_ms, lambda response: response.responses, context.turns
        )
        response.throttle_time_ms = 0 if charge is None else charge.throttle_ms
        pace = Pace(_LOGGED_PER_TURN_MAX)
        for result in response.responses:
            if pace.is_over():
                await context.turns.next()
            if result.error_code == ErrorCode.NONE:
                _log.info(
                    "topic_deleted", topic=result.name, principal=context.principal, client_host=context.client_host,
                    topic_id=str(result.topic_id),
                )  # fmt: skip
        return as_version_knows(response, context.api_version)

    async def create_partitions(
        self, request: CreatePartitionsRequest, context: RequestContext
    ) -> CreatePartitionsResponse:
        """CreatePartitions 0-3."""
        charge = self._charge(ApiKey.CREATE_PARTITIONS, context)

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[CreatePartitionsResponse]]:
            return decide_create_partitions.in_turns(
                image, request, self._context.config.topic_limits, charge or uncharged
            )

        response = await self._context.decisions.answer(
            decide, request.timeout_ms, lambda response: response.results, context.turns
        )
        response.throttle_time_ms = 0 if charge is None else charge.throttle_ms
        return response

    def _charge(self, api_key: ApiKey, context: RequestContext) -> MutationCharge | None:
        """What the client is charged for the partitions it changes; None: nothing."""
        quotas = self._context.image.client_quotas
        if not quotas or is_own(context):
            return None
        return self._mutations.charge(quotas, api_key, context.api_version, context.principal, context.client_id)

    async def auto_create_topic(self, name: str) -> None:
        """Create a topic with the server's defaults; succeed when it exists. Internal topics get their own settings.

        Calls for one name share one creation. Raises KafkaError with the code and message CreateTopics would give.
        """
        if name in self._context.image.topics:
            return
        task = self._auto_creations.get(name)
        if task is None:
            task = self._context.decisions.spawn(self._auto_create(name))
            self._auto_creations[name] = task
            task.add_done_callback(lambda _: self._auto_creations.pop(name, None) and None)
        await asyncio.shield(task)

    async def _auto_create(self, name: str) -> None:
        topic = self._internal_topic(name) if name in INTERNAL_TOPICS else default_topic(name)
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=self._context.config.internal_request_wait_max_ms)
        result = (await self.create_topics(request, by_itself(ApiKey.CREATE_TOPICS))).topics[0]
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(ErrorCode(result.error_code), result.error_message or "")

    def _with_own_settings(self, topic: CreatableTopic) -> CreatableTopic:
        """An internal topic requested with defaults, as other nodes do, gets the settings of its kind."""
        has_defaults = topic.num_partitions == topic.replication_factor == NO_VALUE and not (
            topic.assignments or topic.configs
        )
        return self._internal_topic(topic.name) if topic.name in INTERNAL_TOPICS and has_defaults else topic

    def _internal_topic(self, name: str) -> CreatableTopic:
        """Compacted (but for share partitions), with smaller segments and as many replicas as wanted or as there are nodes: they hold no data."""
        prefix = INTERNAL_TOPIC_CONFIGS[name]
        segment_bytes = self._context.decisions.broker_configs.value_of(f"{prefix}.segment.bytes") or ""
        configs = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": segment_bytes}
        if name == TRANSACTIONS_TOPIC_NAME:
            configs |= {"compression.type": "uncompressed", "unclean.leader.election.enable": "false"}
        if name == SHARE_STATE_TOPIC_NAME:  # its updates build on each other; the owner's snapshots replace old ones
            configs |= {"cleanup.policy": "delete", "retention.ms": "-1"}
        min_insync = self._context.decisions.broker_configs.value_of(f"{prefix}.min.isr")
        if min_insync is not None:
            configs["min.insync.replicas"] = min_insync
        return CreatableTopic(
            name=name,
            num_partitions=self._context.decisions.broker_configs.number(f"{prefix}.num.partitions"),
            replication_factor=min(
                self._context.decisions.broker_configs.number(f"{prefix}.replication.factor"),
                max(len(owner_nodes(self._context.image.nodes)), 1),
            ),
            configs=[CreatableTopicConfig(name=config, value=value) for config, value in configs.items()],
        )
