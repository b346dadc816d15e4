"""Nodes with group coordinators over shared partition logs, and the proxies that route to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any, TypeVar, cast
from uuid import UUID

from bmq.coordinator.coordinator import GroupCoordinator
from bmq.coordinator.runtime.directory import shard_of
from bmq.log.config import LogConfig
from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.metadata.image import OFFSETS_TOPIC_NAME, MetadataImage, Node, PartitionImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from bmq.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from bmq.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from bmq.protocol.request_context import RequestContext
from bmq.proxy.stall_watch import StallWatch
from bmq.routing.groups import RoutedGroups, RoutedGroupsConfig
from bmq.routing.shard_routing import NodeRoutes
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog, FakePartitions
from tests.simulation.loop import VirtualTimeLoop
from tests.unit.coordinator.classic.group_bench import subscription
from tests.unit.coordinator.cluster import FAST, FakeVerifier, OwnedLog
from tests.unit.internode_client.looped_links import LoopedLinks, internal_services
from tests.unit.proxy.harness import FakeController, services_over

OFFSETS_TOPIC_ID = UUID(int=0x0FF5)
SHARDS = 4
T = TypeVar("T")


def virtual(main: Callable[[], Coroutine[Any, Any, T]], *, time_limit_s: float = 3600.0) -> T:
    """Run it on virtual time; whatever failed unheard fails the test."""
    loop = VirtualTimeLoop(time_limit_s=time_limit_s)
    try:
        result = loop.run_until_complete(main())
        assert not loop.failures, loop.failures
        return result
    finally:
        loop.discard()


class NodeShards:
    """What a node owns according to its image; `unassigned`: shards it has not been given yet."""

    def __init__(self, cluster: GroupCluster, node_id: int) -> None:
        self.unassigned: set[int] = set()
        self.opened: list[int] = []
        self._cluster = cluster
        self._node_id = node_id

    @property
    def _topic(self) -> TopicImage | None:
        return self._cluster.image.topics.get(OFFSETS_TOPIC_NAME)

    def partition_count(self) -> int:
        return SHARDS

    def owned(self) -> list[int]:
        return [] if self._topic is None else [p.partition for p in self._topic.partitions if p.leader == self._node_id]

    def inherited(self) -> list[int]:
        """As if all were new: what is not asked for stays where it is."""
        return []

    async def open(self, shard: int, *, is_awaited: bool) -> PartitionLog:
        await asyncio.sleep(0.001)
        if shard not in self.owned() or shard in self.unassigned or self._topic is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not assigned here")
        self.opened.append(shard)
        epoch = self._topic.partitions[shard].leader_epoch
        return cast(PartitionLog, OwnedLog(self._cluster.logs[shard], epoch))

    def ask(self, shard: int) -> None:
        """Opening a shard takes no turn here."""


class GroupNode:
    """One node: its coordinator, and the proxy's view of all groups."""

    def __init__(self, cluster: GroupCluster, node_id: int, config: RoutedGroupsConfig) -> None:
        self.node_id = node_id
        self.shards = NodeShards(cluster, node_id)
        self.coordinator = GroupCoordinator(
            self.shards,  # type: ignore[arg-type]
            cluster.clock,
            Random(node_id),
            FAST,
            lambda: cluster.image,
            verifier=FakeVerifier(),
            may_describe=lambda _context, _topic: True,
        )
        controller = FakeController(cluster.image)
        self.services = internal_services(replace(services_over(controller, FakePartitions()), groups=self.coordinator))
        self.services.appender.stop()
        stalls = StallWatch(now_s=cluster.clock.elapsed_s)
        links = cast(Any, cluster.links)
        routes = NodeRoutes(node_id, links, lambda: cluster.image, cluster, Random(node_id), stalls)
        self.groups = RoutedGroups(self.coordinator, routes, config)


