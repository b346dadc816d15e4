"""The state of share partitions in a cluster node: the shards that it owns, and the routes to other nodes' shards."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from prometheus_client import CollectorRegistry

from bmq.broker.manager import PartitionManager
from bmq.coordinator.config import ShareConfig
from bmq.coordinator.share_state.config import ShareStateConfig
from bmq.coordinator.share_state.coordinator import ShareStateCoordinator
from bmq.coordinator.share_state.dead_letters import DeadLetterWriter
from bmq.internode_server.local_roles import LocalShards
from bmq.log.clock import Clock
from bmq.log.partition_log import TopicPartition
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import SHARE_STATE_TOPIC_NAME, MetadataImage
from bmq.metadata.incarnations import has_ended
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.partitions import Partitions
from bmq.proxy.share.consumers import ShareConsumers
from bmq.proxy.share.former_leaders import FormerLeaders
from bmq.routing.shard_routing import NodeRoutes, ShardRoutingConfig
from bmq.routing.share_states import RoutedShareStates
from bmq.server.share_reading import share_consumers


class PartitionEnds:
    """Implements bmq.coordinator.share_membership.states.EndOffsets."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def end_offset(self, topic_id: UUID, partition: int) -> int:
        """The high watermark of a partition. Raises KafkaError."""
        log = await self._partitions.leader_of(TopicPartition(topic_id, partition))
        return log.high_watermark


class ShareRoles:
    """`local`: the shards of this node. `routed`: all shards of the cluster. `leaders`: the leaders that share consumers are
    sent.
    """

    def __init__(
        self,
        manager: PartitionManager,
        image: Callable[[], MetadataImage],
        routes: NodeRoutes,
        share_config: Callable[[], ShareConfig],
        clock: Clock,
        config: ShareStateConfig,
        dead_letters: DeadLetterWriter,
    ) -> None:
        self.local = ShareStateCoordinator(
            LocalShards(SHARE_STATE_TOPIC_NAME, routes.node_id, manager, image),
            clock,
            config,
            image,
            share_config,
            lambda node_id, node_epoch: has_ended(image(), node_id, node_epoch),
            dead_letters,
        )
        self.routed = RoutedShareStates(self.local, routes, ShardRoutingConfig())
        self.leaders = FormerLeaders(image)
        self._share_config = share_config

    def consumers(self, fetcher: Fetcher, broker_configs: BrokerConfigs, opener: BatchOpener) -> ShareConsumers:
        """Answers the members of share groups at this node. `opener`: the process's opener of batches."""
        return share_consumers(fetcher, self.routed, self._share_config, broker_configs, self.leaders, opener)

    def register_metrics(self, registry: CollectorRegistry) -> None:
        self.local.metrics.register(registry)

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Call after each new image of this node."""
        self.routed.image_changed(old, new)
        self.local.shards_changed()
        self.leaders.changed(old, new)
        if old.nodes is not new.nodes or old.fenced_nodes is not new.fenced_nodes:
            self.local.nodes_changed()

    def partitions_changed(self) -> None:
        """This node's partitions have changed."""
        self.routed.changed()
        self.local.shards_changed()
