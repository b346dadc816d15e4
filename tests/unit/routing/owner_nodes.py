"""Nodes that own partitions, in the simulated network: real listeners, managers and handlers over one fake store.

Node 1 is the proxy under test and owns nothing; what a test awaits runs in its process. The image is one object that all
nodes see at once, unless a test says otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any, TypeVar
from uuid import UUID

import bmq.internode_server.handlers.delete_before
import bmq.internode_server.handlers.find_aborted
import bmq.internode_server.handlers.find_timestamp
import bmq.internode_server.handlers.list_delayed
import bmq.internode_server.handlers.locate_offset
import bmq.internode_server.handlers.prove_ownership
import bmq.internode_server.handlers.tail_fetch
import bmq.proxy.handlers.describe_producers  # noqa: F401 - these register themselves
from bmq.broker.context import BrokerSettings
from bmq.broker.manager import PartitionManager
from bmq.broker.runtime import PartitionRuntime
from bmq.internode_client.links import Links
from bmq.internode_server.services import InternalServices
from bmq.log.config import LogConfig
from bmq.log.partition_log import AppendResult, PartitionLog, TopicPartition
from bmq.metadata.image import MetadataImage, Node, PartitionImage, TopicImage
from bmq.protocol.apis import INTERNAL_APIS
from bmq.protocol.batch_records import Record, decode_records
from bmq.protocol.record_batch import batches
from bmq.proxy.appender import Appender
from bmq.proxy.limits import BETWEEN_NODES
from bmq.proxy.server import KafkaServer
from bmq.proxy.stats import ProxyStats
from bmq.routing.router import Router
from bmq.routing.settings import RouterSettings
from bmq.tracing.traces import Traces
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.support.flagged_batch import flagged_batch
from tests.support.produced_batch import produced_batch

T = TypeVar("T")

TOPIC_ID = UUID(int=0xA)
PROXY = 1
PORT = 9192
LOG_CONFIG = LogConfig(segment_bytes=1 << 20)
SETTINGS = BrokerSettings(tail_cache_bytes_max=1 << 20, backoff_first_s=0.01, backoff_max_s=1.0)


class SharedController:
    """Shows the cluster's image."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def image(self) -> MetadataImage:
        return self._cluster.image


class OwnerNode:
    """One process. Made anew when it starts again."""

    def __init__(self, cluster: Cluster, node_id: int, incarnation: int, settings: BrokerSettings) -> None:
        self.node_id = node_id
        self.name = f"node-{node_id}"
        self.process = Process(cluster.loop, self.name)
        self._cluster = cluster
        self._holder = f"{self.name}.{incarnation}"
        self._settings = settings
        self.client = cluster.store.client(self._holder)
        self.process.on_kill(self.client.kill)
        self.manager: PartitionManager
        self.services: InternalServices
        self.stats = ProxyStats()

    async def start(self) -> None:
        cluster = self._cluster
        self.manager = PartitionManager(self.client, self._holder, cluster.clock, Random(self.node_id), self._settings)
        self.services = InternalServices(
            node=Node(self.node_id, self.name, 9092),
            store=self.client,
            partitions=self.manager,
            controller=SharedController(cluster),  # type: ignore[arg-type]
            groups=None,  # type: ignore[arg-type]
            transactions=None,  # type: ignore[arg-type]
            markers=None,  # type: ignore[arg-type]
            clock=cluster.clock,
            appender=Appender(self.manager, retries=False),
            fetcher=None,  # type: ignore[arg-type]
            producer_ids=None,  # type: ignore[arg-type]
            stats=self.stats,
            loop=asyncio.get_running_loop(),
            leadership=None,  # type: ignore[arg-type]
            manager=self.manager,
            releases=None,  # type: ignore[arg-type]
            known=None,  # type: ignore[arg-type]
        )
        self.server = KafkaServer(BETWEEN_NODES, self.stats, apis=INTERNAL_APIS, is_ordered=False)
        if cluster.traces is not None:
            self.manager.use_traces(cluster.traces.appends)
            self.server.use_traces(cluster.traces)
        await self.server.bind(self.name, PORT)
        await self.server.serve(self.services)

    def kill(self) -> None:
        self.process.kill()

    async def log(self, partition: int = 0) -> PartitionRuntime:
        return await self.manager.leader_of(TopicPartition(TOPIC_ID, partition))

    def requests(self, api_key: int) -> int:
        """How many came so far."""
        return self.stats.requests[api_key]