class GroupCluster:
    """`proxies`, `brokers`: node ids by role; shards are owned by the brokers in turn. Made inside a virtual loop."""

    def __init__(
        self,
        proxies: tuple[int, ...] = (1, 2, 3),
        brokers: tuple[int, ...] = (1, 2, 3),
        *,
        config: RoutedGroupsConfig | None = None,
        has_topic: bool = True,
    ) -> None:
        self.clock = FakeClock()
        self.brokers = brokers
        roles = {
            n: {role for role, ids in (("proxy", proxies), ("broker", brokers)) if n in ids}
            for n in sorted({*proxies, *brokers})
        }
        self.image = MetadataImage(
            nodes={n: Node(n, f"host-{n}", 9092, roles=frozenset(names)) for n, names in roles.items()}
        )
        self.logs = [FakePartitionLog(TopicPartition(OFFSETS_TOPIC_ID, n), leader_epoch=-1) for n in range(SHARDS)]
        self.links = LoopedLinks({})
        self.created: list[str] = []
        self.refuse_creation: ErrorCode | None = None
        self.add_topic("t", 1)
        if has_topic:
            self.add_offsets_topic()
        self.nodes = {n: GroupNode(self, n, config or RoutedGroupsConfig()) for n in self.image.nodes}
        self.links.nodes = {n: node.services for n, node in self.nodes.items()}

    # --- metadata

    async def auto_create_topic(self, name: str) -> None:
        """The controller's part."""
        await asyncio.sleep(0.01)
        if self.refuse_creation is not None:
            raise KafkaError(self.refuse_creation, "not now")
        self.created.append(name)
        self.add_offsets_topic()

    def add_offsets_topic(self) -> None:
        owners = [self.brokers[number % len(self.brokers)] for number in range(SHARDS)]
        partitions = tuple(PartitionImage(n, owner, 0, (owner,), (owner,)) for n, owner in enumerate(owners))
        self.show(TopicImage(OFFSETS_TOPIC_NAME, OFFSETS_TOPIC_ID, partitions, {}, LogConfig(), is_internal=True))

    def add_topic(self, name: str, number: int) -> None:
        partitions = tuple(PartitionImage(n, self.brokers[0], 0, (1,), (1,)) for n in range(4))
        self.show(TopicImage(name, UUID(int=number), partitions, {}, LogConfig()))

    def show(self, topic: TopicImage, **changes: Any) -> None:
        """A new image, told to every node."""
        old = self.image
        self.image = replace(
            old,
            topics={**old.topics, topic.name: topic},
            topics_by_id={**old.topics_by_id, topic.topic_id: topic},
            **changes,
        )
        for node in getattr(self, "nodes", {}).values():
            node.groups.image_changed(old, self.image)

    def move(self, shard: int, to: int, **changes: Any) -> None:
        topic = self.image.topics[OFFSETS_TOPIC_NAME]
        partitions = list(topic.partitions)
        partitions[shard] = replace(partitions[shard], leader=to, leader_epoch=partitions[shard].leader_epoch + 1)
        self.show(replace(topic, partitions=tuple(partitions)), **changes)

    def kill(self, node_id: int) -> None:
        """The node is gone; nobody has noticed yet."""
        self.links.down.add(node_id)

    def bury(self, node_id: int, heir: int) -> None:
        """The controller has noticed: its shards have another owner now."""
        left = {n: node for n, node in self.image.nodes.items() if n != node_id}
        for number, partition in enumerate(self.image.topics[OFFSETS_TOPIC_NAME].partitions):
            if partition.leader == node_id:
                self.move(number, heir, nodes=left)

    def owner_of(self, group_id: str) -> int:
        return self.image.topics[OFFSETS_TOPIC_NAME].partitions[self.shard(group_id)].leader

    @staticmethod
    def shard(group_id: str) -> int:
        return shard_of(group_id, SHARDS)

    def group_at(self, node_id: int, nth: int = 0) -> str:
        """A group whose shard this node owns."""
        return [name for name in map("group-{}".format, range(100)) if self.owner_of(name) == node_id][nth]

    async def close(self) -> None:
        for node in self.nodes.values():
            await node.coordinator.close()


# --- a client of one proxy


def asking(version: int) -> RequestContext:
    return RequestContext(version, "client", "192.0.2.7")


class GroupClient:
    """Talks to the groups of one proxy."""

    def __init__(self, groups: RoutedGroups) -> None:
        self.groups = groups
        self.context: RequestContext | None = None  # of the next commits; else one of a request that has just come

    async def join(self, group_id: str, member_id: str = "", version: int = 3, **fields: Any) -> Any:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
            **fields,
        )
        return await self.groups.handle(ApiKey.JOIN_GROUP, request, asking(version))

    async def sync(self, group_id: str, member_id: str, generation: int = 1, assigned: bytes = b"") -> Any:
        assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=assigned)] if assigned else []
        request = SyncGroupRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, assignments=assignments
        )
        return await self.groups.handle(ApiKey.SYNC_GROUP, request, asking(3))

    async def stable(self, group_id: str) -> str:
        """A group with one member that has its assignment; the member's id."""
        joined = await self.join(group_id)
        assert joined.error_code == 0
        synced = await self.sync(group_id, joined.member_id, joined.generation_id, b"mine")
        assert (synced.error_code, synced.assignment) == (0, b"mine")
        return str(joined.member_id)

    async def beat(self, group_id: str, member_id: str, generation: int = 1) -> int:
        request = HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id)
        return int((await self.groups.handle(ApiKey.HEARTBEAT, request, asking(4))).error_code)

    async def commit(self, group_id: str, offset: int, member_id: str = "", generation: int = -1) -> int:
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[part])],
        )
        response = await self.groups.handle(ApiKey.OFFSET_COMMIT, request, self.context or asking(9))
        return int(response.topics[0].partitions[0].error_code)

    async def commit_in_transaction(self, group_id: str, offset: int, producer_id: int = 7, version: int = 5) -> int:
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=f"id-{producer_id}",
            group_id=group_id,
            producer_id=producer_id,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[part])],
        )
        response = await self.groups.handle(ApiKey.TXN_OFFSET_COMMIT, request, self.context or asking(version))
        return int(response.topics[0].partitions[0].error_code)

    async def fetch(self, *group_ids: str) -> list[tuple[int, int]]:
        """(error code, offset) of each group."""
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=g, topics=topics) for g in group_ids])
        response = await self.groups.handle(ApiKey.OFFSET_FETCH, request, asking(8))
        assert [group.group_id for group in response.groups] == list(group_ids)
        return [
            (group.error_code, group.topics[0].partitions[0].committed_offset if group.topics else -1)
            for group in response.groups
        ]
