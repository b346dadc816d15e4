"""The active controller's work on a cluster's nodes: registrations, heartbeats, fencing, draining.

node_sessions.py decides which nodes to fence, node_registration.py which records that takes; this module handles the
timer, the connections and the metadata log.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from functools import partial

import structlog

from bmq.controller.background import keep_running
from bmq.controller.config import ControllerConfig
from bmq.controller.decision import Decision
from bmq.controller.decision_context import DecisionContext
from bmq.controller.decision_log import ControllerGone, DecisionLog
from bmq.controller.failover import decide_remaining_failovers
from bmq.controller.node_registration import (
    decide_draining,
    decide_fencing,
    decide_heartbeat,
    decide_registration,
)
from bmq.controller.node_sessions import NodeSessions, Overdue, Peer
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import MetadataImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from bmq.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from bmq.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from bmq.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from bmq.protocol.metadata_records import RegisterBrokerRecord

_log = structlog.get_logger("bmq.controller")


class ClusterNodes:
    """`context` is called within each decision. `on_stopping(node_id)`: a node will be drained because it stops.

    `is_handing_over(node_id)`: moves away from the node are still under way.
    """

    def __init__(
        self,
        decisions: DecisionLog,
        context: Callable[[], DecisionContext],
        config: ControllerConfig,
        on_stopping: Callable[[int], None],
        is_handing_over: Callable[[int], bool],
    ) -> None:
        self._decisions = decisions
        self._decision_context = context
        self._config = config
        self._on_stopping = on_stopping
        self._is_handing_over = is_handing_over
        self._sessions = NodeSessions(
            config.node_session_timeout_ms / 1000,
            config.node_link_grace_ms / 1000,
            config.session_check_interval_ms / 1000,
        )
        self._changing: set[int] = set()
        self._check_now = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._fencing: asyncio.Task[None] | None = None
        self._failover: asyncio.Task[None] | None = None
        self._is_failover_due = True  # the previous controller may have died before it finished one
        self._started_until_s = -math.inf  # until then new owners are assumed to be still starting
        self._fenced_for: dict[int, str] = {}
        """Fencing reasons by node id, kept until every partition of these nodes has a new owner."""

    def start(self) -> None:
        """Give every unfenced node one session timeout to send a heartbeat; it need not register again."""
        now_s = self._now_s()
        for node_id, registration in self._decisions.state.registrations.items():
            if not registration.fenced:
                self._sessions.expect(node_id, registration.broker_epoch, now_s)
        watch = keep_running("watch_sessions", self._watch_sessions)
        self._watch = asyncio.get_running_loop().create_task(watch)

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})

    @property
    def are_settled(self) -> bool:
        """Whether every session has had a heartbeat and none is in doubt, and no failover is due, running, or just over.

        Partitions that a new owner is about to start are not moved again: if the dead node came back at once, they
        would return to it in the middle of their start, and clients would wait for a second takeover.
        """
        is_failover_over = not self._is_failover_due and not self._is_succeeding
        return self._sessions.are_settled and is_failover_over and self._now_s() >= self._started_until_s

    # --- messages from nodes

    async def register(self, request: BrokerRegistrationRequest, peer: Peer | None) -> BrokerRegistrationResponse:
        """The node's epoch, or an error code with a sentence."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[RegisterBrokerRecord]:
            is_alive = self._sessions.is_alive(request.broker_id, self._now_s())
            return decide_registration(self._decision_context(), request, is_alive=is_alive)

        try:
            registration = await self._decisions.decide(decide, self._config.internal_request_wait_max_ms)
        except BmqError as error:
            _log.warning("node_registration_refused", node_id=request.broker_id, code=error.code.name, error=str(error))
            return BrokerRegistrationResponse(error_code=error.code, error_message=str(error))
        self._heard(request.broker_id, registration.broker_epoch, peer)
        _log.info(
            "node_registered",
            node_id=request.broker_id,
            broker_epoch=registration.broker_epoch,
            roles=",".join(registration.roles),
            rack=registration.rack,
        )
        return BrokerRegistrationResponse(broker_epoch=registration.broker_epoch)

    async def heartbeat(self, request: BrokerHeartbeatRequest, peer: Peer | None) -> BrokerHeartbeatResponse:
        """Handle a heartbeat. It waits for the metadata log only when something changes for the node."""
        if not self._decisions.is_active:
            return BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)
        seen = decide_heartbeat(self._decision_context(), request)
        if seen.response.error_code != ErrorCode.NONE:
            return seen.response
        node_id = request.broker_id
        self._heard(node_id, request.broker_epoch, peer)
        if request.want_shut_down and not seen.response.should_shut_down:
            self._on_stopping(node_id)
        if not seen.records:
            return seen.response
        registration = self._decisions.state.registrations[node_id]
        is_let_go = seen.response.should_shut_down and not registration.fenced
        if node_id in self._changing or (is_let_go and self._is_handing_over(node_id)):
            # An earlier heartbeat's records are being written, or the node's partitions are being handed over: until
            # that is done, answer with the present state.
            return BrokerHeartbeatResponse(is_caught_up=seen.response.is_caught_up, is_fenced=registration.fenced)
        self._changing.add(node_id)
        try:
            response = await self._decisions.decide(
                lambda image, broker: decide_heartbeat(self._decision_context(), request),
                self._config.internal_request_wait_max_ms,
            )
        except BmqError as error:
            return BrokerHeartbeatResponse(error_code=error.code)
        finally:
            self._changing.discard(node_id)
        if response.is_fenced:
            self._check_orphans_soon()
        if response.is_fenced != registration.fenced:
            _log.info("node_fenced" if response.is_fenced else "node_unfenced", node_id=node_id)
        return response

    def reported(self, node_id: int, broker_epoch: int) -> None:
        """A node's report has come: it is alive."""
        self._sessions.reported(node_id, broker_epoch, self._now_s())

    def gone(self, node_id: int, why: str) -> None:
        """The election or the peer links consider this node dead."""
        self._sessions.gone(node_id, why, self._now_s())
        self._check_now.set()

    def after_stall(self) -> None:
        """Call it when this process stood still, before the nodes' connections are dropped."""
        self._sessions.after_stall(self._now_s())

    async def set_draining(self, node_id: int, is_draining: bool) -> None:
        """Raises KafkaError."""
        await self._decisions.decide(
            lambda image, broker: decide_draining(self._decision_context(), node_id, is_draining),
            self._config.internal_request_wait_max_ms,
        )

    def _heard(self, node_id: int, broker_epoch: int, peer: Peer | None) -> None:
        if self._sessions.heard(node_id, broker_epoch, peer, self._now_s()) and peer is not None:
            peer.on_lost(lambda: self._lost(node_id, peer))

    def _lost(self, node_id: int, peer: Peer) -> None:
        self._sessions.lost(node_id, peer, self._now_s())
        self._check_now.set()

    # --- silent nodes

    async def _watch_sessions(self) -> None:
        while True:
            now_s = self._now_s()
            if self._sessions.check(now_s) and (self._fencing is None or self._fencing.done()):
                self._fencing = self._decisions.spawn(self._fence())
            if self._is_failover_due and not self._is_succeeding:
                self._failover = self._decisions.spawn(self._succeed())
            self._check_now.clear()
            # Fencing and failover run as tasks: a slow metadata log must not delay the next check.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._sessions.next_check_s(now_s)):
                    await self._check_now.wait()

    async def _fence(self) -> None:
        overdue: list[Overdue] = []

        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[list[int]]:
            overdue[:] = self._sessions.overdue(self._now_s())
            return decide_fencing(self._decision_context(), overdue, self._config.failovers_at_first)

        try:
            fenced = await self._decisions.decide(decide, self._config.internal_request_wait_max_ms)
        except BmqError as error:
            _log.warning("nodes_not_fenced", error=str(error))  # the next check tries again
            return
        now_s = self._now_s()
        if fenced:
            self._owners_named()
        for node in overdue:
            self._sessions.forget(node, now_s)
            if node.node_id in fenced:
                self._decisions.metrics.nodes_fenced += 1
                self._fenced_for[node.node_id] = f"node {node.node_id} {node.why}"
                _log.warning("node_fenced", node_id=node.node_id, reason=f"it {node.why}")
        self._check_orphans_soon()

    @property
    def _is_succeeding(self) -> bool:
        return self._failover is not None and not self._failover.done()

    def _check_orphans_soon(self) -> None:
        self._is_failover_due = True
        self._check_now.set()

    async def _succeed(self) -> None:
        """Name new owners for all partitions without a live one, in batches that double in size."""
        count = self._config.failovers_at_first
        self._is_failover_due = False
        try:
            while not await self._decisions.decide(
                partial(self._decide_failovers, count), self._config.internal_request_wait_max_ms
            ):
                if count == self._config.failovers_at_first:
                    # Partitions in use come first: let their new owners start before thousands of others follow.
                    await asyncio.sleep(self._config.idle_failover_delay_ms / 1000)
                count *= 2
        except ControllerGone:
            return
        except BmqError as error:
            _log.warning("owners_not_named", error=str(error))
            self._is_failover_due = True  # the next check tries again
            return
        except Exception:
            self._is_failover_due = True
            raise
        if not self._is_failover_due:
            self._fenced_for.clear()

    def _decide_failovers(self, count_max: int, image: MetadataImage, broker: BrokerConfigs) -> Decision[bool]:
        decision = decide_remaining_failovers(self._decision_context(), self._fenced_for, count_max)
        if decision.records:
            self._owners_named()
        return decision

    def _owners_named(self) -> None:
        self._started_until_s = self._now_s() + self._config.failover_rest_ms / 1000

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()
