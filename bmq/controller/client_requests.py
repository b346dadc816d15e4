"""Clients' requests to the active controller: topics, configs, owners, producer ids. Every change is decided in turn.

Pure modules decide, one for each kind of request; read-only requests do not wait for a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final
from uuid import UUID

import structlog

from bmq.controller.assignment import owner_nodes
from bmq.controller.config import ControllerConfig
from bmq.controller.config_alter import decide_alter_configs, decide_incremental_alter_configs
from bmq.controller.config_describe import describe_configs
from bmq.controller.config_list import list_config_resources
from bmq.controller.decision import Decision
from bmq.controller.decision_context import DecisionContext
from bmq.controller.decision_log import ControllerGone, DecisionLog
from bmq.controller.feature_updates import decide_update_features
from bmq.controller.leader_election import decide_elect_leaders
from bmq.controller.metadata_quorum import MetadataFollowers, MetadataLogState, describe_quorum
from bmq.controller.partition_counts import decide_create_partitions
from bmq.controller.partition_reports import PartitionReports
from bmq.controller.raft_voters import refuse_add_voter, refuse_remove_voter
from bmq.controller.reassignment import decide_alter_partition_reassignments, list_partition_reassignments
from bmq.controller.topics import NO_VALUE, decide_create_topics, decide_delete_topics
from bmq.controller.unregistration import decide_unregister_broker, decide_unregister_controller
from bmq.log.clock import Clock
from bmq.metadata.broker_configs import BrokerConfigs, static_configs
from bmq.metadata.image import (
    INTERNAL_TOPIC_CONFIGS,
    INTERNAL_TOPICS,
    METADATA_TOPIC_ID,
    TRANSACTIONS_TOPIC_NAME,
    MetadataImage,
    Node,
    PartitionImage,
)
from bmq.metadata.state import CLUSTER_WIDE
from bmq.protocol.apis import ApiKey
from bmq.protocol.delete_topics_versions import as_version_knows, with_topic_states
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from bmq.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from bmq.protocol.messages.alter_configs_request import AlterConfigsRequest
from bmq.protocol.messages.alter_configs_response import AlterConfigsResponse
from bmq.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from bmq.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from bmq.protocol.messages.create_partitions_request import CreatePartitionsRequest
from bmq.protocol.messages.create_partitions_response import CreatePartitionsResponse
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreateTopicsResponse
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest
from bmq.protocol.messages.delete_topics_response import DeleteTopicsResponse
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest
from bmq.protocol.messages.describe_configs_response import DescribeConfigsResponse
from bmq.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from bmq.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest
from bmq.protocol.messages.elect_leaders_response import ElectLeadersResponse
from bmq.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from bmq.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from bmq.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from bmq.protocol.messages.list_config_resources_response import ListConfigResourcesResponse
from bmq.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from bmq.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from bmq.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from bmq.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from bmq.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from bmq.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from bmq.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from bmq.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from bmq.protocol.messages.update_features_request import UpdateFeaturesRequest
from bmq.protocol.messages.update_features_response import UpdateFeaturesResponse
from bmq.protocol.metadata_records import ProducerIdsRecord
from bmq.protocol.refusals import refused
from bmq.protocol.request_context import RequestContext, RequestMethod, by_itself
from bmq.protocol.turns import Pace, in_turns
from bmq.protocol.wire_turns import InTurns

_log = structlog.get_logger("bmq.controller")

PRODUCER_IDS_PER_BLOCK: Final = 1_000
_LOGGED_PER_TURN_MAX: Final = 100
_KAFKAS_LEVELS: Final = {"warning": "WARN"}
"""By the name of the setting log_level, where Kafka's is another one."""
_RESERVED_IDS: Final = frozenset({UUID(int=0), METADATA_TOPIC_ID})


