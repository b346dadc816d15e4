"""Share consumers are told the leader that they know as long as its proxy lives, and no leader that is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.config import LogConfig
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import ROLE_BROKER, MetadataImage, Node, PartitionImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.messages.metadata_response import MetadataResponse
from bmq.protocol.request_context import by_itself
from bmq.proxy.handlers.metadata import metadata
from bmq.proxy.share.former_leaders import LEADERS_MAX, FormerLeaders
from bmq.proxy.topic_views import client_leader
from tests.fakes.peer import FakePeer
from tests.unit.proxy_share.share_client import Member, ShareCluster

pytestmark = pytest.mark.unit

T = UUID(int=7)


class World:
    """Topic t with one partition; a proxy that follows the image, and has watched it from the beginning."""

    def __init__(self, nodes: Sequence[int] = (1, 2, 3, 4), **limits: int) -> None:
        known = {number: Node(number, "h", 9000 + number, epoch=1) for number in nodes}
        topic = TopicImage("t", T, (PartitionImage(0, 1, 0, (1, 2), (1, 2)),), {}, LogConfig())
        self.image = MetadataImage(nodes=known, topics={"t": topic}, topics_by_id={T: topic})
        self.leaders = FormerLeaders(lambda: self.image, **limits)
        self.leaders.watch([T])

    def _show(self, image: MetadataImage) -> None:
        before, self.image = self.image, image
        self.leaders.changed(before, image)

    def move(self, node_id: int) -> None:
        topic = self.image.topics_by_id[T]
        (partition,) = topic.partitions
        moved = replace(partition, leader=node_id, leader_epoch=partition.leader_epoch + 1)
        topic = replace(topic, partitions=(moved, *topic.partitions[1:]))
        self._show(replace(self.image, topics={"t": topic}, topics_by_id={T: topic}))

    def end(self, node_id: int) -> None:
        self._show(replace(self.image, nodes={n: one for n, one in self.image.nodes.items() if n != node_id}))

    def change(self, node: Node) -> None:
        self._show(replace(self.image, nodes={**self.image.nodes, node.node_id: node}))

    @property
    def told(self) -> tuple[int, int]:
        (partition,) = self.image.topics_by_id[T].partitions
        return self.leaders.leader(self.image, TopicPartition(T, 0), partition)


class Client:
    """Java's: it takes a leader with an epoch that is not older than what it has."""

    def __init__(self, leader: tuple[int, int]) -> None:
        self.leader = leader

    def hear(self, leader: tuple[int, int]) -> None:
        if leader[1] >= self.leader[1]:
            self.leader = leader


def test_the_leader_stays_while_its_proxy_lives() -> None:
    world = World()
    assert world.told == (1, 0)
    world.move(2)
    world.move(3)
    assert world.told == (1, 0)
    world.end(4)
    assert world.told == (1, 0)
    world.end(1)
    assert world.told == (2, 1), "the next one that a client may know"
    world.end(2)
    assert world.told == (3, 2)


@pytest.mark.parametrize("change", [{"epoch": 2}, {"is_draining": True}, {"roles": frozenset({ROLE_BROKER})}])
def test_a_proxy_that_was_restarted_is_about_to_stop_or_is_none_is_left(change: dict[str, object]) -> None:
    world = World()
    world.move(2)
    world.change(replace(world.image.nodes[1], **change))  # type: ignore[arg-type]
    assert world.told == (2, 1)


def test_no_client_is_left_with_a_leader_that_is_gone() -> None:
    world = World()
    early = Client(world.told)
    world.move(2)
    late = Client((2, 1))
    world.move(3)
    for client in (early, late):
        client.hear(world.told)
    assert (early.leader, late.leader) == ((1, 0), (2, 1))
    world.end(2)
    for client in (early, late):
        client.hear(world.told)
    assert (early.leader, late.leader) == ((3, 2), (3, 2)), "an older epoch would not reach the client of node 2"


def test_a_leader_that_comes_back_is_one_of_two() -> None:
    world = World()
    world.move(2)
    world.move(1)
    assert world.told == (1, 0)
    world.end(2)
    assert world.told == (1, 2)


