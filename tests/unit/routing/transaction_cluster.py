"""Nodes with transaction coordinators over shared partition logs, the proxies that route to them, and owners of partitions."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Any, cast
from uuid import UUID

import bmq.proxy.handlers.write_txn_markers  # noqa: F401 - registers its handler
from bmq.coordinator.runtime.directory import shard_of
from bmq.coordinator.transactions.coordinator import TransactionCoordinator
from bmq.coordinator.transactions.group_partitions import GroupPartitions
from bmq.log.config import LogConfig
from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.log.transactions import TransactionMarker
from bmq.metadata.image import (
    OFFSETS_TOPIC_NAME,
    TRANSACTIONS_TOPIC_NAME,
    MetadataImage,
    Node,
    PartitionImage,
    TopicImage,
)
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from bmq.protocol.messages.end_txn_request import EndTxnRequest
from bmq.protocol.messages.init_producer_id_request import InitProducerIdRequest
from bmq.protocol.request_context import RequestContext
from bmq.proxy.stall_watch import StallWatch
from bmq.routing.shard_routing import NodeRoutes, ShardRoutingConfig
from bmq.routing.transaction_markers import RoutedMarkers, RoutedMarkersConfig
from bmq.routing.transactions import RoutedTransactions
from tests.fakes.partition_log import FakePartitionLog, FakePartitions
from tests.unit.coordinator.cluster import OwnedLog
from tests.unit.coordinator.transactions.world import FAST, FakeProducerIds, LoopClock
from tests.unit.internode_client.looped_links import LoopedLinks, internal_services
from tests.unit.proxy.harness import FakeController, services_over

TOPIC_ID = UUID(int=0xA)
IDS = {"t": TOPIC_ID, OFFSETS_TOPIC_NAME: UUID(int=0x0FF5), TRANSACTIONS_TOPIC_NAME: UUID(int=0x7A45)}
SHARDS = 4


class OwnMarkers:
    """What a node's own partitions take. `refusals`: errors of the next writes."""

    def __init__(self, cluster: TransactionCluster, node_id: int) -> None:
        self.written: list[tuple[str, int, TransactionMarker]] = []
        self.refusals: list[ErrorCode] = []
        self._cluster = cluster
        self._node_id = node_id

    async def write(self, topic_partition: TopicPartition, marker: TransactionMarker) -> None:
        await asyncio.sleep(0.001)
        topic = self._cluster.image.topics_by_id[topic_partition.topic_id]
        if topic.partitions[topic_partition.partition].leader != self._node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.refusals:
            raise KafkaError(self.refusals.pop(0))
        self.written.append((topic.name, topic_partition.partition, marker))