class ClientRequests:
    """The part of bmq.proxy.services.Controller for clients' requests; Controller adds the rest."""

    def __init__(
        self,
        decisions: DecisionLog,
        node: Node,
        clock: Clock,
        rng: Random,
        config: ControllerConfig,
    ) -> None:
        self._decisions = decisions
        self._node = node
        self._clock = clock
        self._rng = rng
        self._config = config
        self._reports = PartitionReports()
        self._followers = MetadataFollowers()
        self._auto_creations: dict[str, asyncio.Task[None]] = {}
        self._handlers: Final[Mapping[ApiKey, RequestMethod]] = {
            ApiKey.CREATE_TOPICS: self.create_topics,
            ApiKey.DELETE_TOPICS: self.delete_topics,
            ApiKey.CREATE_PARTITIONS: self.create_partitions,
            ApiKey.DESCRIBE_CONFIGS: self.describe_configs,
            ApiKey.LIST_CONFIG_RESOURCES: self.list_config_resources,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.incremental_alter_configs,
            ApiKey.ALTER_CONFIGS: self.alter_configs,
            ApiKey.ELECT_LEADERS: self.elect_leaders,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self.alter_partition_reassignments,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self.list_partition_reassignments,
            ApiKey.DESCRIBE_QUORUM: self.describe_quorum,
            ApiKey.UPDATE_FEATURES: self.update_features,
            ApiKey.UNREGISTER_BROKER: self.unregister_broker,
            ApiKey.UNREGISTER_CONTROLLER: self.unregister_controller,
            ApiKey.ADD_RAFT_VOTER: self.add_raft_voter,
            ApiKey.REMOVE_RAFT_VOTER: self.remove_raft_voter,
        }

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """Answer a request of the CONTROLLER route; errors are in the response.

        Raises ControllerGone: nothing was decided, or we cannot tell whether it was. Ask the next controller.
        """
        return await self._handlers[api_key](request, context)

    @property
    def image(self) -> MetadataImage:
        """The newest published image."""
        return self._decisions.image

    @property
    def broker_configs(self) -> BrokerConfigs:
        """The broker configs in force for this node now."""
        return self._decisions.broker_configs

    def _decision_context(self) -> DecisionContext:
        decisions = self._decisions
        return DecisionContext(
            decisions.image,
            decisions.state.registrations,
            decisions.state.features,
            decisions.applied_offset,
            self._reports.floor_of,
            self._is_in_use,
            self._clock.now_ms(),
        )

    def _is_in_use(self, topic_id: UUID, partition: PartitionImage) -> bool:
        return self._reports.is_in_use(topic_id, partition, asyncio.get_running_loop().time())

    async def create_topics(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
        """CreateTopics 2-7. Versions before 5 have no room for the configs (KIP-525), before 7 none for the topic id."""
        topic_ids, topics = list[UUID](), list[CreatableTopic]()
        async for some in in_turns(request.topics, context.turns):
            topic_ids += (self._new_uuid() for _ in some)
            topics += map(self._with_own_settings, some)
        request = replace(request, topics=topics)

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[CreateTopicsResponse]]:
            return decide_create_topics.in_turns(image, request, broker, self._config.topic_limits, topic_ids)

        response = await self._decisions.answer(
            decide, request.timeout_ms, lambda response: response.topics, context.turns
        )
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
        request = with_topic_states(request, context.api_version)

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[DeleteTopicsResponse]]:
            is_enabled = broker.value_of("delete.topic.enable") != "false"
            return decide_delete_topics.in_turns(image, request, is_enabled=is_enabled)

        response = await self._decisions.answer(
            decide, request.timeout_ms, lambda response: response.responses, context.turns
        )
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

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[CreatePartitionsResponse]]:
            return decide_create_partitions.in_turns(image, request, self._config.topic_limits)

        return await self._decisions.answer(
            decide, request.timeout_ms, lambda response: response.results, context.turns
        )

    async def describe_configs(
        self, request: DescribeConfigsRequest, context: RequestContext
    ) -> DescribeConfigsResponse:
        """DescribeConfigs 1-4: includes changes made a moment ago."""
        return describe_configs(
            self.image,
            request,
            self.broker_configs,
            self._node.node_id,
            {"root": _KAFKAS_LEVELS.get(self._config.log_level, self._config.log_level.upper())},
            self._other_brokers(),
        )

    async def list_config_resources(
        self, request: ListConfigResourcesRequest, context: RequestContext
    ) -> ListConfigResourcesResponse:
        """ListConfigResources 0-1."""
        return list_config_resources(self.image, request, context.api_version)

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, context: RequestContext
    ) -> IncrementalAlterConfigsResponse:
        """IncrementalAlterConfigs 0-1 (KIP-339)."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[IncrementalAlterConfigsResponse]]:
            return decide_incremental_alter_configs.in_turns(
                image, request, broker, self._node.node_id, self._other_brokers()
            )

        return await self._decisions.answer(
            decide, self._config.internal_request_wait_max_ms, lambda response: response.responses, context.turns
        )

    async def alter_configs(self, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
        """AlterConfigs 0-2: configs that are not named go back to their defaults."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[AlterConfigsResponse]]:
            return decide_alter_configs.in_turns(image, request, broker, self._node.node_id, self._other_brokers())

        return await self._decisions.answer(
            decide, self._config.internal_request_wait_max_ms, lambda response: response.responses, context.turns
        )

    async def elect_leaders(self, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
        """ElectLeaders 0-2 (KIP-460): an error for the whole request is in its error code and in every partition's."""
        try:
            return await self._decisions.answer(
                lambda image, broker: decide_elect_leaders.in_turns(
                    self._decision_context(), request, self._reports.is_offline
                ),
                request.timeout_ms,
                lambda response: (one for topic in response.replica_election_results for one in topic.partition_result),
                context.turns,
            )
        except ControllerGone:
            raise
        except KafkaError as error:
            response: ElectLeadersResponse = refused(ApiKey.ELECT_LEADERS, request, error.code, str(error))
            return response

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext
    ) -> AlterPartitionReassignmentsResponse:
        """AlterPartitionReassignments 0-1 (KIP-455)."""
        return await self._decisions.answer(
            lambda image, broker: decide_alter_partition_reassignments.in_turns(self._decision_context(), request),
            request.timeout_ms,
            lambda response: (one for topic in response.responses for one in topic.partitions),
            context.turns,
        )

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, context: RequestContext
    ) -> ListPartitionReassignmentsResponse:
        """ListPartitionReassignments 0: none is ever under way, since replicas hold no data."""
        return list_partition_reassignments(request)

    async def describe_quorum(self, request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
        """DescribeQuorum 0-2: the metadata log as its owner sees it. Raises ControllerGone."""
        self._decisions.require_active()
        log = self._decisions.log
        state = MetadataLogState(log.leader_epoch, log.high_watermark, log.log_end_offset, self._clock.now_ms())
        return describe_quorum(self.image, state, self._followers, request, context.api_version)

    async def update_features(self, request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
        """UpdateFeatures 0-2 (KIP-584, KIP-1022): all updates, or an error for the whole request."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[UpdateFeaturesResponse]:
            return decide_update_features(self._decision_context(), request, context.api_version, self._node.node_id)

        response = await self._decisions.decide(decide, request.timeout_ms)
        if not response.error_code and not request.validate_only:
            _log.info(
                "features_updated", principal=context.principal, client_host=context.client_host,
                levels={update.feature: update.max_version_level for update in request.feature_updates},
            )  # fmt: skip
        return response

    async def unregister_broker(
        self, request: UnregisterBrokerRequest, context: RequestContext
    ) -> UnregisterBrokerResponse:
        """UnregisterBroker 0."""
        response = await self._decisions.decide(
            lambda image, broker: decide_unregister_broker(self._decision_context(), request.broker_id),
            self._config.internal_request_wait_max_ms,
        )
        if not response.error_code:
            self._note_unregistered(request.broker_id, context)
        return response

    async def unregister_controller(
        self, request: UnregisterControllerRequest, context: RequestContext
    ) -> UnregisterControllerResponse:
        """UnregisterController 0."""
        response = await self._decisions.decide(
            lambda image, broker: decide_unregister_controller(
                self._decision_context(), request.controller_id, self._node.node_id
            ),
            self._config.internal_request_wait_max_ms,
        )
        if not response.error_code:
            self._note_unregistered(request.controller_id, context)
        return response

    @staticmethod
    def _note_unregistered(node_id: int, context: RequestContext) -> None:
        _log.info(
            "node_unregistered", node_id=node_id, principal=context.principal, client_host=context.client_host
        )  # fmt: skip

    async def add_raft_voter(self, request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse:
        """AddRaftVoter 0-1: refused."""
        return refuse_add_voter(request, self.image.cluster_id)

    async def remove_raft_voter(
        self, request: RemoveRaftVoterRequest, context: RequestContext
    ) -> RemoveRaftVoterResponse:
        """RemoveRaftVoter 0: refused."""
        return refuse_remove_voter(request, self.image.cluster_id)

    async def auto_create_topic(self, name: str) -> None:
        """Create a topic with the server's defaults; fine when it is there. Internal topics get their own settings.

        Calls for one name share one creation. Raises KafkaError with the code and message CreateTopics would give.
        """
        if name in self.image.topics:
            return
        task = self._auto_creations.get(name)
        if task is None:
            task = self._decisions.spawn(self._auto_create(name))
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

        return await self._decisions.decide(decide, self._config.internal_request_wait_max_ms)

    async def _auto_create(self, name: str) -> None:
        topic = self._internal_topic(name) if name in INTERNAL_TOPICS else _topic_with_defaults(name)
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=self._config.internal_request_wait_max_ms)
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
        """Compacted, with smaller segments and as many replicas as wanted or as there are nodes: they hold no data."""
        prefix = INTERNAL_TOPIC_CONFIGS[name]
        segment_bytes = self.broker_configs.value_of(f"{prefix}.segment.bytes") or ""
        configs = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": segment_bytes}
        if name == TRANSACTIONS_TOPIC_NAME:
            configs |= {"compression.type": "uncompressed", "unclean.leader.election.enable": "false"}
        min_insync = self.broker_configs.value_of(f"{prefix}.min.isr")
        if min_insync is not None:
            configs["min.insync.replicas"] = min_insync
        return CreatableTopic(
            name=name,
            num_partitions=self.broker_configs.number(f"{prefix}.num.partitions"),
            replication_factor=min(
                self.broker_configs.number(f"{prefix}.replication.factor"), max(len(owner_nodes(self.image.nodes)), 1)
            ),
            configs=[CreatableTopicConfig(name=config, value=value) for config, value in configs.items()],
        )

    def _other_brokers(self) -> dict[int, BrokerConfigs]:
        """Configs of the cluster's other nodes. Their own settings are assumed to equal ours."""
        image, own = self.image, self._node.node_id
        return {
            node_id: BrokerConfigs(
                image.broker_configs.get(str(node_id), {}),
                image.broker_configs.get(CLUSTER_WIDE, {}),
                static_configs(node, self._config.broker_configs),
            )
            for node_id, node in image.nodes.items()
            if node_id != own
        }

    def _new_uuid(self) -> UUID:
        """Random (version 4), never the id of a topic, or of a deleted one whose files still exist."""
        image = self.image
        while True:
            new = UUID(int=self._rng.getrandbits(128), version=4)
            if new not in _RESERVED_IDS and new not in image.topics_by_id and new not in image.deleted_topics:
                return new


def _topic_with_defaults(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=NO_VALUE, replication_factor=NO_VALUE)
