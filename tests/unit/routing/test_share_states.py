"""Calls about share partitions from any node of a cluster: carried to the owners of their shards, wherever those move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest

import bmq.internode_server.handlers.share_states  # noqa: F401 - registers its handlers
from bmq.coordinator.config import ShareConfig
from bmq.coordinator.share_state.config import ShareStateConfig
from bmq.coordinator.share_state.coordinator import ShareStateCoordinator
from bmq.log.config import LogConfig
from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.metadata.image import SHARE_STATE_TOPIC_NAME, MetadataImage, Node, PartitionImage, TopicImage
from bmq.metadata.incarnations import has_ended
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.share_state_messages import (
    AcknowledgedBatch,
    AcknowledgePartition,
    AckType,
    AcquirePartition,
    ActivePartition,
    InitializePartition,
    NamedPartition,
    OffsetRange,
    ShareAcknowledgeRequest,
    ShareAcquireRequest,
    ShareActivateRequest,
    ShareExplainRequest,
    ShareInitializeRequest,
    ShareReleaseRequest,
    ShareSummaryRequest,
    ShareWaitRequest,
    WaitPartition,
)
from bmq.proxy.stall_watch import StallWatch
from bmq.routing.shard_routing import NodeRoutes, ShardRoutingConfig
from bmq.routing.share_states import RoutedShareStates
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog, FakePartitions
from tests.unit.coordinator.cluster import OwnedLog
from tests.unit.internode_client.looped_links import LoopedLinks, internal_services
from tests.unit.proxy.harness import FakeController, services_over
from tests.unit.routing.group_cluster import virtual

pytestmark = pytest.mark.unit

TOPIC = UUID(int=77)
STATE_TOPIC_ID = UUID(int=0x57A7E)
SHARDS = 4
ALL = range(12)


class NodeShards:
    """What a node owns according to the image."""

    def __init__(self, cluster: ShareCluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    def partition_count(self) -> int:
        return SHARDS

    def owned(self) -> list[int]:
        topic = self._cluster.image.topics.get(SHARE_STATE_TOPIC_NAME)
        return [] if topic is None else [one.partition for one in topic.partitions if one.leader == self._node_id]

    def inherited(self) -> list[int]:
        """As if all were new: what is not asked for stays where it is."""
        return []

    async def open(self, shard: int, *, is_awaited: bool) -> PartitionLog:
        await asyncio.sleep(0.001)
        partition = self._cluster.image.topics[SHARE_STATE_TOPIC_NAME].partitions[shard]
        if partition.leader != self._node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not assigned here")
        return cast(PartitionLog, OwnedLog(self._cluster.logs[shard], partition.leader_epoch))

    def ask(self, shard: int) -> None:
        """Opening a shard takes no turn here."""


class ShareCluster:
    """Nodes 1 and 2; shards are theirs in turn, once the topic is there."""

    def __init__(self) -> None:
        nodes = {number: Node(number, "h", 9000 + number, internal=("h", 9100 + number), epoch=5) for number in (1, 2)}
        self.image = MetadataImage(offset=9, nodes=nodes)
        self.logs = [FakePartitionLog(TopicPartition(STATE_TOPIC_ID, number)) for number in range(SHARDS)]
        self.states: dict[int, RoutedShareStates] = {}
        self.own: dict[int, ShareStateCoordinator] = {}
        services: dict[int, Any] = {}
        self.links = LoopedLinks(services)
        for node_id in nodes:
            self.own[node_id] = ShareStateCoordinator(
                cast(Any, NodeShards(self, node_id)),
                FakeClock(),
                ShareStateConfig(),
                lambda: self.image,
                ShareConfig,
                lambda gone_id, epoch: has_ended(self.image, gone_id, epoch),
            )
            config = ShardRoutingConfig()
            routes = NodeRoutes(node_id, cast(Any, self.links), lambda: self.image, self, Random(node_id), StallWatch())
            self.states[node_id] = RoutedShareStates(self.own[node_id], routes, config)
            given = services_over(FakeController(self.image), FakePartitions())
            given.appender.stop()
            services[node_id] = internal_services(given, share_calls=self.own[node_id])

    async def auto_create_topic(self, name: str) -> None:
        partitions = tuple(PartitionImage(number, number % 2 + 1, 0, (1, 2), (1, 2)) for number in range(SHARDS))
        self._show(TopicImage(name, STATE_TOPIC_ID, partitions, {}, LogConfig()))

    def move(self, leader: int) -> None:
        """All shards go to one node."""
        topic = self.image.topics[SHARE_STATE_TOPIC_NAME]
        moved = tuple(replace(one, leader=leader, leader_epoch=one.leader_epoch + 1) for one in topic.partitions)
        self._show(replace(topic, partitions=moved))

    def restart(self, node_id: int) -> None:
        """The node is back as another incarnation."""
        nodes = {**self.image.nodes, node_id: replace(self.image.nodes[node_id], epoch=6)}
        self._change(replace(self.image, nodes=nodes))
        for own in self.own.values():
            own.nodes_changed()

    def _show(self, topic: TopicImage) -> None:
        self._change(replace(self.image, topics={topic.name: topic}, topics_by_id={topic.topic_id: topic}))

    def _change(self, image: MetadataImage) -> None:
        before, self.image = self.image, image
        for states in self.states.values():
            states.image_changed(before, image)

    async def initialize(self, node_id: int = 1) -> None:
        parts = [InitializePartition(topic_id=TOPIC, partition=number, start_offset=0) for number in ALL]
        answer = await self.states[node_id].initialize(
            ShareInitializeRequest(group_id="g", state_epoch=1, partitions=parts)
        )
        assert [(one.partition, one.error_code) for one in answer.partitions] == [(number, 0) for number in ALL]

    async def acquire(
        self, node_id: int, member_id: str, partitions: Iterable[int] = ALL
    ) -> dict[int, tuple[tuple[int, int, int], ...]]:
        parts = [
            AcquirePartition(
                topic_id=TOPIC, partition=number, records_max=5, batch_size=5, batches=[OffsetRange(first=0, last=4)]
            )
            for number in partitions
        ]
        request = ShareAcquireRequest(
            group_id="g", member_id=member_id, node_id=node_id, node_epoch=5, session=1, partitions=parts
        )
        answer = await self.states[node_id].acquire(request)
        assert [one.partition for one in answer.partitions] == list(partitions)
        assert {one.error_code for one in answer.partitions} <= {0, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        return {
            one.partition: tuple((given.first, given.last, given.delivery_count) for given in one.ranges)
            for one in answer.partitions
            if not one.error_code
        }

    async def acknowledge(self, node_id: int, member_id: str) -> set[int]:
        parts = [
            AcknowledgePartition(
                topic_id=TOPIC,
                partition=number,
                batches=[AcknowledgedBatch(first=0, last=4, types=[AckType.ACCEPT])],
            )
            for number in ALL
        ]
        request = ShareAcknowledgeRequest(group_id="g", member_id=member_id, partitions=parts)
        return {one.error_code for one in (await self.states[node_id].acknowledge(request)).partitions}

    async def starts(self, node_id: int) -> set[int]:
        named = [NamedPartition(topic_id=TOPIC, partition=number) for number in ALL]
        answer = await self.states[node_id].summarize(ShareSummaryRequest(group_id="g", partitions=named))
        return {one.start_offset for one in answer.partitions}


ONCE = ((0, 4, 1),)
TWICE = ((0, 4, 2),)


def told(story: Callable[[ShareCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = ShareCluster()
        await story(cluster)
        for own in cluster.own.values():
            await own.close()

    virtual(main)


def test_calls_reach_the_owners_and_answers_are_in_order() -> None:
    async def story(cluster: ShareCluster) -> None:
        await cluster.initialize()  # makes the topic
        assert await cluster.acquire(2, "a") == dict.fromkeys(ALL, ONCE)
        assert await cluster.acknowledge(1, "b") == {ErrorCode.INVALID_RECORD_STATE}
        assert await cluster.acknowledge(1, "a") == {0}
        assert await cluster.starts(2) == {5}
        assert {node for node, _ in cluster.links.calls} == {1, 2}
        assert set(cluster.links.purposes) == {"share"}

    told(story)


def test_the_active_member_is_named_and_explained_from_any_node() -> None:
    async def story(cluster: ShareCluster) -> None:
        await cluster.initialize()
        named = [ActivePartition(topic_id=TOPIC, partition=number, member_id=f"m{number}") for number in ALL]
        for node_id in (1, 2):
            request = ShareActivateRequest(group_id="g", epoch=3, partitions=named)
            answer = await cluster.states[node_id].activate(request)
            assert [(one.partition, one.error_code) for one in answer.partitions] == [(number, 0) for number in ALL]
        await cluster.acquire(1, "a")
        cluster.move(2)
        asked = ShareExplainRequest(
            group_id="g", partitions=[NamedPartition(topic_id=TOPIC, partition=number) for number in ALL]
        )
        explained = await cluster.states[1].explain(asked)
        assert [(one.active_member, one.active_epoch) for one in explained.partitions] == [
            (f"m{number}", 3) for number in ALL
        ]
        assert {one.locked_count for one in explained.partitions} == {5}
        assert {(one.holders[0].member_id, one.holders[0].count) for one in explained.partitions} == {("a", 5)}

    told(story)


def test_locks_stay_when_all_shards_move() -> None:
    async def story(cluster: ShareCluster) -> None:
        await cluster.initialize()
        await cluster.acquire(1, "a")
        cluster.move(2)
        assert await cluster.acquire(1, "b") == dict.fromkeys(ALL, ())
        cluster.move(1)
        assert await cluster.acknowledge(2, "a") == {0}

    told(story)


def test_shards_of_this_node_are_asked_without_a_link() -> None:
    async def story(cluster: ShareCluster) -> None:
        await cluster.initialize()
        cluster.move(2)
        before = len(cluster.links.calls)
        assert await cluster.acquire(2, "a", range(5)) == dict.fromkeys(range(5), ONCE)
        assert len(cluster.links.calls) == before
        assert await cluster.acquire(1, "a", range(5)) == dict.fromkeys(range(5), ())
        assert len(cluster.links.calls) == before + 1

    told(story)


def test_what_shards_of_this_node_refuse_as_they_move_goes_to_their_new_owner() -> None:
    async def story(cluster: ShareCluster) -> None:
        await cluster.initialize()
        cluster.move(2)
        await cluster.acquire(2, "a", range(1))
        asking = asyncio.ensure_future(cluster.acquire(2, "b", range(5)))
        await asyncio.sleep(0)  # it is on its way to shards that are being loaded here
        cluster.move(1)
        given = await asking
        assert given == {0: (), **dict.fromkeys(range(1, 5), ONCE)}
        assert await cluster.acquire(1, "c", range(5)) == dict.fromkeys(range(5), ())

    told(story)


def test_an_acquisition_whose_answer_is_lost_is_not_repeated() -> None:
    async def story(cluster: ShareCluster) -> None:
        await cluster.initialize()
        cluster.links.lose_answers(1)
        given = await cluster.acquire(1, "a")
        assert 0 < len(given) < len(ALL), "the other node's part has an error"
        named = [NamedPartition(topic_id=TOPIC, partition=number) for number in ALL]
        released = ShareReleaseRequest(
            group_id="g", member_id="a", node_id=1, node_epoch=5, session=1, partitions=named
        )
        cluster.links.lose_answers(1)
        answer = await cluster.states[1].release(released)
        assert {one.error_code for one in answer.partitions} == {0}, "a release is"
        assert await cluster.acquire(1, "b") == dict.fromkeys(ALL, TWICE)

    told(story)


def test_a_wait_ends_when_the_proxy_of_a_member_is_gone() -> None:
    async def story(cluster: ShareCluster) -> None:
        await cluster.initialize()
        await cluster.acquire(2, "a")
        own = cluster.own[2]
        key, partition = next(
            (key, one) for shard in own.directory.ready.values() for key, one in shard.partitions.items()
        )
        part = WaitPartition(group_id="g", topic_id=TOPIC, partition=key.partition, version=partition.version)
        waiting = asyncio.create_task(cluster.states[1].wait(ShareWaitRequest(max_wait_ms=20_000, partitions=[part])))
        await asyncio.sleep(1)
        assert not waiting.done() and cluster.links.purposes[-1] == "share-wait"
        cluster.restart(2)
        (news,) = (await waiting).partitions
        assert news.error_code == 0 and news.version > part.version
        assert await cluster.acquire(1, "b") == dict.fromkeys(ALL, TWICE)

    told(story)


def test_a_wait_says_when_its_shard_moves_or_cannot_be_reached() -> None:
    async def story(cluster: ShareCluster) -> None:
        await cluster.initialize()
        place = cluster.states[1].place_of
        number = next(one for one in ALL if place("g", TopicPartition(TOPIC, one)) == 2)
        part = WaitPartition(group_id="g", topic_id=TOPIC, partition=number, version=2**62)
        request = ShareWaitRequest(max_wait_ms=20_000, partitions=[part])
        waiting = asyncio.create_task(cluster.states[1].wait(request))
        await asyncio.sleep(1)
        cluster.move(1)
        assert [one.error_code for one in (await waiting).partitions] == [ErrorCode.NOT_COORDINATOR]
        cluster.move(2)
        cluster.links.down.add(2)
        answer = await cluster.states[1].wait(request)
        assert [one.error_code for one in answer.partitions] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert not (await cluster.states[1].wait(ShareWaitRequest(max_wait_ms=5))).partitions

    told(story)


@pytest.mark.parametrize(
    ("node_epoch", "live_epoch", "fenced_epoch", "expected"),
    [
        (5, 5, None, False),
        (5, 6, None, True),
        (6, 5, None, False),
        (5, None, 5, True),
        (5, None, 4, False),
        (5, None, None, False),
    ],
)
def test_an_incarnation_has_ended_when_the_metadata_says_so(
    node_epoch: int, live_epoch: int | None, fenced_epoch: int | None, expected: bool
) -> None:
    image = MetadataImage(
        nodes={} if live_epoch is None else {1: Node(1, "h", 1, epoch=live_epoch)},
        fenced_nodes={} if fenced_epoch is None else {1: Node(1, "h", 1, epoch=fenced_epoch)},
    )
    assert has_ended(image, 1, node_epoch) is expected
