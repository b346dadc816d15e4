"""Keeps a node registered with the active controller: registration, heartbeats, reports, controlled shutdown.

One connection carries all of it, so that its end tells the controller at once that the node died. In turn, a controller
that cannot be reconnected to, or that does not answer, is reported as silent: candidates for the leadership then depose
it. A wrong guess costs only an election.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final
from uuid import UUID

import structlog

from bmq.dataclass import dataclass
from bmq.election.election import ControllerClaim
from bmq.internode_client.link import Link, LinkLost, LinkTimeout
from bmq.internode_client.links import Links
from bmq.membership.settings import ClusterSettings
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.internal_messages import (
    PartitionReport,
    QuotaShare,
    QuotaUse,
    ReportPartitionsRequest,
    StoreState,
)
from bmq.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from bmq.protocol.messages.broker_registration_request import BrokerRegistrationRequest

LINK_PURPOSE: Final = "control"
_HELD_UP_S: Final = 0.5
_REPORT_INTERVAL_MAX_S: Final = 60.0
HEARING_WAIT_S: Final = 0.4
"""Less than the candidate that asks waits."""
_HEARINGS_MAX: Final = 64
_FINAL: Final = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.INVALID_REQUEST,
    }
)

_log = structlog.get_logger("bmq.membership")


class RegistrationRefused(BmqError):
    """The controller refuses this node; the reason, in one sentence."""


@dataclass(frozen=True, slots=True)
class Reports:
    """`changed()`: owned partitions that moved since `confirm` was called last; called before each report.

    `restart()`: the next report goes to another controller, which has got none of the earlier ones. `quota_uses()`: of
    quotas of the whole cluster; `quota_shares` takes what the controller answers. `store_state()`: whether this node
    reaches the store; `want_writing` takes whether the controller wants to know who can write.
    """

    changed: Callable[[], Sequence[PartitionReport]]
    confirm: Callable[[], None]
    restart: Callable[[], None]
    quota_uses: Callable[[], Sequence[QuotaUse]] = tuple
    quota_shares: Callable[[Sequence[QuotaShare]], None] = lambda shares: None
    store_state: Callable[[], StoreState] = lambda: StoreState.UNKNOWN
    want_writing: Callable[[bool], None] = lambda is_wanted: None


class Registration:
    """`run` until cancelled. `failed` gets a RegistrationRefused when retrying is useless."""

    def __init__(
        self,
        request: BrokerRegistrationRequest,
        links: Links,
        leader: Callable[[], ControllerClaim | None],
        metadata_offset: Callable[[], int],
        reports: Reports,
        on_silent: Callable[[ControllerClaim], None],
        settings: ClusterSettings,
        random: Random,
    ) -> None:
        self._request = request
        self._links = links
        self._leader = leader
        self._metadata_offset = metadata_offset
        self._reports = reports
        self._on_silent = on_silent
        self._settings = settings
        self._backoff = settings.retry_backoff(random)
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._wake = asyncio.Event()
        self._refused_since_s: float | None = None
        self._last_report_s = -math.inf
        self._answered_s = -math.inf
        self._reported_to = -1  # the epoch of the controller that has got our reports
        self._is_report_due = False
        self._is_shutting_down = False
        self._hearings: dict[asyncio.Future[bool], None] = {}
        self.epoch = -1
        self.is_unfenced = False
        self.unfenced = asyncio.Event()
        self.may_stop = asyncio.Event()
        self.failed: asyncio.Future[None] = self._loop.create_future()

    @property
    def incarnation_id(self) -> UUID | None:
        return self._request.incarnation_id

    def send_soon(self) -> None:
        """Send a heartbeat at once: the controller changed, or the image caught up."""
        self._wake.set()

    def report_soon(self) -> None:
        """Report soon: a partition has begun to be served, and the controller may wait for that; or the way to the store
        has changed.
        """
        self._is_report_due = True
        self.send_soon()

    async def hears(self, controller_epoch: int) -> bool:
        """Whether the controller of this epoch answers this node now: by the next heartbeat, which is sent at once."""
        claim = self._leader()
        if claim is None or claim.epoch != controller_epoch or len(self._hearings) >= _HEARINGS_MAX:
            return False
        hearing: asyncio.Future[bool] = self._loop.create_future()
        self._hearings[hearing] = None
        self.send_soon()
        try:
            await asyncio.wait({hearing}, timeout=HEARING_WAIT_S)
        finally:
            del self._hearings[hearing]
        now = self._leader()
        return hearing.done() and hearing.result() and now is not None and now.epoch == controller_epoch

    def _heard(self, is_heard: bool) -> None:
        for hearing in self._hearings:
            if not hearing.done():
                hearing.set_result(is_heard)

    async def shut_down(self) -> None:
        """Have the partitions moved away; returns when none is left here, or no other node could take them in time."""
        self._is_shutting_down = True
        self.send_soon()
        began_s = self._answered_s = self._loop.time()
        settings = self._settings
        while not self.may_stop.is_set():
            now_s = self._loop.time()
            until_s = min(
                began_s + settings.shutdown_wait_max_ms / 1000,
                self._answered_s + settings.shutdown_silence_max_ms / 1000,
            )
            if now_s >= until_s:
                _log.warning("controlled_shutdown_unfinished", waited_ms=round((now_s - began_s) * 1000))
                return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until_s):
                    await self.may_stop.wait()

    async def run(self) -> None:
        """Register and send heartbeats for ever."""
        while not self.failed.done():
            self._wake.clear()  # an event from here on ends the next pause
            claim = self._leader()
            if claim is None:
                await self._pause(self._backoff.next_s())
                continue
            began_s = self._loop.time()
            try:
                pause_s = await self._beat(claim)
            except LinkLost as error:
                # If the timeout itself comes late, this process was held up, not the controller.
                is_ours = self._loop.time() - began_s > self._settings.heartbeat_timeout_ms / 1000 + _HELD_UP_S
                if isinstance(error, LinkTimeout) and self.is_unfenced and not is_ours:
                    pause_s = self._give_up_on(claim, error)
                else:
                    pause_s = await self._try_again_at_once(claim)
            await self._pause(pause_s)

    async def _beat(self, claim: ControllerClaim) -> float:
        """One exchange with the controller; how long to wait for the next. Raises LinkLost."""
        began_s = self._loop.time()
        link = await self._links.link(claim.node_id, LINK_PURPOSE)
        if link is not self._link:
            self._link = link
            link.on_lost(self.send_soon)  # find out the cause at once, not with the next heartbeat
        # Registering and unfencing wait for the metadata log, and a slow log does not mean a silent controller.
        is_quick = self.is_unfenced and not self._is_shutting_down
        timeout_ms = self._settings.heartbeat_timeout_ms if is_quick else self._settings.registration_timeout_ms
        timeout_s = timeout_ms / 1000
        if self.epoch < 0:
            answer = await link.call(ApiKey.BROKER_REGISTRATION, self._request, timeout_s=timeout_s)
            if answer.error_code != ErrorCode.NONE:
                return self._refused(answer)
            self.epoch = answer.broker_epoch
            self._refused_since_s = None
            self._backoff.reset()
            _log.info(
                "node_registered", node_id=self._request.broker_id, node_epoch=self.epoch, controller=claim.node_id
            )
        heartbeat = BrokerHeartbeatRequest(
            broker_id=self._request.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=self._is_shutting_down and self.may_stop.is_set(),
            want_shut_down=self._is_shutting_down,
        )
        answer = await link.call(ApiKey.BROKER_HEARTBEAT, heartbeat, timeout_s=timeout_s)
        self._heard(answer.error_code != ErrorCode.NOT_CONTROLLER)
        if answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
            _log.warning("node_registration_lost", node_epoch=self.epoch)
            self.epoch = -1
            self._set_unfenced(False)
            return 0.0
        if answer.error_code != ErrorCode.NONE:
            return self._backoff.next_s()
        self._answered_s = self._loop.time()
        self._backoff.reset()
        self._set_unfenced(not answer.is_fenced)
        if answer.should_shut_down:
            self.may_stop.set()
        await self._report(link, claim.epoch, timeout_s)
        # Not unfenced yet: our image may be a moment behind the registration. May not stop yet: partitions are moving.
        is_in_between = answer.is_fenced if not self._is_shutting_down else not self.may_stop.is_set()
        if is_in_between:
            return self._settings.retry_min_ms / 1000
        settings = self._settings
        interval_ms = settings.report_interval_min_ms if self._is_report_due else settings.heartbeat_interval_ms
        # From one beginning to the next: where answers are slow the controller would hear of us too seldom.
        return max(began_s + interval_ms / 1000 - self._loop.time(), 0.0)

    async def _report(self, link: Link, controller_epoch: int, timeout_s: float) -> None:
        now_s = self._loop.time()
        if controller_epoch != self._reported_to:
            self._reports.restart()
            self._reported_to = controller_epoch
            self._last_report_s = -math.inf
        interval_s = now_s - self._last_report_s
        wait_ms = self._settings.report_interval_min_ms if self._is_report_due else self._settings.report_interval_ms
        if interval_s < wait_ms / 1000:
            return
        self._is_report_due = False
        interval_s = min(interval_s, _REPORT_INTERVAL_MAX_S)
        changed, uses = self._reports.changed(), self._reports.quota_uses()
        state = self._reports.store_state()
        self._last_report_s = now_s
        if not changed and not uses and state is StoreState.UNKNOWN:
            return
        report = ReportPartitionsRequest(
            node_id=self._request.broker_id,
            node_epoch=self.epoch,
            interval_ms=round(interval_s * 1000),
            partitions=changed,
            quota_uses=uses,
            store_state=state,
        )
        answer = await link.call(ApiKey.REPORT_PARTITIONS, report, timeout_s=timeout_s)
        if answer.error_code == ErrorCode.NONE:
            self._reports.confirm()
            self._reports.quota_shares(answer.quota_shares)
            self._reports.want_writing(answer.is_writing_wanted)

    def _refused(self, answer: Any) -> float:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NOT_CONTROLLER:
            return self._backoff.next_s()
        now_s = self._loop.time()
        if self._refused_since_s is None:
            self._refused_since_s = now_s
        patience_s = self._settings.registration_wait_max_ms / 1000
        if code in _FINAL or now_s - self._refused_since_s > patience_s:
            self.failed.set_exception(RegistrationRefused(answer.error_message or _sentence(self._request, code)))
        else:
            _log.warning("node_not_registered", node_id=self._request.broker_id, error=code.name)
        return self._backoff.next_s()

    async def _try_again_at_once(self, claim: ControllerClaim) -> float:
        """The connection may have broken by chance: one try over a new one decides whether the controller is silent."""
        if self._link is not None:
            self._link.close()
        try:
            return await self._beat(claim)
        except LinkLost as error:
            return self._give_up_on(claim, error)

    def _give_up_on(self, claim: ControllerClaim, error: LinkLost) -> float:
        if self._link is not None:
            self._link.close()
        self._heard(False)
        if self._leader() == claim:
            _log.warning("controller_silent", controller=claim.node_id, controller_epoch=claim.epoch, reason=str(error))
            self._on_silent(claim)
        return self._backoff.next_s()

    def _set_unfenced(self, is_unfenced: bool) -> None:
        if is_unfenced != self.is_unfenced:
            self.is_unfenced = is_unfenced
            _log.info("node_unfenced" if is_unfenced else "node_fenced", node_id=self._request.broker_id)
        if is_unfenced:
            self.unfenced.set()

    async def _pause(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._wake.wait()
        except TimeoutError:
            pass


def _sentence(request: BrokerRegistrationRequest, code: ErrorCode) -> str:
    node = f"node {request.broker_id}"
    match code:
        case ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return f"{node} is registered by another live process: stop that one, or give this one another --node-id"
        case ErrorCode.INCONSISTENT_CLUSTER_ID:
            return (
                f"{node} belongs to cluster {request.cluster_id}, the controller to another: "
                "--store and --zookeeper must name the same cluster on every node"
            )
        case ErrorCode.UNSUPPORTED_VERSION:
            return f"{node} does not support the cluster's finalized bmq.metadata.version: run a newer bmq on it"
        case _:
            return f"the controller refuses {node}: {code.name}"