class NodeShards:
    """What a node owns according to the image."""

    def __init__(self, cluster: TransactionCluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    def partition_count(self) -> int:
        return SHARDS

    def owned(self) -> list[int]:
        topic = self._cluster.image.topics.get(TRANSACTIONS_TOPIC_NAME)
        return [] if topic is None else [p.partition for p in topic.partitions if p.leader == self._node_id]

    def inherited(self) -> list[int]:
        """As if all were new: what is not asked for stays where it is."""
        return []

    def is_known(self, shard: int, leader_epoch: int) -> bool:
        return True

    async def open(self, shard: int, *, is_awaited: bool) -> PartitionLog:
        await asyncio.sleep(0.001)
        if shard not in self.owned():
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not assigned here")
        epoch = self._cluster.image.topics[TRANSACTIONS_TOPIC_NAME].partitions[shard].leader_epoch
        return cast(PartitionLog, OwnedLog(self._cluster.logs[shard], epoch))

    def ask(self, shard: int) -> None:
        """Opening a shard takes no turn here."""


class SharedController:
    """Shows the cluster's image."""

    def __init__(self, cluster: TransactionCluster) -> None:
        self._cluster = cluster

    @property
    def image(self) -> MetadataImage:
        return self._cluster.image


class TransactionNode:
    """One node: its coordinator, its partitions, and the way to all others'."""

    def __init__(self, cluster: TransactionCluster, node_id: int) -> None:
        links, image = cast(Any, cluster.links), lambda: cluster.image
        self.node_id = node_id
        self.own_markers = OwnMarkers(cluster, node_id)
        self.markers = RoutedMarkers(node_id, self.own_markers, links, image, RoutedMarkersConfig())
        self.coordinator = TransactionCoordinator(
            cast(Any, NodeShards(cluster, node_id)),
            cluster.clock,
            Random(node_id),
            FAST,
            image,
            producer_ids=cluster.producer_ids,
            markers=self.markers,
            groups=GroupPartitions(image, cluster.auto_create_topic),
        )
        routes = NodeRoutes(node_id, links, image, cluster, Random(node_id), StallWatch())
        self.transactions = RoutedTransactions(
            self.coordinator,
            routes,
            ShardRoutingConfig(),
            is_verifying=lambda: cluster.is_verifying,
        )
        services = services_over(FakeController(cluster.image), FakePartitions())
        services.appender.stop()
        services.controller = cast(Any, SharedController(cluster))
        self.services = internal_services(replace(services, transactions=self.coordinator, markers=self.own_markers))


class TransactionCluster:
    """Three nodes with every role: "t" and the shards are theirs in turn. Made inside a virtual loop."""

    def __init__(self, *, has_topic: bool = True) -> None:
        self.clock = LoopClock()
        self.producer_ids = FakeProducerIds()
        self.is_verifying = True
        self.created: list[str] = []
        self.image = MetadataImage(nodes={n: Node(n, f"host-{n}", 9092) for n in (1, 2, 3)})
        self.logs = [
            FakePartitionLog(TopicPartition(IDS[TRANSACTIONS_TOPIC_NAME], n), leader_epoch=-1) for n in range(SHARDS)
        ]
        self.links = LoopedLinks({})
        self.nodes: dict[int, TransactionNode] = {}
        self.add_topic("t", 6)
        if has_topic:
            self.add_topic(TRANSACTIONS_TOPIC_NAME, SHARDS)
        self.nodes = {n: TransactionNode(self, n) for n in self.image.nodes}
        self.links.nodes = {n: node.services for n, node in self.nodes.items()}

    async def auto_create_topic(self, name: str) -> None:
        await asyncio.sleep(0.01)
        self.created.append(name)
        self.add_topic(name, SHARDS)

    def add_topic(self, name: str, count: int) -> None:
        partitions = tuple(PartitionImage(n, n % 3 + 1, 0, (1, 2, 3), (1, 2, 3)) for n in range(count))
        self.show(TopicImage(name, IDS[name], partitions, {}, LogConfig()))

    def show(self, topic: TopicImage, **changes: Any) -> None:
        """A new image, told to every node."""
        old = self.image
        self.image = replace(
            old,
            topics={**old.topics, topic.name: topic},
            topics_by_id={**old.topics_by_id, topic.topic_id: topic},
            **changes,
        )
        for node in self.nodes.values():
            node.transactions.image_changed(old, self.image)

    def move(self, name: str, number: int, to: int) -> None:
        topic = self.image.topics[name]
        partitions = list(topic.partitions)
        partitions[number] = replace(partitions[number], leader=to, leader_epoch=partitions[number].leader_epoch + 1)
        self.show(replace(topic, partitions=tuple(partitions)))

    def id_at(self, node_id: int, nth: int = 0) -> str:
        """A transactional id whose shard this node owns."""
        partitions = self.image.topics[TRANSACTIONS_TOPIC_NAME].partitions
        names = [f"id-{n}" for n in range(100)]
        return [name for name in names if partitions[shard_of(name, SHARDS)].leader == node_id][nth]

    def written(self) -> list[tuple[int, str, int, TransactionMarker]]:
        """(node, topic, partition, marker) of all that was written."""
        return [(n, *one) for n, node in self.nodes.items() for one in node.own_markers.written]

    async def close(self) -> None:
        for node in self.nodes.values():
            await node.coordinator.close()


class TransactionClient:
    """Talks to the transaction coordinators through one proxy."""

    def __init__(self, cluster: TransactionCluster, node_id: int = 1) -> None:
        self._transactions = cluster.nodes[node_id].transactions
        self.received_s: float | None = None  # of the next requests; None: just now

    async def ask(self, api_key: ApiKey, request: Any, version: int) -> Any:
        context = RequestContext(version, "client", "192.0.2.7", received_s=self.received_s)
        return await self._transactions.handle(api_key, request, context)

    async def init(self, name: str, given: tuple[int, int] = (-1, -1)) -> tuple[int, int, int]:
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=60_000, producer_id=given[0], producer_epoch=given[1]
        )
        answer = await self.ask(ApiKey.INIT_PRODUCER_ID, request, 5)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    async def add(self, name: str, producer: tuple[int, int], *numbers: int) -> list[int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=numbers)],
        )
        (topic,) = (await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, request, 3)).results_by_topic_v3_and_below
        return [one.partition_error_code for one in topic.results_by_partition]

    async def end(
        self, name: str, producer: tuple[int, int], is_commit: bool = True, version: int = 5
    ) -> tuple[int, int, int]:
        request = EndTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=is_commit
        )
        answer = await self.ask(ApiKey.END_TXN, request, version)
        return answer.error_code, answer.producer_id, answer.producer_epoch
