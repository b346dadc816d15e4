"""Puts the roles of one cluster node together: listeners, links, metadata, partitions, coordinators, controller.

As with the standalone server nothing here knows a socket, a clock or chance of its own: the simulation runs this class,
with a fake in place of ZooKeeper.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from uuid import UUID

import structlog
from prometheus_client import CollectorRegistry

from bmq.broker.manager import PartitionManager
from bmq.cli.broker_configs import coordinator_config, kafka_configs
from bmq.cli.live_summary import Summary
from bmq.cli.own_root import new_holder, open_own_root
from bmq.cli.patience import Patience
from bmq.cli.settings import Settings, split_address, split_roles
from bmq.controller.config import ControllerConfig
from bmq.controller.runtime import Controller
from bmq.coordinator.coordinator import GroupCoordinator
from bmq.election.election import ControllerClaim, Election, Member
from bmq.internal.handlers import load_all
from bmq.internal.local_roles import HereController, LocalShards, NodeReleases
from bmq.internal.services import InternalServices
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog, TopicPartition
from bmq.log.root import ClusterRoot
from bmq.log.store import SegmentStore
from bmq.membership.assignments import Assignments
from bmq.membership.controller_office import ControllerOffice
from bmq.membership.known_controller import KnownController
from bmq.membership.load_reports import LoadReports
from bmq.membership.metadata_replica import MetadataReplica
from bmq.membership.metadata_seen import MetadataWitnesses
from bmq.membership.peer_watch import PeerWatch
from bmq.membership.registration import Registration, Reports
from bmq.metadata.broker_configs import static_configs
from bmq.metadata.features import SUPPORTED_FEATURES
from bmq.metadata.history import StateChangeHistory
from bmq.metadata.image import ROLE_CONTROLLER, ROLE_PROXY, MetadataImage, Node
from bmq.peers.links import Links
from bmq.protocol.apis import INTERNAL_APIS
from bmq.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from bmq.proxy.appender import Appender
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.limits import BETWEEN_NODES
from bmq.proxy.producer_ids import ProducerIds
from bmq.proxy.server import KafkaServer
from bmq.proxy.services import Services
from bmq.proxy.stall_watch import StallWatch
from bmq.proxy.stats import ProxyStats
from bmq.routing.controller_requests import RemoteController
from bmq.routing.groups import RoutedGroups, RoutedGroupsConfig
from bmq.routing.router import Router

_log = structlog.get_logger("bmq.cli")


class NodeServer:
    """`start` joins the cluster and serves, `stop` leaves it in order. One event loop.

    `rest`: where this node's REST API listens. `election`: not started yet. After `start`, `failed` gets the sentence that
    ends the process. `elapsed_s`: a clock for durations that goes on while the machine sleeps; the event loop's if there is
    none.
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
        elapsed_s: Callable[[], float] | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._election = election
        self._clock = clock
        self._rng = rng
        self._rest = rest
        self._roles = split_roles(settings.roles)
        self._loop = asyncio.get_running_loop()
        self._stats = ProxyStats()
        self._internal_stats = ProxyStats()
        self._stalls = StallWatch(settings.loop_stall_max_ms, elapsed_s)
        self._stalls.on_stall(self._stood_still)  # before connections are dropped
        self._tasks: dict[asyncio.Task[Any], None] = {}  # ended in this order
        self._address: tuple[str, int] | None = None
        self._internal_address = ("", 0)
        self._claim_told: ControllerClaim | None = None
        self._is_started = False
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self.on_controller_ended: Callable[[], None] = lambda: None
        """Called when the active controller is not here any more."""
        # Made by start, in this order; stop takes down what there is.
        self._proxy: KafkaServer | None = None
        self._internal: KafkaServer | None = None
        self._manager: PartitionManager | None = None
        self._links: Links | None = None
        self._known: KnownController | None = None
        self._replica: MetadataReplica | None = None
        self._router: Router | None = None
        self._peers: PeerWatch | None = None
        self._assignments: Assignments | None = None
        self._groups: GroupCoordinator | None = None
        self._routed_groups: RoutedGroups | None = None
        self._remote_controller: RemoteController | None = None
        self._fetcher: Fetcher | None = None
        self._appenders: list[Appender] = []
        self._registration: Registration | None = None
        self._office: ControllerOffice | None = None

    # --- what others look at

    @property
    def image(self) -> MetadataImage:
        return MetadataImage() if self._replica is None else self._replica.image

    @property
    def controller(self) -> Controller | None:
        """The active controller, if it is here."""
        return None if self._office is None else self._office.active

    @property
    def history(self) -> StateChangeHistory | None:
        """Who led which partition when, as this node's metadata has it."""
        return None if self._replica is None else self._replica.history

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        """Of a partition that is owned here, or followed."""
        log = None if self._router is None else self._router.ready(topic_partition)
        return None if log is None else log.high_watermark

    @property
    def is_serving(self) -> bool:
        """Whether it is registered, let in, and accepts what its roles accept."""
        return self._is_started and self._registration is not None and self._registration.is_unfenced

    def partition_states(self) -> Mapping[str, int]:
        return {} if self._manager is None else self._manager.states()

    def summary(self) -> Summary:
        return Summary.of(self._stats, len(self.image.topics), self.partition_states())

    def register_metrics(self, registry: CollectorRegistry) -> None:
        """Show everything this node counts on /metrics; after `start`."""
        assert self._manager is not None and self._fetcher is not None and self._groups is not None
        registry.register(self._stats)
        registry.register(self._manager.collector)
        registry.register(self._fetcher.collector)
        if self._router is not None:
            registry.register(self._router.collector)
        self._groups.metrics.register(registry)

    # --- start

    async def start(self) -> tuple[tuple[str, int] | None, tuple[str, int]]:
        """Serve; where clients (None without a proxy) and other nodes reach this node.

        Raises OSError (a port), RootError, StoreError, ElectionError, RegistrationRefused.
        """
        settings = self._settings
        load_all()
        await self._bind()
        holder = new_holder(settings.node_id, self._rng)
        patience = Patience(settings.start_wait_ms)
        root = await open_own_root(self._store, settings, holder, self._rng, patience)
        member = Member(settings.node_id, holder, *self._internal_address)
        await self._election.start(root.cluster_id)
        await self._election.join(member)
        self._build(root, holder, member)
        await self._run(member)
        _log.info("node_started", cluster_id=root.cluster_id, node_id=settings.node_id, roles=settings.roles)
        return self._address, self._internal_address

    async def _bind(self) -> None:
        settings = self._settings
        is_debug = settings.log_level == "debug"
        if ROLE_PROXY in self._roles:
            self._proxy = KafkaServer(settings.proxy, self._stats, is_debug=is_debug, stalls=self._stalls)
            host, port = await self._proxy.bind(*split_address(settings.listen))
            self._address = split_address(settings.advertised) if settings.advertised else (host, port)
        self._internal = KafkaServer(
            BETWEEN_NODES,
            self._internal_stats,
            is_debug=is_debug,
            apis=INTERNAL_APIS,
            is_ordered=False,
            stalls=self._stalls,
        )
        host, port = await self._internal.bind(*split_address(settings.internal))
        self._internal_address = (
            split_address(settings.internal_advertised) if settings.internal_advertised else (host, port)
        )

    def _build(self, root: ClusterRoot, holder: str, member: Member) -> None:
        settings, loop, cluster_id = self._settings, self._loop, root.cluster_id
        node = self._node()
        self._manager = PartitionManager(
            self._store,
            holder,
            self._clock,
            self._rng,
            settings.broker,
            may_pad=root.may_pad,
        )
        manager = self._manager
        self._links = Links(f"bmq-node-{settings.node_id}", self._address_of, random=self._rng, stalls=self._stalls)
        configs = kafka_configs(settings)
        known = self._known = KnownController(lambda: self._election.leader, lambda: self.image)
        self._replica = MetadataReplica(
            settings.node_id,
            cluster_id,
            self._links,
            known,
            self._image_changed,
            static_configs(node, configs),
            settings.cluster,
            self._rng,
        )
        replica = self._replica

        def image() -> MetadataImage:
            return replica.image

        self._router = Router(settings.node_id, manager, self._links, image, random=self._rng, config=settings.router)
        self._peers = PeerWatch(settings.node_id, self._links, image, self._unreachable)
        visible = self._peers.visible_image
        self._remote_controller = RemoteController(
            self._links,
            visible,
            lambda: known.claim,
            node_id=settings.node_id,
            local=lambda: None if self._office is None else self._office.active,
            random=self._rng,
        )
        self._groups = GroupCoordinator(
            LocalShards(settings.node_id, manager, image),
            self._clock,
            self._rng,
            coordinator_config(replica.broker_configs),
            image,
        )
        groups = self._groups
        self._routed_groups = RoutedGroups(
            settings.node_id,
            groups,
            self._links,
            visible,
            self._remote_controller,
            RoutedGroupsConfig(),
            random=self._rng,
            stalls=self._stalls,
        )
        self._assignments = Assignments(
            settings.node_id, manager, self._links, groups.resign, self._assignments_changed, settings.cluster
        )
        self._fetcher = Fetcher(
            self._store,
            settings.fetch,
            random=self._rng,
            produce_times=(self._stats.produce_times, self._internal_stats.produce_times),
        )
        patient = Appender(self._router, is_patient=True)
        local = Appender(manager)
        self._appenders = [patient, local]
        self._client_services = Services(
            node=node,
            store=self._store,
            partitions=self._router,
            controller=self._remote_controller,
            groups=self._routed_groups,
            clock=self._clock,
            appender=patient,
            fetcher=self._fetcher,
            producer_ids=ProducerIds(self._remote_controller.allocate_producer_ids),
            stats=self._stats,
            loop=loop,
            is_auto_create_enabled=replica.broker_configs.value_of("auto.create.topics.enable") == "true",
            departed=self._peers.departed,
        )
        self._office = ControllerOffice(
            self._election,
            member,
            manager,
            self._store,
            lambda log, epoch: self._make_controller(log, epoch, node, cluster_id, configs),
            self._controller_changed,
            settings.cluster,
            self._rng,
            MetadataWitnesses(settings.node_id, self._election, self._links, lambda: replica.seen).ask,
        )
        self._internal_services = InternalServices(
            node=node,
            store=self._store,
            partitions=manager,
            controller=HereController(self._office, image),
            groups=groups,
            clock=self._clock,
            appender=local,
            fetcher=self._fetcher,
            producer_ids=self._client_services.producer_ids,
            stats=self._internal_stats,
            loop=loop,
            is_auto_create_enabled=False,
            office=self._office,
            manager=manager,
            releases=NodeReleases(self._assignments),
            known=known,
            metadata_seen=lambda: replica.seen,
        )
        reports = LoadReports(manager)
        self._registration = Registration(
            self._registration_request(cluster_id),
            self._links,
            lambda: known.claim,
            lambda: replica.offset,
            Reports(reports.changed, reports.confirm, reports.restart),
            self._suspect,
            settings.cluster,
            self._rng,
        )
        manager.on_owned(self._registration.report_soon)

    async def _run(self, member: Member) -> None:
        assert self._internal is not None and self._replica is not None and self._registration is not None
        assert self._office is not None
        self._stalls.start()
        await self._internal.serve(self._internal_services)
        self._election.on_leader(self._leader_changed)
        self._election.on_members(self._members_changed)
        if ROLE_CONTROLLER in self._roles:
            self._spawn(self._office.run())
            self._office.failed.add_done_callback(self._take_failure)
        self._spawn(self._replica.run())
        self._spawn(self._registration.run())
        self._registration.failed.add_done_callback(self._take_failure)
        let_in = asyncio.ensure_future(self._registration.unfenced.wait())
        either: set[asyncio.Future[Any]] = {let_in, self.failed}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            let_in.cancel()
        if self.failed.done():
            self.failed.result()
        if self._proxy is not None:
            await self._proxy.serve(self._client_services)
        self._is_started = True

    def _make_controller(
        self, log: ReplayableLog, epoch: int, node: Node, cluster_id: str, configs: Mapping[str, str]
    ) -> Controller:
        return Controller(
            log,
            self._store,
            node,
            self._clock,
            self._rng,
            ControllerConfig(
                cluster_id=cluster_id,
                broker_configs=configs,
                successions_at_first=self._settings.cluster.successions_at_first,
                idle_succession_delay_ms=self._settings.cluster.idle_succession_delay_ms,
            ),
            lambda old, new: None,  # this node hears of it as all others do
            epoch=epoch,
            is_cluster=True,
        )

    def _registration_request(self, cluster_id: str) -> BrokerRegistrationRequest:
        settings = self._settings
        listeners = [Listener(name="INTERNAL", host=self._internal_address[0], port=self._internal_address[1])]
        rest = split_address(settings.rest_advertised) if settings.rest_advertised else self._rest
        listeners.append(Listener(name="REST", host=rest[0], port=rest[1]))
        if self._address is not None:
            listeners.append(Listener(name="PLAINTEXT", host=self._address[0], port=self._address[1]))
        return BrokerRegistrationRequest(
            broker_id=settings.node_id,
            cluster_id=cluster_id,
            incarnation_id=UUID(int=self._rng.getrandbits(128), version=4),
            listeners=listeners,
            features=[
                Feature(
                    name=feature.name,
                    min_supported_version=feature.min_supported_version,
                    max_supported_version=feature.max_supported_version,
                )
                for feature in SUPPORTED_FEATURES
            ],
            rack=settings.rack,
            roles=sorted(self._roles),
        )

    def _node(self) -> Node:
        settings = self._settings
        host, port = self._address or ("", -1)
        return Node(
            settings.node_id,
            host,
            port,
            settings.rack,
            internal=self._internal_address,
            rest=self._rest,
            roles=self._roles,
        )

    # --- what changes

    def _address_of(self, node_id: int) -> tuple[str, int] | None:
        leader = None if self._known is None else self._known.claim
        if leader is not None and leader.node_id == node_id:
            return leader.host, leader.port
        node = self.image.nodes.get(node_id)
        if node is None:  # not in our metadata yet; the election knows everybody who is alive
            member = self._election.members.get(node_id)
            return None if member is None else (member.host, member.port)
        return node.internal

    def _image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """In this order: what we own, then who waits for a partition, then what depends on topics and nodes."""
        assert self._assignments is not None and self._router is not None and self._links is not None
        assert self._groups is not None and self._registration is not None
        assert self._routed_groups is not None and self._remote_controller is not None and self._peers is not None
        is_registered = self._replica is not None and self._registration.incarnation_id == self._replica.incarnation
        self._assignments.image_changed(old, new, is_registered=is_registered)
        if new.nodes is not old.nodes:
            self._peers.nodes_changed(new.nodes)
            leader = self._election.leader
            for node_id, node in old.nodes.items():
                now = new.nodes.get(node_id)
                if (now is None or now.epoch != node.epoch) and (leader is None or leader.node_id != node_id):
                    self._links.forget(node_id)
        self._router.image_changed(old, new)
        self._routed_groups.image_changed(old, new)
        self._remote_controller.image_changed()
        gone = [topic.name for topic_id, topic in old.topics_by_id.items() if topic_id not in new.topics_by_id]
        if gone:
            self._groups.topics_deleted([name for name in gone if name not in new.topics])
        if not self._registration.is_unfenced:
            self._registration.hurry()

    def _assignments_changed(self) -> None:
        """What this node owns follows the image by a moment: who waits for a partition or a shard looks again."""
        if self._router is not None and self._routed_groups is not None:
            self._router.wake()
            self._routed_groups.changed()

    def _leader_changed(self, claim: ControllerClaim | None) -> None:
        before, self._claim_told = self._claim_told, claim
        if self._links is not None and before is not None and claim is not None and before.node_id != claim.node_id:
            # A hung controller's links would be waited for; its node may live on in other roles under its own address.
            node = self.image.nodes.get(before.node_id)
            if node is None or node.internal != (before.host, before.port):
                self._links.forget(before.node_id)
        if self._replica is not None:
            self._replica.leader_changed()
        if self._registration is not None:
            self._registration.hurry()

    def _members_changed(self, members: Mapping[int, Member]) -> None:
        controller = self.controller
        if controller is not None:
            for node_id in controller.image.nodes:
                if node_id not in members:
                    controller.node_gone(node_id)

    def _suspect(self, claim: ControllerClaim) -> None:
        if ROLE_CONTROLLER in self._roles and self._office is not None:
            self._office.suspect(claim)

    def _stood_still(self, stall_s: float) -> None:
        """What others sent meanwhile is about to be dropped, so their silence says nothing."""
        if self.controller is not None:
            self.controller.stood_still()
        if self._groups is not None:
            self._groups.stood_still()

    def _unreachable(self, node_id: int) -> None:
        controller = self.controller
        if controller is not None:
            controller.node_gone(node_id)

    async def _controller_changed(self, controller: Controller | None) -> None:
        if controller is not None:
            self._members_changed(self._election.members)
            # Else it would give nodes that died together with its predecessor the time of those that only hang.
            for node_id in self._peers.unreachable if self._peers is not None else ():
                controller.node_gone(node_id)
        else:
            self.on_controller_ended()

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
        """Have the partitions moved, answer what has begun, leave. Fine after a start that failed half-way."""
        if self._is_started and self._registration is not None and not self.failed.done():
            await self._registration.shut_down()
        self._is_started = False
        if self._fetcher is not None:
            self._fetcher.stop_waiting()  # a long max_wait must not hold the stop up
        if self._proxy is not None:
            await self._proxy.stop(self._settings.stop_timeout_ms / 1000 / 4)
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._office is not None:
            await self._office.close()
        if self._assignments is not None:
            await self._assignments.close()
        if self._internal is not None:
            await self._internal.stop(self._settings.stop_timeout_ms / 1000 / 8)
        for appender in self._appenders:
            appender.stop()
        closing: list[Any] = [self._peers, self._fetcher, self._groups, self._router, self._manager]
        for role in closing:
            if role is not None:
                await role.close()
        await self._election.close()
        if self._links is not None:
            await self._links.close()
        self._stalls.close()
