"""Dependencies that a cluster node is handed: settings, store, election, clock, random numbers, and hooks for observers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import field
from typing import Any

from bmq.admin.channel_watch import ChannelWatch
from bmq.controller.config import ControllerConfig
from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.share_state.config import ShareStateConfig
from bmq.coordinator.transactions.config import TransactionConfig
from bmq.dataclass import dataclass
from bmq.election.election import Election
from bmq.internode_client.link_tls import LinkTls
from bmq.log.clock import Clock
from bmq.log.compaction import LogCleaning
from bmq.log.config import LogConfig
from bmq.log.store import SegmentStore
from bmq.metadata.image import MetadataImage
from bmq.proxy.batch_opener import RunAside
from bmq.proxy.log_levels import LogLevels
from bmq.proxy.stall_watch import StallWatch
from bmq.proxy.stats import ProxyStats
from bmq.server.settings import Settings, split_roles
from bmq.server.transaction_checks import Posts
from bmq.tracing.traces import Traces

ImageChanged = Callable[[MetadataImage, MetadataImage], None]


def _nothing(*_: Any) -> None:
    """The default of hooks that are not set."""


@dataclass(frozen=True, slots=True)
class NodeHooks:
    """Optional hooks into a node, for observers outside.

    `on_image(old, new)`: the node has acted on a new image. `on_controller_image`: the same for the active controller
    here, before its answers leave. `on_elected`: a controller was made here. `on_controller_started`: it is active.
    `on_controller_ended`: it is no longer here. `cleaning`: None if nothing is to be compacted. `log_config`: of each topic's logs here.
    `trim_memory`: see KafkaServer. `traces`: samples requests. `run_aside`: opens large batches (BatchOpener).
    `transaction_posts`: in place of posts over the network.
    """

    on_image: ImageChanged = _nothing
    on_controller_image: ImageChanged = _nothing
    on_elected: Callable[[], None] = _nothing
    on_controller_started: Callable[[], None] = _nothing
    on_controller_ended: Callable[[], None] = _nothing
    controller_config: Callable[[ControllerConfig], ControllerConfig] = lambda config: config
    coordinator_config: Callable[[CoordinatorConfig], CoordinatorConfig] = lambda config: config
    transaction_config: Callable[[TransactionConfig], TransactionConfig] = lambda config: config
    share_state: ShareStateConfig = field(default_factory=ShareStateConfig)
    log_config: Callable[[LogConfig], LogConfig] = lambda config: config
    cleaning: LogCleaning | None = None
    run_aside: RunAside = asyncio.to_thread
    transaction_posts: Posts | None = None
    trim_memory: Callable[[], object] | None = None
    traces: Traces | None = None


@dataclass(frozen=True, slots=True)
class NodeDependencies:
    """A node's dependencies, made before its roles.

    `stats`: counters of the client listener. `internal_stats`: counters of the listener between nodes. `rest`: the address of
    this node's REST API. `link_tls`: see Links.
    """

    settings: Settings
    store: SegmentStore
    election: Election
    clock: Clock
    rng: random.Random
    stalls: StallWatch
    rest: tuple[str, int]
    hooks: NodeHooks
    stats: ProxyStats = field(default_factory=ProxyStats)
    internal_stats: ProxyStats = field(default_factory=ProxyStats)
    link_tls: Callable[[], LinkTls | None] = lambda: None
    log_levels: LogLevels = field(default_factory=LogLevels)
    channel_watch: ChannelWatch = field(default_factory=ChannelWatch)

    @property
    def roles(self) -> frozenset[str]:
        return split_roles(self.settings.roles)
