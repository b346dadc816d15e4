"""Wires the parts of a cluster node: metadata, partitions, coordinators, controller, and their notifications.

It is complete once it is made. `node.py` starts the parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final
from uuid import UUID

from prometheus_client import CollectorRegistry

from bmq.admin.group_lag import GroupLag
from bmq.admin.metrics_refresh import refresh_all
from bmq.broker.manager import PartitionManager
from bmq.broker.topic_metrics import TopicCollector
from bmq.controller.config import ControllerConfig
from bmq.controller.metrics import ActiveControllerMetrics, ControllerMetrics
from bmq.controller.runtime import Controller
from bmq.coordinator.coordinator import GroupCoordinator
from bmq.coordinator.offsets.fetched_offsets import FetchedOffsets
from bmq.coordinator.transactions.coordinator import TransactionCoordinator
from bmq.coordinator.transactions.group_partitions import GroupPartitions
from bmq.election.election import ControllerClaim, Member
from bmq.internode_client.links import Links
from bmq.internode_server.local_markers import LocalMarkers
from bmq.internode_server.local_roles import LocalController, LocalShards, NodeReleases
from bmq.internode_server.services import InternalServices
from bmq.log.partition_log import ReplayableLog
from bmq.log.root import ClusterRoot
from bmq.membership.assignments import Assignments
from bmq.membership.controller_hearing import ControllerHearing
from bmq.membership.controller_leadership import ControllerLeadership
from bmq.membership.known_controller import KnownController
from bmq.membership.load_reports import LoadReports
from bmq.membership.metadata_replica import MetadataReplica
from bmq.membership.metadata_seen import MetadataWitnesses
from bmq.membership.peer_watch import PeerWatch
from bmq.membership.registration import Registration, Reports
from bmq.membership.store_watch import StoreWatch
from bmq.metadata.broker_configs import static_configs
from bmq.metadata.connection_limits import LimitsInForce
from bmq.metadata.features import SUPPORTED_FEATURES
from bmq.metadata.image import (
    OFFSETS_TOPIC_NAME,
    ROLE_CONTROLLER,
    ROLE_PROXY,
    SHARE_STATE_TOPIC_NAME,
    TRANSACTIONS_TOPIC_NAME,
    MetadataImage,
    Node,
)
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from bmq.proxy.appender import Appender
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.producer_ids import ProducerIds
from bmq.proxy.sasl_logins import SaslLogins
from bmq.proxy.services import Services
from bmq.proxy.share.requests import ShareRequests
from bmq.proxy.share.share_metrics import ShareCollector
from bmq.proxy.throttles import Throttles
from bmq.proxy.transaction_answers import TransactionAnswers
from bmq.routing.controller_requests import RemoteController
from bmq.routing.groups import RoutedGroups, RoutedGroupsConfig
from bmq.routing.router import Router
from bmq.routing.shard_routing import NodeRoutes, ShardRoutingConfig
from bmq.routing.transaction_markers import RoutedMarkers, RoutedMarkersConfig
from bmq.routing.transactions import RoutedTransactions
from bmq.security.delegation_tokens import SECRET_KEY, macs_of
from bmq.server.broker_configs import (
    coordinator_config,
    is_compacting,
    is_verifying,
    kafka_configs,
    transaction_config,
    verification_retry,
)
from bmq.server.client_access import client_access
from bmq.server.dead_letters import letter_producers, record_io, redrives
from bmq.server.dynamic_configs import follow
from bmq.server.half_checks import half_checks
from bmq.server.lane_calls import wire_lanes
from bmq.server.log_ends import OwnedLogEnds
from bmq.server.login_threads import LoginThreads, sasl_logins
from bmq.server.node_dependencies import NodeDependencies
from bmq.server.otlp_endpoint import client_telemetry
from bmq.server.own_log import ManagedLog
from bmq.server.settings import split_address
from bmq.server.share_roles import PartitionEnds, ShareRoles
from bmq.server.transaction_checks import transaction_checks

_UNREACHABLE: Final = "cannot be reached"  # by the links between nodes


class NodeRoles:
    """`address`: the client address of this node, None without a proxy. `member`: its entry in the election. `listeners`:
    (name, host, port) of other client listeners.
    """

    def __init__(
        self,
        dependencies: NodeDependencies,
        root: ClusterRoot,
        address: tuple[str, int] | None,
        member: Member,
        listeners: tuple[tuple[str, str, int], ...] = (),
    ) -> None:
        settings = dependencies.settings
        self._dependencies = dependencies
        self._settings = settings
        self._election = dependencies.election
        self._claim_told: ControllerClaim | None = None
        self._configs = kafka_configs(settings)
        self._cluster_id = root.cluster_id
        self._address = address
        self._internal_address = member.host, member.port
        self._node = Node(
            settings.node_id,
            *(address or ("", -1)),
            settings.rack,
            internal=self._internal_address,
            rest=dependencies.rest,
            roles=dependencies.roles,
            listeners=listeners,
        )
        self._make_storage(root, member.incarnation)
        self._make_coordinators()
        self._make_membership(member)
        self._topic_metrics = TopicCollector(self.manager.owned, settings.metrics.topics_max)
        self._group_lag = self._make_group_lag()
        self.client_services = self._client_services()
        self.internal_services = self._internal_services()

    def _make_storage(self, root: ClusterRoot, incarnation: str) -> None:
        """This node's partitions, the metadata that it follows, and the way to other nodes."""
        dependencies, settings, rng = self._dependencies, self._settings, self._dependencies.rng
        self.manager = manager = PartitionManager(
            dependencies.store, incarnation, dependencies.clock, rng, settings.broker, may_pad=root.may_pad
        )
        self.links = Links(
            f"bmq-node-{settings.node_id}",
            self._address_of,
            random=rng,
            stalls=dependencies.stalls,
            tls=dependencies.link_tls,
        )
        self.known = KnownController(lambda: dependencies.election.leader, self._image)
        self.replica = MetadataReplica(
            settings.node_id,
            root.cluster_id,
            self.links,
            self.known,
            self._image_changed,
            static_configs(self._node, self._configs),
            settings.cluster,
            rng,
        )
        self.router = Router(settings.node_id, manager, self.links, self._image, random=rng, config=settings.router)
        if dependencies.hooks.traces is not None:
            manager.use_traces(dependencies.hooks.traces.appends)
            self.router.context.traced_appends = dependencies.hooks.traces.appends
        self.peers = PeerWatch(settings.node_id, self.links, self._image, self._unreachable)
        self.remote_controller = RemoteController(
            self.links,
            self.peers.visible_image,
            lambda: self.known.claim,
            node_id=settings.node_id,
            local=lambda: self.controller,
            random=rng,
            elapsed_s=dependencies.clock.elapsed_s,
        )

    def _make_coordinators(self) -> None:
        """Coordinators of groups and transactions: those of this node, and the routes to those of other nodes."""
        dependencies, settings, rng, manager = self._dependencies, self._settings, self._dependencies.rng, self.manager
        self.groups = GroupCoordinator(
            LocalShards(OFFSETS_TOPIC_NAME, settings.node_id, manager, self._image),
            dependencies.clock,
            rng,
            dependencies.hooks.coordinator_config(coordinator_config(self.replica.broker_configs)),
            self._image,
            create_topics=partial(self.remote_controller.handle, ApiKey.CREATE_TOPICS),
            may_describe=lambda context, topic: self.client_services.access.may_describe(context, topic),
        )
        routes = NodeRoutes(
            settings.node_id,
            self.links,
            self.peers.visible_image,
            self.remote_controller,
            rng,
            dependencies.stalls,
        )
        self.routed_groups = RoutedGroups(self.groups, routes, RoutedGroupsConfig())
        self.producer_ids = ProducerIds(self.remote_controller.allocate_producer_ids)
        self.local_markers = LocalMarkers(manager, self.groups, self._image)
        self.routed_markers = RoutedMarkers(
            settings.node_id, self.local_markers, self.links, self.peers.visible_image, RoutedMarkersConfig()
        )
        self.transactions = TransactionCoordinator(
            LocalShards(TRANSACTIONS_TOPIC_NAME, settings.node_id, manager, self._image),
            dependencies.clock,
            rng,
            dependencies.hooks.transaction_config(transaction_config(self.replica.broker_configs)),
            self._image,
            producer_ids=self.producer_ids,
            markers=self.routed_markers,
            groups=GroupPartitions(self._image, self.remote_controller.auto_create_topic),
        )
        self.routed_transactions = RoutedTransactions(
            self.transactions,
            routes,
            ShardRoutingConfig(),
            is_verifying=lambda: is_verifying(self.replica.broker_configs),
        )
        self._opener = BatchOpener(dependencies.hooks.run_aside)
        self.record_io = record_io(
            self.router,
            lambda: self.fetcher,
            lambda: self.client_services.appender,
            lambda: self.producer_ids,
            self._opener,
        )
        posts = half_checks(manager, self._image, self.record_io, dependencies.clock, settings.half_checks)
        transaction_posts = dependencies.hooks.transaction_posts or posts
        transaction_checks(self.transactions, transaction_posts, self._image, self.record_io, dependencies.clock)
        create_topics = partial(self.remote_controller.handle, ApiKey.CREATE_TOPICS)
        clock, config = dependencies.clock, dependencies.hooks.share_state
        configs = self.replica.broker_configs
        letters, retry_letters = letter_producers(self.record_io, self._image, clock, create_topics, configs)
        self.share = ShareRoles(manager, self._image, routes, lambda: self.groups.config.share, clock, config, letters)
        self.redrives = redrives(
            self.record_io, self._image, self.routed_groups, clock, rng, lambda: self.controller is not None
        )
        self.groups.share_states.use(self.share.routed, PartitionEnds(self.router))
        manager.use_retry_letters(retry_letters)
        wire_lanes(self.groups, self.routed_groups.lanes, self.router, self.record_io, self._image)
        manager.use_transactions(self.routed_transactions, verification_retry(self.replica.broker_configs))
        self.groups.use_transactions(self.routed_transactions)
        if dependencies.hooks.cleaning is not None and is_compacting(self.replica.broker_configs):
            manager.use_cleaning(dependencies.hooks.cleaning)
        manager.use_committed_offsets(FetchedOffsets(self.routed_groups, lambda one: self.replica.image.view_ids(one)))

    def _make_membership(self, member: Member) -> None:
        """This node's reports and assignments, and the controller that runs if the node is elected."""
        dependencies, settings, rng, manager = self._dependencies, self._settings, self._dependencies.rng, self.manager
        self.assignments = Assignments(
            settings.node_id,
            manager,
            self.links,
            {
                OFFSETS_TOPIC_NAME: self.groups.resign,
                TRANSACTIONS_TOPIC_NAME: self.transactions.resign,
                SHARE_STATE_TOPIC_NAME: self.share.local.resign,
            },
            self._assignments_changed,
            settings.cluster,
            log_config=dependencies.hooks.log_config,
            is_store_away=lambda: self.store_watch.is_away,
        )
        self.throttles = Throttles(dependencies.clock.elapsed_s)
        self.fetcher = Fetcher(
            dependencies.store,
            settings.fetch,
            random=rng,
            produce_times=(dependencies.stats.produce_times, dependencies.internal_stats.produce_times),
            elapsed_s=dependencies.clock.elapsed_s,
            run_aside=dependencies.hooks.run_aside,
        )
        self.share_consumers = self.share.consumers(self.fetcher, self.replica.broker_configs, self._opener)
        self.leadership = ControllerLeadership(
            dependencies.election,
            member,
            manager,
            dependencies.store,
            self._make_controller,
            self._controller_changed,
            settings.cluster.retry_backoff(rng),
            MetadataWitnesses(settings.node_id, dependencies.election, self.links, lambda: self.replica.seen).ask,
        )
        self.store_watch = StoreWatch(
            dependencies.store,
            member.incarnation,
            manager,
            settings.cluster.store_silence_max_ms / 1000,
            lambda: self.registration.report_soon(),
        )
        self.leadership.campaign_only_while(lambda: not self.store_watch.is_away)
        self.leadership.spare_while(ControllerHearing(settings.node_id, dependencies.election, self.links).is_heard)
        reports = LoadReports(manager)
        self.registration = Registration(
            self._registration_request(),
            self.links,
            lambda: self.known.claim,
            lambda: self.replica.offset,
            Reports(
                reports.changed,
                reports.confirm,
                reports.restart,
                self.throttles.uses,
                self.throttles.take_shares,
                lambda: self.store_watch.state,
                self.store_watch.want_writing,
            ),
            self._suspect,
            settings.cluster,
            rng,
        )
        manager.on_owned(self.registration.report_soon)
        self._follow_configs()
        self._login_threads = LoginThreads()

    @property
    def controller(self) -> Controller | None:
        """The active controller, if it is here."""
        return self.leadership.active

    def register_metrics(self, registry: CollectorRegistry) -> None:
        """Export all counters of this node on /metrics."""
        registry.register(self._dependencies.stats)
        registry.register(self.throttles.stats)
        registry.register(self.manager.collector)
        registry.register(self._topic_metrics)
        registry.register(self._group_lag)
        registry.register(self.fetcher.collector)
        registry.register(ShareCollector(self.share_consumers))
        registry.register(self.client_services.telemetry.stats)
        registry.register(self.router.collector)
        if ROLE_CONTROLLER in self._dependencies.roles:
            registry.register(ActiveControllerMetrics(self._controller_metrics))
        self.groups.metrics.register(registry)
        self.transactions.metrics.register(registry)
        self.share.register_metrics(registry)

    async def refresh_metrics(self) -> None:
        """Ask what a scrape needs; before each one."""
        await refresh_all((self._topic_metrics, self._group_lag))

    def _make_group_lag(self) -> GroupLag:
        settings = self._settings
        wait_s = settings.metrics.scrape_wait_ms / 1000
        elapsed_s = self._dependencies.clock.elapsed_s
        ends = OwnedLogEnds(self.manager.ready, self.router, self._image, settings.node_id, wait_s, elapsed_s)
        return GroupLag(self.groups.positions, ends, self._image, elapsed_s, settings.metrics)

    def _controller_metrics(self) -> ControllerMetrics | None:
        return None if self.controller is None else self.controller.metrics

    def _client_services(self) -> Services:
        dependencies = self._dependencies
        return Services(
            node=self._node,
            store=dependencies.store,
            partitions=self.router,
            controller=self.remote_controller,
            groups=self.routed_groups,
            transactions=self.routed_transactions,
            markers=self.routed_markers,
            clock=dependencies.clock,
            appender=Appender(self.router, starts_waiting=lambda: self.manager.starts_waiting),
            fetcher=self.fetcher,
            response_budget=self.fetcher.shared.budget,
            share=ShareRequests(self.share_consumers),
            producer_ids=self.producer_ids,
            stats=dependencies.stats,
            loop=asyncio.get_running_loop(),
            is_auto_create_enabled=self.replica.broker_configs.value_of("auto.create.topics.enable") == "true",
            departed=self.peers.departed,
            own_log=ManagedLog(self._settings, self.manager),
            telemetry=client_telemetry(self._settings.telemetry, self.replica.broker_configs, dependencies.rng),
            log_levels=dependencies.log_levels,
            throttles=self.throttles,
            connection_limits=LimitsInForce(lambda: self.replica.broker_configs),
            access=client_access(self.replica.broker_configs, self._image),
            logins=self._logins(),
            token_macs=macs_of(self.replica.broker_configs.value_of(SECRET_KEY)),
            described_partitions_max=self.replica.broker_configs.number("max.request.partition.size.limit"),
            share_states=self.share.routed,
            lanes=self.routed_groups.lanes,
            answers=TransactionAnswers(self.routed_transactions.decisions, self._opener),
        )

    def _logins(self) -> SaslLogins:
        clock, configs = self._dependencies.clock, self.replica.broker_configs
        logins = sasl_logins(self._login_threads, self._image, clock, configs)
        logins.is_current = lambda: self.replica.is_current
        return logins

    def _internal_services(self) -> InternalServices:
        dependencies = self._dependencies
        return InternalServices(
            node=self._node,
            store=dependencies.store,
            partitions=self.manager,
            controller=LocalController(self.leadership, self._image),
            groups=self.groups,
            transactions=self.transactions,
            markers=self.local_markers,
            clock=dependencies.clock,
            appender=Appender(self.manager, retries=False),
            fetcher=self.fetcher,
            response_budget=self.fetcher.shared.budget,
            producer_ids=self.producer_ids,
            stats=dependencies.internal_stats,
            loop=asyncio.get_running_loop(),
            is_auto_create_enabled=False,
            leadership=self.leadership,
            manager=self.manager,
            releases=NodeReleases(self.assignments),
            known=self.known,
            share_calls=self.share.local,
            metadata_seen=lambda: self.replica.seen,
            hears_controller=self.registration.hears,
            client_access=self.client_services.access,
        )

    def _make_controller(self, log: ReplayableLog, epoch: int) -> Controller:
        dependencies = self._dependencies
        config = ControllerConfig(
            cluster_id=self._cluster_id,
            broker_configs=self._configs,
            log_level=self._settings.log_level,
            node_session_timeout_ms=self._settings.cluster.node_session_timeout_ms,
            failovers_at_first=self._settings.cluster.failovers_at_first,
            idle_failover_delay_ms=self._settings.cluster.idle_failover_delay_ms,
            run_aside=dependencies.hooks.run_aside,
        )
        controller = Controller(
            log,
            dependencies.store,
            self._node,
            dependencies.clock,
            dependencies.rng,
            dependencies.hooks.controller_config(config),
            dependencies.hooks.on_controller_image,  # the node itself gets the image through its replica, as all others do
            epoch=epoch,
        )
        dependencies.hooks.on_elected()
        return controller

    def _registration_request(self) -> BrokerRegistrationRequest:
        settings = self._settings
        rest = split_address(settings.rest_advertised) if settings.rest_advertised else self._dependencies.rest
        places = {"INTERNAL": self._internal_address, "REST": rest, "PLAINTEXT": self._address}
        places.update((name, (host, port)) for name, host, port in self._node.listeners)
        return BrokerRegistrationRequest(
            broker_id=settings.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=UUID(int=self._dependencies.rng.getrandbits(128), version=4),
            listeners=[Listener(name=name, host=at[0], port=at[1]) for name, at in places.items() if at is not None],
            features=[
                Feature(
                    name=feature.name,
                    min_supported_version=feature.min_supported_version,
                    max_supported_version=feature.max_supported_version,
                )
                for feature in SUPPORTED_FEATURES
            ],
            rack=settings.rack,
            roles=sorted(self._dependencies.roles),
        )

    # --- changes

    def leader_changed(self, claim: ControllerClaim | None) -> None:
        """The election shows another active controller."""
        before, self._claim_told = self._claim_told, claim
        if before is not None and claim is not None and before.node_id != claim.node_id:
            # Drop the links to a former controller, which may hang, unless its node is registered at the same address.
            node = self._image().nodes.get(before.node_id)
            if node is None or node.internal != (before.host, before.port):
                self.links.forget(before.node_id)
        self.replica.leader_changed()
        self.registration.send_soon()

    def members_changed(self, members: Mapping[int, Member]) -> None:
        """The election shows other members."""
        if (controller := self.controller) is not None:
            for node_id in controller.image.nodes:
                if node_id not in members:
                    controller.node_gone(node_id, "lost its session with the election")

    def after_stall(self) -> None:
        """This process was stalled and is about to drop messages that came meanwhile, so other nodes' silence proves nothing."""
        if self.controller is not None:
            self.controller.after_stall()
        self.groups.after_stall()
        self.transactions.after_stall()
        self.share.local.after_stall()

    def _image(self) -> MetadataImage:
        return self.replica.image

    def _address_of(self, node_id: int) -> tuple[str, int] | None:
        leader = self.known.claim
        if leader is not None and leader.node_id == node_id:
            return leader.host, leader.port
        node = self._image().nodes.get(node_id)
        if node is None:  # not in our metadata yet; the election knows all live nodes
            member = self._election.members.get(node_id)
            return None if member is None else (member.host, member.port)
        return node.internal

    def _image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Follow a new image: first assignments, then callers that wait for a partition, then parts that follow topics and
        nodes.
        """
        is_registered = self.registration.incarnation_id == self.replica.incarnation
        self.assignments.image_changed(old, new, is_registered=is_registered)
        if new.nodes is not old.nodes:
            self.peers.nodes_changed(new.nodes)
            self.throttles.set_proxies(sum(ROLE_PROXY in node.roles for node in new.nodes.values()))
            leader = self._election.leader
            for node_id, node in old.nodes.items():
                now = new.nodes.get(node_id)
                if (now is None or now.epoch != node.epoch) and (leader is None or leader.node_id != node_id):
                    self.links.forget(node_id)
        self.router.image_changed(old, new)
        self.routed_groups.image_changed(old, new)
        self.routed_transactions.image_changed(old, new)
        self.share.image_changed(old, new)
        self.transactions.shards_changed()
        self.remote_controller.image_changed()
        gone = [topic.name for topic_id, topic in old.topics_by_id.items() if topic_id not in new.topics_by_id]
        if gone:
            self.groups.topics_deleted([name for name in gone if name not in new.topics])
        if new.broker_configs is not old.broker_configs:
            self._follow_configs()
        self.throttles.quotas_changed(new.client_quotas)
        self.groups.image_changed(old, new)
        if not self.registration.is_unfenced:
            self.registration.send_soon()
        self._dependencies.channel_watch.image_changed(old, new)
        self._dependencies.hooks.on_image(old, new)

    def _follow_configs(self) -> None:
        configs, hooks = self.replica.broker_configs, self._dependencies.hooks
        follow(configs, self.manager, self.groups, self.transactions, self.throttles, hooks.coordinator_config)

    def _assignments_changed(self) -> None:
        """This node's partitions changed, a moment after the image: wake requests that wait for them or for shards."""
        self.router.wake()
        self.routed_groups.changed()
        self.routed_transactions.changed()
        self.share.partitions_changed()
        self.transactions.shards_changed()

    def _suspect(self, claim: ControllerClaim) -> None:
        if ROLE_CONTROLLER in self._dependencies.roles:
            self.leadership.suspect(claim)

    def _unreachable(self, node_id: int) -> None:
        if self.controller is not None:
            self.controller.node_gone(node_id, _UNREACHABLE)

    async def _controller_changed(self, controller: Controller | None) -> None:
        if controller is None:
            self._dependencies.hooks.on_controller_ended()
            return
        self._dependencies.hooks.on_controller_started()
        self.members_changed(self._election.members)
        # Otherwise nodes that died together with the previous controller would keep their full session timeout.
        for node_id in self.peers.unreachable:
            controller.node_gone(node_id, _UNREACHABLE)

    # --- the end

    def end_waits(self) -> None:
        """Of requests that wait for other nodes: their clients are told to ask elsewhere."""
        self.router.end_waits()
        self.routed_groups.end_waits()
        self.routed_transactions.end_waits()

    async def close(self) -> None:
        """Close peers, fetching, coordinators and partitions. Links and the election stay open: the caller closes them."""
        self._login_threads.close()
        await self.redrives.close()
        for services in (self.client_services, self.internal_services):
            services.appender.stop()
        await self.peers.close()
        await self.share_consumers.close()
        await self.fetcher.close()
        await self.client_services.telemetry.close()
        await self.transactions.close()
        await self.share.local.close()
        await self.groups.close()
        await self.router.close()
        await self.manager.close()
