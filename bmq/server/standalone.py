"""Puts all roles together in one process: store, broker, controller, coordinator, proxy. The same for every store.

Sockets, clocks and random numbers are injected: the simulation runs this class.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry

from bmq.admin.channel_watch import ChannelWatch
from bmq.admin.delayed_records import DelayedRecords
from bmq.admin.group_explainer import GroupExplainer
from bmq.admin.group_lag import GroupLag
from bmq.admin.health import HealthFacts, Stage
from bmq.admin.metrics_refresh import refresh_all
from bmq.admin.redrives import Redrives
from bmq.broker.manager import PartitionManager
from bmq.broker.partition_states import Offline
from bmq.broker.topic_metrics import TopicCollector
from bmq.controller.config import ControllerConfig
from bmq.controller.runtime import Controller
from bmq.coordinator.coordinator import GroupCoordinator
from bmq.coordinator.offsets.fetched_offsets import FetchedOffsets
from bmq.coordinator.share_state.config import ShareStateConfig
from bmq.coordinator.share_state.coordinator import ShareStateCoordinator
from bmq.coordinator.transactions.coordinator import TransactionCoordinator
from bmq.coordinator.transactions.group_partitions import GroupPartitions
from bmq.coordinator.transactions.verifications import Verifications
from bmq.dataclass import dataclass
from bmq.internode_server.local_markers import LocalMarkers
from bmq.log.clock import Clock
from bmq.log.compaction import LogCleaning
from bmq.log.names import EpochListing, partition_directory
from bmq.log.partition_log import PartitionStarting, ReplayableLog, TopicPartition
from bmq.log.store import SegmentStore
from bmq.membership.controller_leadership import METADATA, METADATA_LOG
from bmq.metadata.connection_limits import LimitsInForce
from bmq.metadata.history import StateChangeHistory
from bmq.metadata.image import (
    METADATA_TOPIC_NAME,
    OFFSETS_TOPIC_NAME,
    SHARE_STATE_TOPIC_NAME,
    TRANSACTIONS_TOPIC_NAME,
    MetadataImage,
    Node,
    TopicImage,
)
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import BmqError
from bmq.protocol.request_context import RequestMethod, by_itself
from bmq.proxy.appender import Appender
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.local_requests import LocalRequests
from bmq.proxy.log_levels import LogLevels
from bmq.proxy.producer_ids import ProducerIds
from bmq.proxy.server import KafkaServer
from bmq.proxy.services import LaneDecisions, Services
from bmq.proxy.share.consumers import ShareConsumers
from bmq.proxy.share.requests import ShareRequests
from bmq.proxy.share.share_metrics import ShareCollector
from bmq.proxy.stall_watch import StallWatch
from bmq.proxy.stats import ProxyStats
from bmq.proxy.throttles import Throttles
from bmq.proxy.transaction_answers import TransactionAnswers
from bmq.security.delegation_tokens import SECRET_KEY, macs_of
from bmq.server.broker_configs import (
    STANDALONE_DEFAULTS,
    coordinator_config,
    is_compacting,
    is_verifying,
    kafka_configs,
    transaction_config,
    verification_retry,
    warn_without_effect,
)
from bmq.server.client_access import client_access
from bmq.server.client_listeners import ClientListeners
from bmq.server.dead_letters import letter_producers, record_io, redrives
from bmq.server.dynamic_configs import follow
from bmq.server.half_checks import half_checks
from bmq.server.lane_calls import LocalLanes, wire_lanes
from bmq.server.live_summary import Summary
from bmq.server.log_ends import OwnedLogEnds
from bmq.server.login_threads import LoginThreads, sasl_logins
from bmq.server.native_kernel import warn_without_kernel
from bmq.server.otlp_endpoint import client_telemetry
from bmq.server.own_health import unstarted
from bmq.server.own_log import ManagedLog
from bmq.server.own_root import new_holder, open_own_root
from bmq.server.settings import Settings
from bmq.server.share_reading import share_consumers
from bmq.server.share_roles import PartitionEnds
from bmq.server.start_retry import StartRetry, is_log_silent, is_store_silent
from bmq.server.state_topic import StateTopic
from bmq.server.transaction_checks import LocalDecisions, transaction_checks
from bmq.tracing.traces import Traces

log = structlog.get_logger("bmq.cli")

_SUCCESSOR_CHECK_S: Final = 1.0


class MetadataOffline(BmqError):
    """This server can no longer change topics. Nothing is lost: the next start recovers the metadata from its log."""


@dataclass(frozen=True, slots=True)
class StandaloneRoles:
    """All serving roles, complete once the metadata is loaded."""

    controller: Controller
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    share_states: ShareStateCoordinator
    share_consumers: ShareConsumers
    redrives: Redrives
    fetcher: Fetcher
    services: Services

    async def close(self) -> None:
        """Save snapshots that save replay time, and send nothing more to the partitions."""
        await self.redrives.close()
        self.services.appender.stop()
        await self.share_consumers.close()
        await self.fetcher.close()
        await self.services.telemetry.close()
        await self.transactions.close()
        await self.share_states.close()
        await self.groups.close()
        await self.controller.close()


class StandaloneServer:
    """`start` takes over all partitions and serves, `stop` releases them. One event loop.

    `cleaning`: None if nothing is compacted. `trim_memory`: see KafkaServer. `traces`: samples clients' requests.
    """

    def __init__(
        self,
        settings: Settings,
        store: SegmentStore,
        clock: Clock,
        rng: random.Random,
        *,
        cleaning: LogCleaning | None = None,
        log_levels: LogLevels | None = None,
        trim_memory: Callable[[], object] | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._settings = settings
        self._traces = traces
        self._cleaning = cleaning
        self._store = store
        self._clock = clock
        self._rng = rng
        self._log_levels = log_levels or LogLevels(settings.log_level)
        self._stats = ProxyStats()
        self._throttles = Throttles(clock.elapsed_s)
        self._stalls = StallWatch(settings.loop_stall_max_ms, clock.elapsed_s)
        self._stalls.on_stall(self._after_stall)
        self._proxy = KafkaServer(
            settings.proxy,
            self._stats,
            is_debug=settings.log_level == "debug",
            stalls=self._stalls,
            trim_memory=trim_memory,
        )
        if traces is not None:
            self._proxy.use_traces(traces)
        self._listeners = ClientListeners(self._proxy, settings)
        self._login_threads = LoginThreads()
        self.channel_watch = ChannelWatch()
        """Wakes what waits for changes of channels."""
        self._manager: PartitionManager | None = None
        self._roles: StandaloneRoles | None = None
        self._tasks: tuple[asyncio.Task[Any], ...] = ()
        self._started_s = asyncio.get_running_loop().time()
        self._stage = Stage.STORE
        self._refreshed: tuple[TopicCollector | GroupLag, ...] = ()
        self.replaced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when a newer server has fenced this one, which then has nothing left to do."""
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets MetadataOffline when only a restart helps."""

    # --- for inspection
    def inspect(self) -> StandaloneRoles | None:
        """All serving roles; None until the metadata is loaded."""
        return self._roles

    @property
    def manager(self) -> PartitionManager | None:
        """The partitions owned here; None until the store is open."""
        return self._manager

    @property
    def in_flight_bytes(self) -> int:
        """Bytes of requests that are not answered yet."""
        return self._stats.in_flight_bytes

    @property
    def image(self) -> MetadataImage:
        return MetadataImage() if self._roles is None else self._roles.controller.image

    @property
    def controller(self) -> Controller | None:
        """None until the metadata is there."""
        return None if self._roles is None else self._roles.controller

    @property
    def history(self) -> StateChangeHistory | None:
        """When, and why, this server or an earlier one took each partition."""
        return None if self._roles is None else self._roles.controller.history

    @property
    def explainer(self) -> GroupExplainer | None:
        """Explains groups; None until the metadata is there."""
        return None if self._roles is None else GroupExplainer(self._roles.services, self._roles.share_states)

    @property
    def delayed_records(self) -> DelayedRecords | None:
        """Asks about delayed records; None until the metadata is there."""
        if self._roles is None:
            return None
        services = self._roles.services
        return DelayedRecords(services.partitions, services.appender, services.clock)

    @property
    def lanes(self) -> LaneDecisions | None:
        """The lanes of all groups; None until this node serves."""
        return None if self._roles is None else self._roles.services.lanes

    @property
    def transactions(self) -> TransactionCoordinator | None:
        """All transactional ids; None until this node serves."""
        return None if self._roles is None else self._roles.transactions

    @property
    def redrives(self) -> Redrives | None:
        """The redrives of this process; None until the metadata is there."""
        return None if self._roles is None else self._roles.redrives

    @property
    def create_topics(self) -> RequestMethod | None:
        """Answers CreateTopics; None until the metadata is there."""
        return None if self._roles is None else partial(self._roles.controller.handle, ApiKey.CREATE_TOPICS)

    @property
    def kafka_requests(self) -> LocalRequests | None:
        """Kafka requests of REST's clients; None until the metadata is there."""
        return None if self._roles is None else LocalRequests(self._roles.services)

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        """The high watermark of a partition that is started; None for others."""
        log = None if self._manager is None else self._manager.ready(topic_partition)
        return None if log is None else log.high_watermark

    def health(self) -> HealthFacts:
        """What this server knows of its health."""
        waits = () if self._manager is None else unstarted(self._manager.context.start_waits)
        return HealthFacts(self._stage, stalled_ago_s=self._stalls.stalled_ago_s, unstarted=waits)

    def partition_states(self) -> Mapping[str, int]:
        return {} if self._manager is None else self._manager.states()

    def summary(self) -> Summary:
        return Summary.of(self._stats, len(self.image.topics), self.partition_states())

    def register_metrics(self, registry: CollectorRegistry) -> None:
        """Export all counters of this server on /metrics; call after `start`."""
        assert self._manager is not None and self._roles is not None
        registry.register(self._stats)
        registry.register(self._throttles.stats)
        registry.register(self._manager.collector)
        topics = TopicCollector(self._manager.owned, self._settings.metrics.topics_max)
        lag = GroupLag(
            self._roles.groups.positions,
            OwnedLogEnds(self._manager.ready),
            lambda: self.image,
            self._clock.elapsed_s,
            self._settings.metrics,
        )
        registry.register(topics)
        registry.register(lag)
        self._refreshed = (topics, lag)
        registry.register(self._roles.fetcher.collector)
        registry.register(ShareCollector(self._roles.share_consumers))
        registry.register(self._roles.services.telemetry.stats)
        self._roles.controller.metrics.register(registry)
        self._roles.groups.metrics.register(registry)
        self._roles.transactions.metrics.register(registry)
        self._roles.share_states.metrics.register(registry)

    async def refresh_metrics(self) -> None:
        """Ask what a scrape needs; before each one."""
        await refresh_all(self._refreshed)

    # --- start
    async def start(self) -> tuple[str, int]:
        """Serve. Returns the client address. Raises OSError (the port), RootError, StoreError, KafkaError."""
        settings, loop = self._settings, asyncio.get_running_loop()
        warn_without_effect(settings)
        warn_without_kernel()
        holder = new_holder(settings.node_id, self._rng)
        host, port = await self._listeners.bind()
        node = Node(settings.node_id, host, port, settings.rack, listeners=self._listeners.others)
        retry = StartRetry(settings.start_wait_ms)
        root = await open_own_root(self._store, settings, holder, self._rng, retry)
        manager = PartitionManager(self._store, holder, self._clock, self._rng, settings.broker, may_pad=root.may_pad)
        self._manager = manager
        self._stage = Stage.METADATA
        await retry.until_done(lambda: self._assign_metadata(manager), may_pass=is_store_silent)
        metadata_log = await retry.until_done(
            lambda: manager.leader_of(METADATA), may_pass=lambda error: isinstance(error, PartitionStarting)
        )
        controller = await retry.until_done(
            lambda: self._started_controller(manager, metadata_log, node, root.cluster_id), may_pass=is_log_silent
        )
        roles = self._roles = self._build(node, manager, controller)
        follow(controller.broker_configs, manager, roles.groups, roles.transactions, self._throttles)
        self._throttles.quotas_changed(controller.image.client_quotas)
        self._stalls.start()
        await self._listeners.serve(roles.services)
        roles.transactions.shards_changed()
        roles.share_states.shards_changed()
        # A request for a partition starts it at once; the others start in the background, unsealed ones first.
        self._tasks = (
            loop.create_task(self._watch_metadata(manager, metadata_log, controller)),
            loop.create_task(manager.start_all()),
            loop.create_task(self._listeners.watch()),
        )
        self._stage = Stage.SERVING
        log.info("roles_started", cluster_id=root.cluster_id, seconds=round(loop.time() - self._started_s, 3))
        return host, port

    def _build(self, node: Node, manager: PartitionManager, controller: Controller) -> StandaloneRoles:
        groups = GroupCoordinator(
            StateTopic(OFFSETS_TOPIC_NAME, controller, manager),
            self._clock,
            self._rng,
            coordinator_config(controller.broker_configs),
            lambda: controller.image,
            create_topics=partial(controller.handle, ApiKey.CREATE_TOPICS),
            may_describe=lambda context, topic: services.access.may_describe(context, topic),
        )
        producer_ids = ProducerIds(controller.allocate_producer_ids)
        markers = LocalMarkers(manager, groups, lambda: controller.image)
        transactions = TransactionCoordinator(
            StateTopic(TRANSACTIONS_TOPIC_NAME, controller, manager),
            self._clock,
            self._rng,
            transaction_config(controller.broker_configs),
            lambda: controller.image,
            producer_ids=producer_ids,
            markers=markers,
            groups=GroupPartitions(lambda: controller.image, controller.auto_create_topic),
        )
        opener = BatchOpener()
        io = record_io(manager, lambda: fetcher, lambda: services.appender, lambda: producer_ids, opener)
        posts = half_checks(manager, lambda: controller.image, io, self._clock, self._settings.half_checks)
        transaction_checks(transactions, posts, lambda: controller.image, io, self._clock)
        create_topics = partial(controller.handle, ApiKey.CREATE_TOPICS)
        letters, retry_letters = letter_producers(
            io, lambda: controller.image, self._clock, create_topics, controller.broker_configs
        )
        share_states = ShareStateCoordinator(
            StateTopic(SHARE_STATE_TOPIC_NAME, controller, manager),
            self._clock,
            ShareStateConfig(),
            lambda: controller.image,
            lambda: groups.config.share,
            lambda node_id, node_epoch: False,  # the only node is this process; locks of its predecessor run out
            letters,
        )
        groups.share_states.use(share_states, PartitionEnds(manager))
        lanes = LocalLanes(groups)
        wire_lanes(groups, lanes, manager, io, lambda: controller.image)
        asking = by_itself(ApiKey.ADD_PARTITIONS_TO_TXN)
        verifier = Verifications(
            lambda request: transactions.add_partitions_to_txn(request, asking),
            lambda transactional_id: self._settings.node_id,
            lambda: is_verifying(controller.broker_configs),
        )
        if self._traces is not None:
            manager.use_traces(self._traces.appends)
        manager.use_retry_letters(retry_letters)
        manager.use_transactions(verifier, verification_retry(controller.broker_configs))
        groups.use_transactions(verifier)
        if self._cleaning is not None and is_compacting(controller.broker_configs):
            manager.use_cleaning(self._cleaning)
        manager.use_committed_offsets(FetchedOffsets(groups, lambda topic_id: controller.image.view_ids(topic_id)))
        fetcher = Fetcher(
            self._store,
            self._settings.fetch,
            random=self._rng,
            produce_times=(self._stats.produce_times,),
            elapsed_s=self._clock.elapsed_s,
        )
        configs = controller.broker_configs
        consumers = share_consumers(fetcher, share_states, lambda: groups.config.share, configs, opener=opener)
        services = Services(
            node=node,
            store=self._store,
            partitions=manager,
            controller=controller,
            groups=groups,
            transactions=transactions,
            markers=markers,
            clock=self._clock,
            appender=Appender(manager, retries=False),
            fetcher=fetcher,
            response_budget=fetcher.shared.budget,
            share=ShareRequests(consumers),
            producer_ids=producer_ids,
            stats=self._stats,
            loop=asyncio.get_running_loop(),
            is_auto_create_enabled=controller.broker_configs.value_of("auto.create.topics.enable") == "true",
            own_log=ManagedLog(self._settings, manager),
            telemetry=client_telemetry(self._settings.telemetry, controller.broker_configs, self._rng),
            log_levels=self._log_levels,
            throttles=self._throttles,
            connection_limits=LimitsInForce(lambda: controller.broker_configs),
            access=client_access(controller.broker_configs, lambda: controller.image),
            logins=sasl_logins(self._login_threads, lambda: controller.image, self._clock, controller.broker_configs),
            token_macs=macs_of(controller.broker_configs.value_of(SECRET_KEY)),
            described_partitions_max=controller.broker_configs.number("max.request.partition.size.limit"),
            share_states=share_states,
            lanes=lanes,
            answers=TransactionAnswers(LocalDecisions(transactions), opener),
        )
        again = redrives(io, lambda: controller.image, groups, self._clock, self._rng, lambda: True)
        return StandaloneRoles(controller, groups, transactions, share_states, consumers, again, fetcher, services)

    def _after_stall(self, stall_s: float) -> None:
        if self._roles is not None:
            self._roles.groups.after_stall()
            self._roles.transactions.after_stall()
            self._roles.share_states.after_stall()

    async def _watch_metadata(
        self, manager: PartitionManager, metadata_log: ReplayableLog, controller: Controller
    ) -> None:
        """Ends when this server can no longer change metadata: no part of this process assigns the metadata log again.

        A fenced partition was taken by another server of the same root. An idle server has no failing writes, so it checks
        whether it still owns the metadata log. In a cluster the next controller recovers a metadata log that went offline;
        here only a restart does (rule 23).
        """
        fenced_before = 0
        while True:
            await asyncio.sleep(_SUCCESSOR_CHECK_S)
            with contextlib.suppress(BmqError):
                await metadata_log.prove_ownership()
            fenced = manager.counts.fenced
            # Partitions of deleted topics count as fenced too, so the count only says when to look closer.
            if fenced != fenced_before and manager.fenced():
                log.error("replaced_by_another_server", partitions=len(manager.fenced()))
                self.replaced.set_result(None)
                return
            fenced_before = fenced
            if (reason := _metadata_failure(manager, controller)) is not None:
                log.error("metadata_offline", reason=reason)
                self.failed.set_exception(MetadataOffline(f"{reason}; start the server again, which recovers it"))
                self.failed.exception()  # waiting callers still get it; without any, asyncio would log a warning
                return

    async def _started_controller(
        self, manager: PartitionManager, metadata_log: ReplayableLog, node: Node, cluster_id: str
    ) -> Controller:
        controller = Controller(
            metadata_log,
            self._store,
            node,
            self._clock,
            self._rng,
            ControllerConfig(
                cluster_id=cluster_id,
                broker_configs=kafka_configs(self._settings, STANDALONE_DEFAULTS),
                log_level=self._settings.log_level,
            ),
            partial(self._image_changed, manager),
        )
        try:
            await controller.start()
        except BaseException:
            await controller.close()
            raise
        return controller

    async def _assign_metadata(self, partitions: PartitionManager) -> None:
        """Own `__cluster_metadata` at an epoch above all in its directory."""
        directory = partition_directory(METADATA)
        await self._store.make_directories(directory)
        listing = EpochListing.of(await self._store.list_directory(directory))
        epoch = 1 + max(listing.open_epochs | listing.sealed_epochs, default=0)
        partitions.assign(METADATA, epoch, METADATA_TOPIC_NAME, METADATA_LOG)

    def _image_changed(self, manager: PartitionManager, old: MetadataImage, new: MetadataImage) -> None:
        """Give the broker its assignments. Called for each new image, before all other listeners."""
        for topic_id, topic in new.topics_by_id.items():
            before = old.topics_by_id.get(topic_id)
            if before is not topic and topic.view is None:
                self._topic_changed(manager, before, topic)
        gone = [topic for topic_id, topic in old.topics_by_id.items() if topic_id not in new.topics_by_id]
        for topic in gone:
            for partition in topic.partitions:
                manager.drop(TopicPartition(topic.topic_id, partition.partition))
        if gone and self._roles is not None:
            self._roles.groups.topics_deleted([topic.name for topic in gone if topic.name not in new.topics])
        if self._roles is not None:
            if new.broker_configs is not old.broker_configs:
                roles, throttles = self._roles, self._throttles
                follow(roles.controller.broker_configs, manager, roles.groups, roles.transactions, throttles)
            self._throttles.quotas_changed(new.client_quotas)
            self._roles.groups.image_changed(old, new)
        self.channel_watch.image_changed(old, new)

    def _topic_changed(self, manager: PartitionManager, before: TopicImage | None, topic: TopicImage) -> None:
        has_new_config = before is not None and before.log_config != topic.log_config
        for partition in topic.partitions:
            key = TopicPartition(topic.topic_id, partition.partition)
            if partition.leader == self._settings.node_id:
                manager.assign(key, partition.leader_epoch, topic.name, topic.log_config)
                if has_new_config:
                    manager.update_config(key, topic.log_config)
            else:
                manager.drop(key)

    # --- stop
    async def stop(self) -> None:
        """Answer requests under way, save checkpoints, seal every epoch. May be called after a start that failed half-way."""
        self._stage = Stage.STOPPING
        self._stalls.close()
        self.channel_watch.close()
        self._login_threads.close()
        for task in self._tasks:
            task.cancel()
            await asyncio.wait({task})
        if self._roles is not None:
            self._roles.fetcher.stop_waiting()  # a long max_wait must not delay the stop
        await self._proxy.stop(self._settings.stop_timeout_ms / 1000 / 2)
        if self._roles is not None:
            await self._roles.close()
        if self._manager is not None:
            await self._manager.close()


def _metadata_failure(manager: PartitionManager, controller: Controller) -> str | None:
    """Why metadata changes cannot be written here; None if they can. For a server that is not fenced."""
    for runtime in manager.unserved():
        if runtime.topic_partition == METADATA and isinstance(runtime.state, Offline):
            return f"the metadata log failed ({runtime.offline_error()})"
    return "the metadata could not be applied as it was written" if controller.gone.is_set() else None
