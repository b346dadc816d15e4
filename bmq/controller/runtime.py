"""The active controller: replays the metadata log, lets the pure modules decide, writes their records, publishes images.

Requests that need a decision wait for their turn (decision_log.py); read-only ones do not. If this process is the whole
cluster, `start` registers its one node; in a cluster nodes register by themselves (cluster_nodes.py), follow the
metadata (metadata_stream.py), and their partitions are moved and balanced (partition_mover.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final
from uuid import UUID

import structlog

from bmq.controller.api.acl_api import AclApi
from bmq.controller.api.cluster_api import ClusterApi
from bmq.controller.api.config_api import ConfigApi
from bmq.controller.api.context import ControllerContext
from bmq.controller.api.node_api import NodeApi
from bmq.controller.api.operator_api import OperatorApi
from bmq.controller.api.placement_api import PlacementApi
from bmq.controller.api.producer_id_api import PRODUCER_IDS_PER_BLOCK, ProducerIdApi
from bmq.controller.api.quota_api import QuotaApi
from bmq.controller.api.token_api import TokenApi
from bmq.controller.api.topic_api import TopicApi
from bmq.controller.api.user_api import UserApi
from bmq.controller.cluster_nodes import ClusterNodes
from bmq.controller.config import ControllerConfig
from bmq.controller.decision import Decision
from bmq.controller.decision_log import ControllerGone, DecisionLog
from bmq.controller.lost_metadata import records_after_loss
from bmq.controller.metadata_quorum import MetadataFollowers
from bmq.controller.metadata_stream import MetadataStream
from bmq.controller.metrics import ControllerMetrics
from bmq.controller.node_registration import CONTROLLED_SHUTDOWN
from bmq.controller.partition_mover import PartitionMover
from bmq.controller.partition_reports import PartitionReports
from bmq.controller.replica_placement import leader_changes
from bmq.controller.security_level import security_level_records
from bmq.controller.topic_deletion import TopicDeletions
from bmq.controller.unknown_topics import report_unknown_topics, require_no_topics
from bmq.log.clock import Clock
from bmq.log.damage import end_damage, is_accepted
from bmq.log.names import partition_directory
from bmq.log.partition_log import ReplayableLog, TopicPartition
from bmq.log.store import SegmentStore
from bmq.metadata.broker_configs import BrokerConfigs, static_configs
from bmq.metadata.features import first_level, require_understood
from bmq.metadata.first_users import read_first_users
from bmq.metadata.history import StateChangeHistory
from bmq.metadata.image import METADATA_TOPIC_ID, MetadataImage, Node
from bmq.metadata.state import MetadataState, registration_record
from bmq.protocol.apis import ApiKey
from bmq.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    TopicFilesDeletedRecord,
    UserScramCredentialRecord,
)
from bmq.protocol.request_context import RequestContext, RequestMethod

__all__ = ["Controller", "ControllerGone"]

_log = structlog.get_logger("bmq.controller")

_FENCED: Final = 1


class Controller:
    """Implements bmq.proxy.services.Controller. Call `start` first, once; `close` stops the background work.

    `log`: the metadata log, owned by this node. `on_image(old, new)` is called with every new image, before the answers
    that depend on it leave; it must not raise. `epoch`: the controller epoch of its election in a cluster; None:
    this node is the only one and is registered by `start`.
    """

    def __init__(
        self,
        log: ReplayableLog,
        store: SegmentStore,
        node: Node,
        clock: Clock,
        rng: Random,
        config: ControllerConfig,
        on_image: Callable[[MetadataImage, MetadataImage], None],
        *,
        epoch: int | None = None,
    ) -> None:
        """Raises InvalidConfig when the settings have unknown broker configs or invalid values."""
        state = MetadataState(config.cluster_id, node.node_id, static_configs(node, config.broker_configs))
        self._decisions = decisions = DecisionLog(log, state, clock, config, self._image_changed)
        self._context = context = ControllerContext(decisions, PartitionReports(), node, clock, rng, config)
        self._on_image = on_image
        self._epoch = 0 if epoch is None else epoch
        self._store = store
        self._unknown_topics_check: asyncio.Task[None] | None = None
        self._is_cluster = epoch is not None
        self._deletions = TopicDeletions(store, config, self._forget_topic)
        self._stream = MetadataStream(decisions, node.node_id, self._epoch, config)
        self._nodes = ClusterNodes(decisions, context.decision_context, config, self._node_stops, self._is_handing_over)
        self._mover = PartitionMover(
            decisions, context.decision_context, context.reports, config, lambda: self._nodes.are_settled
        )
        followers = MetadataFollowers()
        self._topics = TopicApi(context)
        self._configs = ConfigApi(context)
        self._placement = PlacementApi(context, self._mover)
        self._cluster = ClusterApi(context, followers)
        self._acls = AclApi(context)
        self._users = UserApi(context)
        self._quotas = QuotaApi(context)
        self._tokens = TokenApi(context)
        self._handlers: Final = self._table()
        # For the proxy, besides `handle`.
        self.auto_create_topic: Final = self._topics.auto_create_topic
        producer_ids = ProducerIdApi(context)
        self.allocate_producer_ids: Final = producer_ids.allocate
        # For the listener between nodes.
        node_api = NodeApi(context, self._nodes, self._mover, self._stream, followers)
        self.register_node: Final = node_api.register_node
        self.heartbeat: Final = node_api.heartbeat
        self.report_partitions: Final = node_api.report_partitions
        self.metadata_fetch: Final = node_api.metadata_fetch
        self.allocate_producer_ids_for: Final = producer_ids.allocate_for_node
        self.node_gone: Final = self._nodes.gone
        self.after_stall: Final = self._nodes.after_stall
        # For operators: the ports of bmq.admin.ports.
        operators = OperatorApi(context, self._nodes, self._mover)
        self.set_draining: Final = operators.set_draining
        self.drain_plan: Final = operators.drain_plan
        self.rebalance_plan: Final = operators.rebalance_plan
        self.apply_moves: Final = operators.apply_moves
        self.loads: Final = operators.loads
        self.now_ms: Final = operators.now_ms
        self.keep_task: Final = operators.keep_task
        self.decide_with_id: Final = operators.decide_with_id
        self.end_offset: Final = operators.end_offset

    def _table(self) -> Mapping[ApiKey, RequestMethod]:
        """The method that answers each API of the CONTROLLER route."""
        return {
            ApiKey.CREATE_TOPICS: self._topics.create_topics,
            ApiKey.DELETE_TOPICS: self._topics.delete_topics,
            ApiKey.CREATE_PARTITIONS: self._topics.create_partitions,
            ApiKey.DESCRIBE_CONFIGS: self._configs.describe_configs,
            ApiKey.LIST_CONFIG_RESOURCES: self._configs.list_config_resources,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._configs.incremental_alter_configs,
            ApiKey.ALTER_CONFIGS: self._configs.alter_configs,
            ApiKey.ELECT_LEADERS: self._placement.elect_leaders,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self._placement.alter_partition_reassignments,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self._placement.list_partition_reassignments,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self._users.describe_users,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: self._users.alter_users,
            ApiKey.ALTER_CLIENT_QUOTAS: self._quotas.alter_client_quotas,
            ApiKey.CREATE_DELEGATION_TOKEN: self._tokens.create_token,
            ApiKey.RENEW_DELEGATION_TOKEN: self._tokens.renew_token,
            ApiKey.EXPIRE_DELEGATION_TOKEN: self._tokens.expire_token,
            ApiKey.CREATE_ACLS: self._acls.create_acls,
            ApiKey.DELETE_ACLS: self._acls.delete_acls,
            ApiKey.DESCRIBE_QUORUM: self._cluster.describe_quorum,
            ApiKey.UPDATE_FEATURES: self._cluster.update_features,
            ApiKey.UNREGISTER_BROKER: self._cluster.unregister_broker,
            ApiKey.UNREGISTER_CONTROLLER: self._cluster.unregister_controller,
            ApiKey.ADD_RAFT_VOTER: self._cluster.add_raft_voter,
            ApiKey.REMOVE_RAFT_VOTER: self._cluster.remove_raft_voter,
        }

    # --- life

    async def start(self, lost_records: int = 0) -> None:
        """Replay the log and take over: the only node begins its new incarnation, a cluster goes on as it was.

        `lost_records`: how many are known to be lost at the log's end, which an operator accepted.
        Raises KafkaError, StoreError when the log cannot be read or written, ImpossibleRecord, MalformedMessage or
        UnsupportedVersion when it cannot be understood, StateDamaged when it is not whole (rule 25).
        """
        decisions = self._decisions
        count = await decisions.replay()
        first_users: tuple[UserScramCredentialRecord, ...] = ()
        if decisions.applied_offset == 0:
            await require_no_topics(self._store)
            first_users = await read_first_users(self._store)
        require_understood(decisions.state.features)
        decisions.state.set_controller(self._context.node.node_id)
        first: Sequence[MetadataRecord] = (
            first_level(decisions.state.features) if self._is_cluster else self._incarnation()
        )
        if first_users:
            level = security_level_records(decisions.state.features, decisions.state.registrations)
            first = (*first, *level, *first_users)
        if lost_records or await self._is_lost_end_accepted():
            image = decisions.state.image_at(decisions.applied_offset)
            after_loss = records_after_loss(
                image, self._context.node.node_id, lost_records, producer_ids_per_block=PRODUCER_IDS_PER_BLOCK
            )
            first = (*after_loss, *first)
            _log.warning("metadata_end_lost", offset=decisions.applied_offset, lost_records=lost_records)
        await decisions.activate(first)
        if self._is_cluster:
            self._nodes.start()
            self._mover.start()
        self._tokens.start()
        self._unknown_topics_check = decisions.spawn(report_unknown_topics(self._store, lambda: self.image))
        _log.info(
            "controller_started",
            node_id=self._context.node.node_id,
            records_replayed=count,
            topics=len(self.image.topics),
            records_written=len(first),
            offset=self.image.offset,
        )

    async def close(self) -> None:
        """Wait for writes under way, save a snapshot if one is worth it, stop the background work."""
        self._stream.close()
        if self._unknown_topics_check is not None:
            self._unknown_topics_check.cancel()
        await self._tokens.close()
        await self._deletions.close()
        await self._mover.close()
        await self._nodes.close()
        await self._decisions.close()

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

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def gone(self) -> asyncio.Event:
        """Set once we find that this is no longer the active controller."""
        return self._decisions.gone

    @property
    def newer_epoch(self) -> int:
        """The highest controller epoch above ours that a node has seen; -1: none."""
        return self._stream.newer_epoch

    @property
    def metrics(self) -> ControllerMetrics:
        return self._decisions.metrics

    async def _is_lost_end_accepted(self) -> bool:
        """Whether an operator said that the log had records behind its present end, which nobody else may know of."""
        directory = partition_directory(TopicPartition(METADATA_TOPIC_ID, 0))
        return await is_accepted(self._store, end_damage(directory, self._decisions.applied_offset, ""))

    def _incarnation(self) -> Sequence[MetadataRecord]:
        """This node has restarted and no other lives: its partitions get new leader epochs, all at once."""
        state, offset = self._decisions.state, self._decisions.applied_offset
        live = {self._context.node.node_id: self._context.node}
        reason = f"node {self._context.node.node_id} was started"
        before = state.image_at(offset)
        return [
            registration_record(self._context.node, self._context.new_uuid(), offset),
            # No other node has a session with this controller yet; live nodes will register again.
            *(
                BrokerRegistrationChangeRecord(broker_id=node_id, fenced=_FENCED)
                for node_id, registration in sorted(state.registrations.items())
                if node_id not in live and not registration.fenced
            ),
            *leader_changes(
                before, live, self._context.node.node_id, reason=reason, now_ms=self._context.clock.now_ms()
            ),
        ]

    @property
    def history(self) -> StateChangeHistory:
        """Past and present leaders of each partition: since when, and why."""
        return self._decisions.state.history

    # --- in the background

    def _image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Tell all listeners. The records are durable and applied, so a failure here must not fail the request."""
        try:
            self._follow_image(old, new)
        except Exception:  # noqa: BLE001 any bug is answered or logged
            _log.exception("image_callback_failed", offset=new.offset)
            if self._is_cluster:
                self._decisions.gone.set()  # the next controller begins with the whole image

    def _follow_image(self, old: MetadataImage, new: MetadataImage) -> None:
        self._on_image(old, new)
        self._deletions.start(new.deleted_topics - old.deleted_topics)
        if new.topics is not old.topics:
            for topic_id in old.topics_by_id.keys() - new.topics_by_id.keys():
                self._context.reports.forget(topic_id)
        if not self._is_cluster or not self._decisions.is_active:
            return
        # New topics are placed on all live nodes, so those cut off from the store give theirs away again.
        is_any_away = new.topics is not old.topics and self._context.outages.is_any_away(new.nodes)
        if new.nodes is not old.nodes or is_any_away:
            self._mover.nodes_changed()

    def _is_handing_over(self, node_id: int) -> bool:
        return self._mover.is_handing_over(node_id)

    def _node_stops(self, node_id: int) -> None:
        self._mover.explain_drain(node_id, CONTROLLED_SHUTDOWN)

    async def _forget_topic(self, topic_id: UUID) -> None:
        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[None]:
            records = (TopicFilesDeletedRecord(topic_id=topic_id),) if topic_id in image.deleted_topics else ()
            return Decision(None, records)

        await self._decisions.decide(decide, self._context.config.internal_request_wait_max_ms)
