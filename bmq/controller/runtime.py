"""The active controller: replays the metadata log, lets the pure modules decide, writes their records, publishes images.

Requests that need a decision wait for their turn (decision_log.py); read-only ones do not. If this process is the whole
cluster, `start` registers its one node; in a cluster nodes register by themselves (cluster_nodes.py), follow the
metadata (metadata_stream.py), and their partitions are moved and balanced (partition_mover.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final, TypeVar
from uuid import UUID

import structlog

from bmq.controller.assignment import leader_changes
from bmq.controller.balancer import equalize
from bmq.controller.client_requests import ClientRequests
from bmq.controller.cluster_nodes import ClusterNodes
from bmq.controller.config import ControllerConfig
from bmq.controller.decision import Decision
from bmq.controller.decision_log import ControllerGone, DecisionLog
from bmq.controller.metadata_stream import MetadataStream
from bmq.controller.metrics import ControllerMetrics
from bmq.controller.moves import Move, drain_moves
from bmq.controller.node_registration import CONTROLLED_SHUTDOWN
from bmq.controller.node_sessions import Peer
from bmq.controller.partition_mover import PartitionMover
from bmq.controller.partition_reports import FENCED, NodeLoad
from bmq.controller.topic_deletion import TopicDeletions
from bmq.controller.unknown_topics import report_unknown_topics, require_no_topics
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog
from bmq.log.store import SegmentStore
from bmq.metadata.broker_configs import BrokerConfigs, static_configs
from bmq.metadata.features import first_level, require_understood
from bmq.metadata.history import StateChangeHistory
from bmq.metadata.image import MetadataImage, Node
from bmq.metadata.state import MetadataState, registration_record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.internal_messages import (
    MetadataFetchRequest,
    MetadataFetchResponse,
    ReportPartitionsRequest,
    ReportPartitionsResponse,
)
from bmq.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from bmq.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from bmq.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from bmq.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from bmq.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from bmq.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from bmq.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from bmq.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest
from bmq.protocol.messages.elect_leaders_response import ElectLeadersResponse
from bmq.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    TopicFilesDeletedRecord,
)
from bmq.protocol.request_context import RequestContext

__all__ = ["Controller", "ControllerGone"]

_log = structlog.get_logger("bmq.controller")
R = TypeVar("R")

_FENCED: Final = 1


class Controller(ClientRequests):
    """Implements bmq.proxy.services.Controller. Call `start` first, once; `close` stops the background work.

    `log`: the metadata log, owned by this node. `on_image(old, new)` is called with every new image, before the answers
    that depend on it leave; it must not raise. `epoch`: the controller epoch of its election. Without `is_cluster` this
    node is the only one and is registered by `start`.
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
        epoch: int = 0,
        is_cluster: bool = False,
    ) -> None:
        """Raises InvalidConfig when the settings have unknown broker configs or invalid values."""
        state = MetadataState(config.cluster_id, node.node_id, static_configs(node, config.broker_configs))
        decisions = DecisionLog(log, state, clock, config, self._image_changed)
        super().__init__(decisions, node, clock, rng, config)
        self._on_image = on_image
        self._epoch = epoch
        self._store = store
        self._looking: asyncio.Task[None] | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._is_cluster = is_cluster
        self._deletions = TopicDeletions(store, config, self._forget_topic)
        self._stream = MetadataStream(decisions, node.node_id, epoch, config)
        self._nodes = ClusterNodes(decisions, self._decision_context, config, self._node_stops, self._is_handing_over)
        self._mover = PartitionMover(
            decisions, self._decision_context, self._reports, config, lambda: self._nodes.are_settled
        )

    # --- life

    async def start(self) -> None:
        """Replay the log and take over: the only node begins its new incarnation, a cluster goes on as it was.

        Raises KafkaError, StoreError when the log cannot be read or written, ImpossibleRecord, MalformedMessage or
        UnsupportedVersion when it cannot be understood, StateDamaged when it is not whole (rule 25).
        """
        decisions = self._decisions
        count = await decisions.replay()
        if decisions.applied_offset == 0:
            await require_no_topics(self._store)
        require_understood(decisions.state.features)
        decisions.state.set_controller(self._node.node_id)
        first = first_level(decisions.state.features) if self._is_cluster else self._incarnation()
        await decisions.activate(first)
        if self._is_cluster:
            self._nodes.start()
            self._mover.start()
        self._looking = decisions.spawn(report_unknown_topics(self._store, lambda: self.image))
        _log.info(
            "controller_started",
            node_id=self._node.node_id,
            records_replayed=count,
            topics=len(self.image.topics),
            records_written=len(first),
            offset=self.image.offset,
        )

    async def close(self) -> None:
        """Wait for writes under way, save a snapshot if one is worth it, stop the background work."""
        self._stream.close()
        if self._looking is not None:
            self._looking.cancel()
        await self._deletions.close()
        await self._mover.close()
        await self._nodes.close()
        await self._decisions.close()

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

    def _incarnation(self) -> Sequence[MetadataRecord]:
        """This node has restarted and no other lives: its partitions get new leader epochs, all at once."""
        state, offset = self._decisions.state, self._decisions.applied_offset
        live = {self._node.node_id: self._node}
        reason = f"node {self._node.node_id} was started"
        before = state.image_at(offset)
        return [
            registration_record(self._node, self._new_uuid(), offset),
            # No other node has a session with this controller yet; live nodes will register again.
            *(
                BrokerRegistrationChangeRecord(broker_id=node_id, fenced=_FENCED)
                for node_id, registration in sorted(state.registrations.items())
                if node_id not in live and not registration.fenced
            ),
            *leader_changes(before, live, self._node.node_id, reason=reason, now_ms=self._clock.now_ms()),
        ]

    # --- nodes

    async def register_node(self, request: BrokerRegistrationRequest, peer: Peer | None) -> BrokerRegistrationResponse:
        """BrokerRegistration (KIP-631); the end of the connection `peer` is a sign that the node died."""
        return await self._nodes.register(request, peer)

    async def heartbeat(self, request: BrokerHeartbeatRequest, peer: Peer | None) -> BrokerHeartbeatResponse:
        """BrokerHeartbeat (KIP-631)."""
        return await self._nodes.heartbeat(request, peer)

    def node_gone(self, node_id: int, why: str) -> None:
        """A source other than its heartbeats says that the node is gone: fence it, unless its connection here is open.

        `why`: for the log, behind the node's name ("lost its session with the election").
        """
        self._nodes.gone(node_id, why)

    def stood_still(self) -> None:
        """To be called when this process stood still, before the nodes' connections are dropped."""
        self._nodes.stood_still()

    async def report_partitions(self, request: ReportPartitionsRequest) -> ReportPartitionsResponse:
        """Take a node's report: its partitions' high watermarks, and how busy they are."""
        try:
            self._decisions.require_active()
            self._require_epoch(request.node_id, request.node_epoch)
        except KafkaError as error:
            return ReportPartitionsResponse(error_code=error.code, error_message=str(error))
        self._nodes.reported(request.node_id, request.node_epoch)
        now_s = asyncio.get_running_loop().time()
        self._reports.take(self.image, request.node_id, request.interval_ms, request.partitions, now_s)
        self._mover.reported()
        if any(report.high_watermark == FENCED for report in request.partitions) and self._beginning is None:
            # Do not wait for it: after a slow answer the node would think that we hang. The report will be repeated.
            self._beginning = self._decisions.spawn(self._begin_anew(request))
            self._beginning.add_done_callback(self._begun_anew)
        return ReportPartitionsResponse()

    def _begun_anew(self, _: asyncio.Task[None]) -> None:
        self._beginning = None

    async def _begin_anew(self, request: ReportPartitionsRequest) -> None:
        """Give a new leader epoch to owners fenced by an epoch we did not assign; else nobody could serve them."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[None]:
            context = self._decision_context()
            owned = [
                (topic_id, partition)
                for topic_id, partition in self._reports.fenced(image, request.partitions)
                if partition.leader == request.node_id
            ]
            reason = f"node {request.node_id} was fenced by an epoch above its own"
            records = [
                context.new_leader_epoch(
                    topic_id, partition, partition.leader, partition.replicas, context.owners, reason
                )
                for topic_id, partition in owned
            ]
            return Decision(None, records)

        await self._decisions.decide(decide, self._config.internal_request_wait_max_ms)

    async def metadata_fetch(self, request: MetadataFetchRequest) -> MetadataFetchResponse:
        """Records of the metadata log from an offset on, by long poll; a snapshot if the node cannot continue there."""
        if request.node_id in self._decisions.state.registrations:
            end_offset = self._decisions.log.log_end_offset
            self._followers.fetched(request.node_id, request.offset, end_offset, self._clock.now_ms())
        return await self._stream.fetch(request)

    async def allocate_producer_ids_for(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        """AllocateProducerIds (KIP-730)."""
        try:
            self._require_epoch(request.broker_id, request.broker_epoch)
            block = await self.allocate_producer_ids()
        except BmqError as error:
            return AllocateProducerIdsResponse(error_code=error.code)
        return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))

    def _require_epoch(self, node_id: int, broker_epoch: int) -> None:
        registration = self._decisions.state.registrations.get(node_id)
        if registration is None or registration.broker_epoch != broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH, f"node {node_id} is not registered under epoch {broker_epoch}"
            )

    # --- placement of partitions

    async def elect_leaders(self, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
        """Elect leaders as in ClientRequests; the balancer leaves them in place for a while."""
        before = self.image
        response = await super().elect_leaders(request, context)
        self._mover.placed(before, self.image)
        return response

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext
    ) -> AlterPartitionReassignmentsResponse:
        """Reassign as in ClientRequests; the balancer leaves moved partitions in place for a while."""
        before = self.image
        response = await super().alter_partition_reassignments(request, context)
        self._mover.placed(before, self.image)
        return response

    async def set_draining(self, node_id: int, is_draining: bool, reason: str) -> None:
        """Start draining a node (it gives its partitions away and gets no new ones), or stop it. Returns when that is
        written, not when the node is empty. A restart of the node ends it too. Raises KafkaError.
        """
        if is_draining:
            self._mover.explain_drain(node_id, reason)
        await self._nodes.set_draining(node_id, is_draining)

    def drain_plan(self, node_id: int) -> Sequence[Move]:
        """The moves that draining the node would need now."""
        return drain_moves(self._decision_context(), node_id, f"node {node_id} is being drained")

    def rebalance_plan(self) -> Sequence[Move]:
        """The moves that would even out the nodes' numbers of partitions now, all at once."""
        takers = {node_id: node for node_id, node in self._decision_context().owners.items() if not node.is_draining}
        return equalize(self.image, takers, lambda key: True, self.image.partition_count)

    async def apply_moves(self, moves: Sequence[Move], reason: str) -> None:
        """Carry a plan out; outdated moves are left out. `reason` precedes each move's own in the history.

        Raises KafkaError.
        """
        before = self.image
        await self._mover.apply([replace(move, reason=f"{reason}: {move.reason}") for move in moves])
        self._mover.placed(before, self.image)

    def loads(self) -> Mapping[int, NodeLoad]:
        """By live node: its number of partitions, and its measured rates."""
        return self._reports.loads(self.image, asyncio.get_running_loop().time())

    # --- operators' orders

    def now_ms(self) -> int:
        return self._clock.now_ms()

    async def decide_with_id(self, decide: Callable[[MetadataImage, UUID, int], Decision[R]]) -> R:
        """Decide in turn, with an unused id and the present time; returns the answer once its records are applied.

        Raises KafkaError, and whatever `decide` raises.
        """
        new_id, now_ms = self._new_uuid(), self._clock.now_ms()
        return await self._decisions.decide(
            lambda image, broker: decide(image, new_id, now_ms), self._config.internal_request_wait_max_ms
        )

    def end_offset(self, topic_id: UUID, number: int) -> int:
        """The least end offset a partition is known to have, from its owner's last report; 0 when unknown."""
        partition = self.image.partition(topic_id, number)
        return 0 if partition is None else self._reports.floor_of(topic_id, partition)

    @property
    def history(self) -> StateChangeHistory:
        """Past and present leaders of each partition: since when, and why."""
        return self._decisions.state.history

    # --- in the background

    def _image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Tell all listeners. The records are durable and applied, so a failure here must not fail the request."""
        try:
            self._tell_of(old, new)
        except Exception:
            _log.exception("image_callback_failed", offset=new.offset)
            if self._is_cluster:
                self._decisions.gone.set()  # the next controller begins with the whole image

    def _tell_of(self, old: MetadataImage, new: MetadataImage) -> None:
        self._on_image(old, new)
        self._deletions.start(new.deleted_topics - old.deleted_topics)
        if new.topics is not old.topics:
            for topic_id in old.topics_by_id.keys() - new.topics_by_id.keys():
                self._reports.forget(topic_id)
        if self._is_cluster and new.nodes is not old.nodes and self._decisions.is_active:
            self._mover.nodes_changed()

    def _is_handing_over(self, node_id: int) -> bool:
        return self._mover.is_handing_over(node_id)

    def _node_stops(self, node_id: int) -> None:
        self._mover.explain_drain(node_id, CONTROLLED_SHUTDOWN)

    async def _forget_topic(self, topic_id: UUID) -> None:
        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[None]:
            records = (TopicFilesDeletedRecord(topic_id=topic_id),) if topic_id in image.deleted_topics else ()
            return Decision(None, records)

        await self._decisions.decide(decide, self._config.internal_request_wait_max_ms)
