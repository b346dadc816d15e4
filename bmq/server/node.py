"""One cluster node: binds its listeners, joins the election, runs its roles, and leaves in order.

As in the standalone server, sockets, clocks and random numbers are injected: the simulation runs this class, with a
fake in place of ZooKeeper.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from bmq.admin.channel_watch import ChannelWatch
from bmq.admin.delayed_records import DelayedRecords
from bmq.admin.group_explainer import GroupExplainer
from bmq.admin.health import HealthFacts, Stage
from bmq.admin.redrives import Redrives
from bmq.broker.manager import PartitionManager
from bmq.controller.runtime import Controller
from bmq.coordinator.transactions.coordinator import TransactionCoordinator
from bmq.election.election import Election, Member
from bmq.internode_server.handlers import load_all
from bmq.log.clock import Clock
from bmq.log.partition_log import TopicPartition
from bmq.log.store import SegmentStore
from bmq.metadata.history import StateChangeHistory
from bmq.metadata.image import ROLE_CONTROLLER, ROLE_PROXY, MetadataImage
from bmq.protocol.apis import INTERNAL_APIS, ApiKey
from bmq.protocol.request_context import RequestMethod
from bmq.proxy.limits import BETWEEN_NODES
from bmq.proxy.local_requests import LocalRequests
from bmq.proxy.log_levels import LogLevels
from bmq.proxy.server import KafkaServer
from bmq.proxy.services import LaneDecisions
from bmq.proxy.stall_watch import StallWatch
from bmq.server.broker_configs import warn_without_effect
from bmq.server.client_listeners import ClientListeners
from bmq.server.internode_tls import InternodeTls
from bmq.server.live_summary import Summary
from bmq.server.native_kernel import warn_without_kernel
from bmq.server.node_dependencies import NodeDependencies, NodeHooks
from bmq.server.node_roles import NodeRoles
from bmq.server.own_health import unstarted
from bmq.server.own_root import new_holder, open_own_root
from bmq.server.settings import Settings, split_address
from bmq.server.start_retry import StartRetry

_log = structlog.get_logger("bmq.cli")


class NodeServer:
    """`start` joins the cluster and serves, `stop` leaves it in order. One event loop.

    `rest`: the address of this node's REST API. `election`: not started yet. After `start`, the future `failed` gets the
    sentence that ends the process.
    """

    def __init__(
        self,
        settings: Settings,
        store: SegmentStore,
        election: Election,
        clock: Clock,
        rng: random.Random,
        *,
        rest: tuple[str, int],
        log_levels: LogLevels | None = None,
        hooks: NodeHooks | None = None,
    ) -> None:
        stalls = StallWatch(settings.loop_stall_max_ms, clock.elapsed_s)
        stalls.on_stall(self._after_stall)  # before connections are dropped
        levels = log_levels or LogLevels(settings.log_level)
        self._internode = InternodeTls(settings)
        dependencies = NodeDependencies(
            settings,
            store,
            election,
            clock,
            rng,
            stalls,
            rest,
            hooks or NodeHooks(),
            link_tls=self._internode.link,
            log_levels=levels,
        )
        is_debug = settings.log_level == "debug"
        self._dependencies = dependencies
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[Any], None] = {}  # ended in this order
        self._proxy = (
            KafkaServer(
                settings.proxy,
                dependencies.stats,
                is_debug=is_debug,
                stalls=stalls,
                trim_memory=dependencies.hooks.trim_memory,
            )
            if ROLE_PROXY in dependencies.roles
            else None
        )
        self._listeners = None if self._proxy is None else ClientListeners(self._proxy, settings)
        self._internal = KafkaServer(
            BETWEEN_NODES,
            dependencies.internal_stats,
            is_debug=is_debug,
            apis=INTERNAL_APIS,
            is_ordered=False,
            stalls=stalls,
        )
        for listener in (self._proxy, self._internal):
            if dependencies.hooks.traces is not None and listener is not None:
                listener.use_traces(dependencies.hooks.traces)
        self._roles: NodeRoles | None = None
        self._is_started = False
        self._stage = Stage.STORE
        self.failed: asyncio.Future[None] = self._loop.create_future()

    # --- for inspection

    def inspect(self) -> NodeRoles | None:
        """This node's roles; None until it has joined the election."""
        return self._roles

    @property
    def image(self) -> MetadataImage:
        return MetadataImage() if self._roles is None else self._roles.replica.image

    @property
    def controller(self) -> Controller | None:
        """The active controller, if it is here."""
        return None if self._roles is None else self._roles.controller

    @property
    def history(self) -> StateChangeHistory | None:
        """The partitions' leader history in this node's metadata."""
        return None if self._roles is None else self._roles.replica.history

    @property
    def manager(self) -> PartitionManager | None:
        """The partitions owned here; None until the node has joined."""
        return None if self._roles is None else self._roles.manager

    @property
    def explainer(self) -> GroupExplainer | None:
        """Explains groups; None until the node has joined."""
        return None if self._roles is None else GroupExplainer(self._roles.client_services, self._roles.share.routed)

    @property
    def delayed_records(self) -> DelayedRecords | None:
        """Asks about delayed records; None until this node serves."""
        if self._roles is None:
            return None
        services = self._roles.client_services
        return DelayedRecords(services.partitions, services.appender, services.clock)

    @property
    def lanes(self) -> LaneDecisions | None:
        """The lanes of all groups; None until this node serves."""
        return None if self._roles is None else self._roles.client_services.lanes

    @property
    def transactions(self) -> TransactionCoordinator | None:
        """The transactional ids owned here; None until the node has joined."""
        return None if self._roles is None else self._roles.transactions

    @property
    def redrives(self) -> Redrives | None:
        """The redrives of this process; None until the node has joined."""
        return None if self._roles is None else self._roles.redrives

    @property
    def channel_watch(self) -> ChannelWatch:
        """Wakes what waits for changes of channels."""
        return self._dependencies.channel_watch

    @property
    def create_topics(self) -> RequestMethod | None:
        """Answers CreateTopics; None until this node serves."""
        return None if self._roles is None else partial(self._roles.remote_controller.handle, ApiKey.CREATE_TOPICS)

    @property
    def kafka_requests(self) -> LocalRequests | None:
        """Kafka requests of REST's clients; None until the node has joined."""
        return None if self._roles is None else LocalRequests(self._roles.client_services)

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        """The high watermark of a partition owned or followed here; None for others."""
        log = None if self._roles is None else self._roles.router.ready(topic_partition)
        return None if log is None else log.high_watermark

    @property
    def is_serving(self) -> bool:
        """Whether it is registered and unfenced, and its roles serve."""
        return self._is_started and self._roles is not None and self._roles.registration.is_unfenced

    def health(self) -> HealthFacts:
        """What this node knows of its health."""
        roles = self._roles
        return HealthFacts(
            self._stage,
            is_fenced=self._is_started and roles is not None and not roles.registration.is_unfenced,
            is_controller_silent=roles is not None and not roles.replica.is_current,
            is_store_away=roles is not None and roles.store_watch.is_away,
            unreachable_nodes=() if roles is None else sorted(roles.peers.unreachable),
            stalled_ago_s=self._dependencies.stalls.stalled_ago_s,
            unstarted=() if roles is None else unstarted(roles.manager.context.start_waits),
        )

    def partition_states(self) -> Mapping[str, int]:
        return {} if self._roles is None else self._roles.manager.states()

    def summary(self) -> Summary:
        return Summary.of(self._dependencies.stats, len(self.image.topics), self.partition_states())

    def register_metrics(self, registry: CollectorRegistry) -> None:
        """Export all counters of this node on /metrics; call after `start`."""
        assert self._roles is not None
        self._roles.register_metrics(registry)

    async def refresh_metrics(self) -> None:
        """Ask what a scrape needs; before each one."""
        if self._roles is not None:
            await self._roles.refresh_metrics()

    # --- start

    async def start(self) -> tuple[tuple[str, int] | None, tuple[str, int]]:
        """Join and serve. Returns the address for clients (None without a proxy) and the one for other nodes.

        Raises OSError (a port), RootError, StoreError, ElectionError, RegistrationRefused.
        """
        settings, dependencies = self._settings, self._dependencies
        load_all()
        warn_without_effect(settings)
        warn_without_kernel()
        self._internode.warn()
        address = None
        if self._listeners is not None:
            address = await self._listeners.bind()
        internal = await self._internal.bind(*split_address(settings.internal), self._internode.listener_socket())
        internal = split_address(settings.internal_advertised) if settings.internal_advertised else internal
        holder = new_holder(settings.node_id, dependencies.rng)
        retry = StartRetry(settings.start_wait_ms)
        root = await open_own_root(dependencies.store, settings, holder, dependencies.rng, retry)
        member = Member(settings.node_id, holder, *internal)
        self._stage = Stage.ELECTION
        await dependencies.election.start(root.cluster_id)
        await dependencies.election.join(member)
        self._stage = Stage.REGISTRATION
        self._roles = NodeRoles(
            dependencies, root, address, member, () if self._listeners is None else self._listeners.others
        )
        await self._run(self._roles)
        _log.info("node_started", cluster_id=root.cluster_id, node_id=settings.node_id, roles=settings.roles)
        return address, internal

    async def _run(self, roles: NodeRoles) -> None:
        self._dependencies.stalls.start()
        await self._internal.serve(roles.internal_services)
        if self._internode.mode.has_tls:
            self._spawn(self._internode.watch())
        self._dependencies.election.on_leader(roles.leader_changed)
        self._dependencies.election.on_members(roles.members_changed)
        if ROLE_CONTROLLER in self._dependencies.roles:
            self._spawn(roles.leadership.run())
            roles.leadership.failed.add_done_callback(self._take_failure)
        self._spawn(roles.replica.run())
        self._spawn(roles.store_watch.run())
        self._spawn(roles.registration.run())
        roles.registration.failed.add_done_callback(self._take_failure)
        let_in = asyncio.ensure_future(roles.registration.unfenced.wait())
        either: set[asyncio.Future[Any]] = {let_in, self.failed}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            let_in.cancel()
        if self.failed.done():
            self.failed.result()
        if self._listeners is not None:
            await self._listeners.serve(roles.client_services)
            self._spawn(self._listeners.watch())
        self._is_started = True
        self._stage = Stage.SERVING

    def _after_stall(self, stall_s: float) -> None:
        if self._roles is not None:
            self._roles.after_stall()

    def _take_failure(self, future: asyncio.Future[None]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        self._take_failure(task)

    # --- stop

    async def stop(self) -> None:
        """Hand over the partitions, answer requests under way, and leave the cluster. May be called after a start that failed
        half-way.
        """
        roles, timeout_s = self._roles, self._settings.stop_timeout_ms / 1000
        self.channel_watch.close()
        self._stage = Stage.STOPPING
        if roles is not None:
            if self._is_started and not self.failed.done():
                await roles.registration.shut_down()
            roles.fetcher.stop_waiting()  # a long max_wait must not delay the stop
        self._is_started = False
        if self._proxy is not None:
            # Half of the time is for owners that are on their way; then clients hear of it before they are cut off.
            ending = None if roles is None else self._loop.call_later(timeout_s / 8, roles.end_waits)
            await self._proxy.stop(timeout_s / 4)
            if ending is not None:
                ending.cancel()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if roles is not None:
            await roles.leadership.close()
            await roles.assignments.close()
        await self._internal.stop(timeout_s / 8)
        if roles is not None:
            await roles.close()
        await self._dependencies.election.close()
        if roles is not None:
            await roles.links.close()
        self._dependencies.stalls.close()