class Cluster:
    """Topic "t"; its partitions belong to node 2 at epoch 1 to begin with."""

    def __init__(
        self,
        *,
        seed: int = 0,
        partition_count: int = 1,
        config: RouterSettings | None = None,
        owners: tuple[int, ...] = (2, 3),
        settings: BrokerSettings = SETTINGS,
    ) -> None:
        self.loop = VirtualTimeLoop()
        self.network = Network(self.loop, Random(seed))
        self.store = FakeStore(Random(seed + 1))
        self.clock = FakeClock()
        self.config = config or RouterSettings()
        self.settings = settings
        self.partition_count = partition_count
        self.nodes: dict[int, OwnerNode] = {}
        self.past: list[OwnerNode] = []  # a dead process's tasks must not be collected as garbage
        self.proxy = Process(self.loop, "node-1")
        self.traces: Traces | None = None  # of the owners
        self.links: Links
        self.router: Router
        partitions = tuple(PartitionImage(number, 2, 1, (2, 3), (2, 3)) for number in range(partition_count))
        self.image = self._with_topic(MetadataImage(cluster_id="c"), partitions)
        self.image = replace(self.image, nodes={node_id: _node(node_id) for node_id in owners})
        self._owner_ids = owners

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """In the proxy's process, with everything started; whatever failed unheard fails the test."""

        async def started() -> T:
            for node_id in self._owner_ids:
                await self.start_node(node_id)
            for number in range(self.partition_count):
                self.nodes[2].manager.assign(key(number), 1, "t", LOG_CONFIG)
            self.links = Links("node-1", lambda node_id: (f"node-{node_id}", PORT), random=Random(1))
            self.router = Router(PROXY, None, self.links, lambda: self.image, random=Random(2), config=self.config)
            try:
                return await main()
            finally:
                await self.router.close()
                await self.links.close()

        try:
            result = self.loop.run_until_complete(self.proxy.spawn(started()))
            assert not self.loop.failures, self.loop.failures
            return result
        finally:
            self.loop.discard()

    async def start_node(self, node_id: int) -> OwnerNode:
        self.past += [self.nodes[node_id]] if node_id in self.nodes else []
        node = self.nodes[node_id] = OwnerNode(self, node_id, len(self.past), self.settings)
        await node.process.spawn(node.start())
        return node

    # --- the image

    def publish(self, image: MetadataImage) -> None:
        """As a node's replica does it: the image is there, then everybody is told."""
        old, self.image = self.image, image
        self.router.image_changed(old, image)

    def name_owner(self, partition: int, leader: int) -> int:
        """In the image alone; the new leader epoch."""
        topic = self.image.topics["t"]
        before = topic.partitions[partition]
        after = replace(before, leader=leader, leader_epoch=before.leader_epoch + 1)
        partitions = (*topic.partitions[:partition], after, *topic.partitions[partition + 1 :])
        self.publish(self._with_topic(self.image, partitions))
        return after.leader_epoch

    def lose_node(self, node_id: int) -> None:
        """Fenced: it is in the image no more."""
        nodes = {other: node for other, node in self.image.nodes.items() if other != node_id}
        self.publish(replace(self.image, nodes=nodes))

    def return_node(self, node_id: int) -> None:
        self.publish(replace(self.image, nodes={**self.image.nodes, node_id: _node(node_id)}))

    def delete_topic(self) -> None:
        self.publish(replace(self.image, topics={}, topics_by_id={}))

    def leader_epoch(self, partition: int) -> int:
        """As the image has it."""
        return self.image.topics["t"].partitions[partition].leader_epoch

    async def hand_over(self, partition: int, to: int) -> None:
        """A planned move: the old owner drains and seals before the new one begins (rule 8)."""
        before = self.image.topics["t"].partitions[partition]
        epoch = self.name_owner(partition, to)
        old, new = self.nodes[before.leader], self.nodes[to]
        await old.process.spawn(old.manager.unassign(key(partition)))
        self.assign(partition, to, epoch)
        assert new.manager.leader_epoch(key(partition)) == epoch

    def assign(self, partition: int, to: int, epoch: int) -> None:
        node = self.nodes[to]
        node.process.context().run(node.manager.assign, key(partition), epoch, "t", LOG_CONFIG)

    def take_over(self, partition: int, to: int) -> None:
        """The old owner is not asked."""
        self.assign(partition, to, self.name_owner(partition, to))

    def _with_topic(self, image: MetadataImage, partitions: tuple[PartitionImage, ...]) -> MetadataImage:
        topic = TopicImage("t", TOPIC_ID, partitions, {}, LOG_CONFIG)
        return replace(image, topics={"t": topic}, topics_by_id={TOPIC_ID: topic})


def _node(node_id: int) -> Node:
    return Node(node_id, f"node-{node_id}", 9092, internal=(f"node-{node_id}", PORT))


def key(partition: int = 0) -> TopicPartition:
    return TopicPartition(TOPIC_ID, partition)


def batch_of(*values: bytes, **options: Any) -> memoryview:
    now_ms = FakeClock().now_ms()
    return memoryview(flagged_batch([Record(b"k", value, timestamp_ms=now_ms) for value in values], **options))


def append(log: PartitionLog, *values: bytes, **options: Any) -> asyncio.Future[AppendResult]:
    """One batch; its answer."""
    answer: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()

    def done(result: AppendResult) -> None:
        assert not answer.done(), "answered twice"
        answer.set_result(result)

    log.append(produced_batch(log.topic_partition, batch_of(*values), done, **options))
    return answer


async def until(is_true: Callable[[], Any], *, limit_s: float = 60.0) -> None:
    """Virtual time passes until something holds."""
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    while not is_true():
        assert loop.time() - begun_s < limit_s, "it never came true"
        await asyncio.sleep(0.001)


async def records_of(log: PartitionRuntime) -> list[bytes]:
    """All values, in order, as the owner has them."""
    values: list[bytes] = []
    offset = log.log_start_offset
    while (chunk := await log.read(offset, 100_000)) is not None:
        for position, header in batches(chunk.data):
            values += [record.value or b"" for record in decode_records(chunk.data, position)]
            offset = header.end_offset
    return values
