"""The messages that the cluster's nodes send to the active controller: registrations, heartbeats, reports, fetches."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import structlog

from bmq.controller.api.context import ControllerContext
from bmq.controller.cluster_nodes import ClusterNodes
from bmq.controller.decision import Decision
from bmq.controller.metadata_quorum import MetadataFollowers
from bmq.controller.metadata_stream import MetadataStream
from bmq.controller.node_sessions import Peer
from bmq.controller.partition_mover import PartitionMover
from bmq.controller.partition_reports import FENCED
from bmq.controller.quota_shares import QuotaShares
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import ROLE_CONTROLLER, MetadataImage
from bmq.protocol.errors import KafkaError
from bmq.protocol.internal_messages import (
    MetadataFetchRequest,
    MetadataFetchResponse,
    ReportPartitionsRequest,
    ReportPartitionsResponse,
)
from bmq.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from bmq.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from bmq.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from bmq.protocol.messages.broker_registration_response import BrokerRegistrationResponse

_log = structlog.get_logger("bmq.controller")


class NodeApi:
    """Each node is known by the epoch of its registration; reports under another epoch are refused."""

    def __init__(
        self,
        context: ControllerContext,
        nodes: ClusterNodes,
        mover: PartitionMover,
        stream: MetadataStream,
        followers: MetadataFollowers,
    ) -> None:
        self._context = context
        self._nodes = nodes
        self._mover = mover
        self._stream = stream
        self._followers = followers
        self._quota_shares = QuotaShares()
        self._giving_epochs: asyncio.Task[None] | None = None
        self._cut_off: Collection[int] = frozenset()

    async def register_node(self, request: BrokerRegistrationRequest, peer: Peer | None) -> BrokerRegistrationResponse:
        """BrokerRegistration (KIP-631); the end of the connection `peer` is a sign that the node died."""
        return await self._nodes.register(request, peer)

    async def heartbeat(self, request: BrokerHeartbeatRequest, peer: Peer | None) -> BrokerHeartbeatResponse:
        """BrokerHeartbeat (KIP-631)."""
        return await self._nodes.heartbeat(request, peer)

    async def report_partitions(self, request: ReportPartitionsRequest) -> ReportPartitionsResponse:
        """Take a node's report: its partitions' high watermarks, and how busy they are."""
        try:
            self._context.decisions.require_active()
            self._context.require_epoch(request.node_id, request.node_epoch)
        except KafkaError as error:
            return ReportPartitionsResponse(error_code=error.code, error_message=str(error))
        self._nodes.reported(request.node_id, request.node_epoch)
        now_s = asyncio.get_running_loop().time()
        outages, nodes = self._context.outages, self._context.image.nodes
        outages.heard(request.node_id, request.node_epoch, request.store_state, now_s)
        self._follow_outages(now_s)
        self._context.reports.take(self._context.image, request.node_id, request.interval_ms, request.partitions, now_s)
        self._mover.reported()
        if any(report.high_watermark == FENCED for report in request.partitions) and self._giving_epochs is None:
            # Do not wait for it: after a slow answer the node would think that we hang. The report will be repeated.
            self._giving_epochs = self._context.decisions.spawn(self._give_new_epochs(request))
            self._giving_epochs.add_done_callback(self._epochs_given)
        interval_s = request.interval_ms / 1_000
        shares = self._quota_shares.take(request.node_id, request.quota_uses, interval_s, nodes, now_s)
        return ReportPartitionsResponse(quota_shares=shares, is_writing_wanted=outages.is_any_away(nodes))

    def _follow_outages(self, now_s: float) -> None:
        """Have the partitions moved away from nodes that alone do not reach the store. If this one is among them, it cannot
        write that, so another one has to be the controller.
        """
        nodes, outages, own_id = self._context.image.nodes, self._context.outages, self._context.node.node_id
        before, self._cut_off = self._cut_off, outages.cut_off(nodes, now_s)
        if self._cut_off == before:
            return
        for node_id in sorted(set(self._cut_off) - set(before)):
            _log.error("node_cut_off_from_store", node_id=node_id)
        for node_id in sorted(set(before) - set(self._cut_off)):
            _log.info("node_reaches_store", node_id=node_id)
        if own_id in self._cut_off and any(
            ROLE_CONTROLLER in nodes[one].roles for one in outages.writers(nodes, now_s)
        ):
            self._context.decisions.gone.set()
        else:
            self._mover.nodes_changed()

    def _epochs_given(self, _: asyncio.Task[None]) -> None:
        self._giving_epochs = None

    async def _give_new_epochs(self, request: ReportPartitionsRequest) -> None:
        """Give a new leader epoch to owners fenced by an epoch we did not assign; else nobody could serve them."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[None]:
            context = self._context.decision_context()
            owned = [
                (topic_id, partition)
                for topic_id, partition in self._context.reports.fenced(image, request.partitions)
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

        await self._context.decisions.decide(decide, self._context.config.internal_request_wait_max_ms)

    async def metadata_fetch(self, request: MetadataFetchRequest) -> MetadataFetchResponse:
        """Records of the metadata log from an offset on, by long poll; a snapshot if the node cannot continue there."""
        if request.node_id in self._context.decisions.state.registrations:
            end_offset = self._context.decisions.log.log_end_offset
            self._followers.fetched(request.node_id, request.offset, end_offset, self._context.clock.now_ms())
        return await self._stream.fetch(request)