def test_what_is_not_watched_has_its_present_leader() -> None:
    world = World()
    world.leaders.forget()
    world.move(2)
    assert world.told == (2, 1) and len(world.leaders) == 0
    world.leaders.watch([T, UUID(int=8)])
    world.move(3)
    assert world.told == (2, 1) and len(world.leaders) == 1
    full = World(topics_max=0)
    full.move(2)
    assert full.told == (2, 1)
    full = World(partitions_max=0)
    full.move(2)
    assert full.told == (2, 1)


def test_topics_that_are_deleted_or_grow() -> None:
    world = World()
    topic = world.image.topics_by_id[T]
    grown = replace(topic, partitions=(*topic.partitions, PartitionImage(1, 3, 0, (3,), (3,))))
    world._show(replace(world.image, topics={"t": grown}, topics_by_id={T: grown}))
    moved = replace(grown, partitions=(grown.partitions[0], PartitionImage(1, 4, 1, (3,), (3,))))
    world._show(replace(world.image, topics={"t": moved}, topics_by_id={T: moved}))
    assert world.leaders.leader(world.image, TopicPartition(T, 1), moved.partitions[1]) == (3, 0)
    world._show(replace(world.image, topics={}, topics_by_id={}))
    assert len(world.leaders) == 0


@given(st.lists(st.tuples(st.sampled_from(["move", "end", "back", "hear", "join"]), st.integers(1, 4)), max_size=60))
def test_every_client_has_a_leader_that_lives(events: list[tuple[str, int]]) -> None:
    """Any history: after it has asked, a client has the leader it had if that lives on, or in any case one that lives."""
    world = World()
    clients = [Client(world.told)]
    for kind, number in events:
        if kind == "move" and number in world.image.nodes:
            world.move(number)
        elif kind == "end" and len(world.image.nodes) > 1:
            world.end(number)
            (partition,) = world.image.topics_by_id[T].partitions
            if partition.leader not in world.image.nodes:
                world.move(next(iter(world.image.nodes)))
        elif kind == "back" and number not in world.image.nodes:
            world.change(Node(number, "h", 9000 + number, epoch=world.image.offset + 2 + len(clients)))
        elif kind == "join":
            (partition,) = world.image.topics_by_id[T].partitions
            at = client_leader(world.image, TopicPartition(T, 0), partition)
            clients.append(Client((at, partition.leader_epoch)))
        for client in clients:
            client.hear(world.told)
            assert client.leader[0] in world.image.nodes
    assert len(world.leaders._of(TopicPartition(T, 0))) <= LEADERS_MAX


async def test_metadata_names_them_on_a_connection_with_a_share_session_alone(cluster: ShareCluster) -> None:
    controller = cluster.services.controller
    leaders = cluster.consumers.leaders = FormerLeaders(lambda: controller.image)
    image = controller.image
    nodes = {number: Node(number, "h", 9000 + number, epoch=1) for number in (1, 2)}
    (name,) = image.topics

    def show(leader: int, leader_epoch: int) -> None:
        before = controller.image
        topic = before.topics[name]
        moved = [replace(one, leader=leader, leader_epoch=leader_epoch) for one in topic.partitions]
        topic = replace(topic, partitions=tuple(moved))
        controller.image = replace(  # type: ignore[misc]
            before, nodes=nodes, topics={name: topic}, topics_by_id={topic.topic_id: topic}
        )
        leaders.changed(before, controller.image)

    async def asked(peer: Any) -> list[tuple[int, int]]:
        context = replace(by_itself(ApiKey.METADATA), peer=peer)
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        answer = await metadata(request, context, cluster.services)
        assert isinstance(answer, MetadataResponse)
        return [(one.leader_id, one.leader_epoch) for one in answer.topics[0].partitions]

    show(1, 5)
    member, other = Member(cluster), FakePeer()
    await member.fetch()
    show(2, 6)
    assert set(await asked(member.peer)) == {(1, 5)}
    assert set(await asked(other)) == {(2, 6)}
    member.lose()
    assert set(await asked(member.peer)) == {(2, 6)} and len(leaders) == 0
