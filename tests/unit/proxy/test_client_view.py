"""What clients of a cluster see: proxies, leaders and stand-ins, in Metadata and its relatives."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from bmq.log.config import LogConfig
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import NO_LEADER, MetadataImage, Node, PartitionImage, TopicImage
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import decode, encode
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_cluster_request import DescribeClusterRequest
from bmq.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.messages.metadata_response import MetadataResponse
from bmq.proxy.handlers.metadata import AllTopics
from bmq.proxy.live_proxies import Proxies, proxies_of, rendezvous
from bmq.proxy.topic_views import client_controller, client_leader, home_proxy
from tests.unit.proxy.harness import TOPIC_ID, Client, Proxy, batch, produce_request

pytestmark = pytest.mark.unit

BROKER = frozenset({"broker", "coordinator"})
PROXY = frozenset({"proxy"})


def node(node_id: int, roles: Iterable[str] = ("proxy", "broker"), **fields: object) -> Node:
    return Node(node_id, f"host-{node_id}", 9000 + node_id, roles=frozenset(roles), **fields)  # type: ignore[arg-type]


def image_with(
    nodes: Iterable[Node],
    leaders: Iterable[int],
    *,
    controller_id: int = -1,
    name: str = "t",
    topic_id: UUID = TOPIC_ID,
) -> MetadataImage:
    partitions = tuple(PartitionImage(n, leader, 3, (leader,), (leader,)) for n, leader in enumerate(leaders))
    topic = TopicImage(name, topic_id, partitions, {}, LogConfig())
    return MetadataImage(
        cluster_id="c",
        controller_id=controller_id,
        nodes={one.node_id: one for one in nodes},
        topics={name: topic},
        topics_by_id={topic_id: topic},
    )


def leaders_in(image: MetadataImage) -> list[int]:
    (topic,) = image.topics.values()
    return [client_leader(image, TopicPartition(topic.topic_id, p.partition), p) for p in topic.partitions]


# --- who stands for a partition


def test_the_owners_node_is_the_leader_when_it_has_a_proxy() -> None:
    image = image_with([node(1), node(2), node(3, BROKER), node(4, PROXY)], [1, 2, 1])
    assert leaders_in(image) == [1, 2, 1]


def test_a_stand_in_is_chosen_evenly_and_kept_when_others_come_and_go() -> None:
    proxies = [node(n, PROXY) for n in range(10, 15)]
    image = image_with([node(1, BROKER), *proxies], [1] * 5_000)
    chosen = leaders_in(image)
    counts = Counter(chosen)
    assert set(counts) == {10, 11, 12, 13, 14} and min(counts.values()) > 900
    fewer = leaders_in(image_with([node(1, BROKER), *proxies[1:]], [1] * 5_000))
    assert all(now == was for was, now in zip(chosen, fewer, strict=True) if was != 10)
    assert {now for was, now in zip(chosen, fewer, strict=True) if was == 10} == {11, 12, 13, 14}
    assert leaders_in(replace(image, nodes=dict(reversed(image.nodes.items())))) == chosen, "the same at every node"  # type: ignore[call-overload]


def test_a_stand_in_is_in_the_owners_rack_if_there_is_one() -> None:
    nodes = [node(1, BROKER, rack="a"), node(2, BROKER, rack="b"), node(3, BROKER)]
    nodes += [node(10, PROXY, rack="a"), node(11, PROXY, rack="a"), node(12, PROXY, rack="c"), node(13, PROXY)]
    found = leaders_in(image_with(nodes, [1] * 100 + [2] * 100 + [3] * 100))
    assert set(found[:100]) == {10, 11}
    assert set(found[100:200]) == set(found[200:]) == {10, 11, 12, 13}


def test_nothing_new_is_given_to_a_proxy_that_drains_unless_all_do() -> None:
    nodes = [node(1, BROKER), node(10, PROXY, is_draining=True), node(11, PROXY)]
    assert set(leaders_in(image_with(nodes, [1] * 50))) == {11}
    assert leaders_in(image_with([node(1, is_draining=True), node(2)], [1])) == [1], "what it owns it still serves"
    drained = [replace(one, is_draining=True) for one in nodes]
    assert set(leaders_in(image_with(drained, [1] * 50))) == {10, 11}


def test_a_proxy_stands_in_for_an_owner_that_seems_dead() -> None:
    leaders = leaders_in(image_with([node(1, BROKER), node(10, PROXY), node(11, PROXY)], [7] * 40))
    assert set(leaders) == {10, 11}
    assert leaders_in(image_with([node(1), node(2)], [7, 1])) == [leaders_in(image_with([node(1), node(2)], [7]))[0], 1]


def test_clients_are_not_sent_to_a_proxy_that_was_started_again_a_moment_ago_unless_all_were() -> None:
    back, near, far = node(1, rack="a", is_returning=True), node(2, rack="a"), node(3, rack="b")
    image = image_with([back, near, far], [1, 2, 3, 1])
    assert leaders_in(image) == [2, 2, 3, 2]  # in the rack of the owner
    (topic,) = image.topics.values()
    assert home_proxy(image, TopicPartition(topic.topic_id, 0), topic.partitions[0]) == 1
    assert set(leaders_in(image_with([node(9, BROKER), back, far], [9] * 50))) == {3}
    everybody = [replace(one, is_returning=True) for one in (back, near, far)]
    assert leaders_in(image_with(everybody, [1, 2, 3])) == [1, 2, 3]
    draining = replace(far, is_draining=True)
    assert leaders_in(image_with([back, draining], [1, 3])) == [3, 3]


def test_without_an_owner_or_a_proxy_there_is_no_leader() -> None:
    assert leaders_in(image_with([node(1, BROKER), node(10, PROXY)], [1, 7, NO_LEADER])) == [10, 10, NO_LEADER]
    assert leaders_in(image_with([node(1, BROKER)], [1])) == [NO_LEADER]
    assert rendezvous(TopicPartition(TOPIC_ID, 0), []) == NO_LEADER


def test_the_controller_clients_see_is_a_proxy() -> None:
    nodes = [node(1, {"controller"}), node(10, PROXY), node(11, {"proxy", "controller"})]
    assert client_controller(image_with(nodes, [], controller_id=11)) == 11
    assert client_controller(image_with(nodes, [], controller_id=1)) == 10
    assert client_controller(image_with(nodes, [], controller_id=NO_LEADER)) == 10
    assert client_controller(image_with(nodes[:1], [], controller_id=1)) == NO_LEADER


def test_images_share_their_picture_of_the_proxies() -> None:
    images = [image_with([node(n)], [n]) for n in range(40)]
    for _ in range(2):
        for image in images:
            assert list(proxies_of(image).by_id) == list(image.nodes)
    assert proxies_of(images[-1]) is proxies_of(replace(images[-1], offset=9))
    assert list(Proxies({2: node(2), 1: node(1)}).by_id) == [1, 2]


# --- the handlers


async def test_handlers_name_proxies_only(proxy: Proxy, client: Client) -> None:
    nodes = [node(1, BROKER), node(2, {"controller"}), node(10, PROXY, rack="r"), node(11, PROXY)]
    image = image_with(nodes, [1] * 8 + [NO_LEADER], controller_id=2)
    proxy.controller.image = image
    wanted = leaders_in(image)
    for topics in (None, [MetadataRequestTopic(name="t")]):
        metadata = await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=topics))
        assert [(b.node_id, b.host, b.rack) for b in metadata.brokers] == [(10, "host-10", "r"), (11, "host-11", None)]
        assert metadata.controller_id == 10
        partitions = metadata.topics[0].partitions
        assert [p.leader_id for p in partitions] == wanted
        assert [p.error_code for p in partitions] == [0] * 8 + [ErrorCode.LEADER_NOT_AVAILABLE]
        assert list(partitions[0].replica_nodes) == [1] and list(partitions[8].offline_replicas) == [-1]
    described = await client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest())
    assert [p.leader_id for p in described.topics[0].partitions] == wanted
    assert [p.error_code for p in described.topics[0].partitions] == [0] * 8 + [ErrorCode.LEADER_NOT_AVAILABLE]
    cluster = await client.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest())
    assert ([b.broker_id for b in cluster.brokers], cluster.controller_id) == ([10, 11], 10)


async def test_a_refused_produce_names_the_leader_clients_can_reach(proxy: Proxy, client: Client) -> None:
    image = image_with([node(1, BROKER), node(10, PROXY), node(11, PROXY)], [1] * 6)
    proxy.controller.image = image
    proxy.log(0).refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    response = await client.ask(ApiKey.PRODUCE, 11, produce_request({0: batch()}))
    hint = response.responses[0].partition_responses[0].current_leader
    leader = leaders_in(image)[0]
    assert (hint.leader_id, hint.leader_epoch) == (leader, 3)
    assert [(n.node_id, n.host) for n in response.node_endpoints] == [(leader, f"host-{leader}")]


# --- the answer about all topics


def plain(image: MetadataImage, version: int, request: MetadataRequest) -> bytes:
    """What the codec makes of the answer as a whole: topic by topic from a fresh cache, put together by the codec."""
    parts = []
    for topic in image.topics.values():
        alone = replace(image, topics={topic.name: topic}, topics_by_id={topic.topic_id: topic})
        response: MetadataResponse = decode(
            "response", ApiKey.METADATA, version, AllTopics().body(alone, (), version, request)
        )
        parts.append(response)
    empty: MetadataResponse = decode(
        "response",
        ApiKey.METADATA,
        version,
        AllTopics().body(replace(image, topics={}, topics_by_id={}), (), version, request),
    )
    empty.topics = [part.topics[0] for part in parts]
    return encode("response", ApiKey.METADATA, version, empty)


@pytest.mark.parametrize("version", range(APIS[ApiKey.METADATA].version_max + 1))
def test_kept_parts_make_the_answer_the_codec_would_make(version: int) -> None:
    random = Random(version)
    answers = AllTopics()
    nodes = [node(1), node(2, BROKER), node(10, PROXY)]
    image = replace(image_with(nodes, [1, 2]), topics={}, topics_by_id={})
    for _ in range(60):
        topics = dict(image.topics)
        name = f"topic-{random.randrange(200)}"
        kind = random.randrange(6)
        if kind == 0 and topics:
            del topics[random.choice(list(topics))]
        elif kind == 1:
            nodes = [node(1), node(2, BROKER), node(10 + random.randrange(3), PROXY)]
            image = replace(image, nodes={one.node_id: one for one in nodes})
        else:
            made = image_with(
                nodes, random.choices([1, 2, 9], k=3), name=name, topic_id=UUID(int=random.randrange(1, 300))
            )
            if made.topics[name].topic_id not in {topic.topic_id for topic in topics.values()}:
                topics[name] = made.topics[name]
        image = replace(image, topics=topics, topics_by_id={topic.topic_id: topic for topic in topics.values()})
        request = MetadataRequest(
            topics=None,
            include_topic_authorized_operations=random.random() < 0.5,
            include_cluster_authorized_operations=random.random() < 0.5,
        )
        assert answers.body(image, (), version, request) == plain(image, version, request)


def test_the_count_of_topics_may_need_more_than_one_byte() -> None:
    topics = {
        f"t-{n}": image_with([], [1], name=f"t-{n}", topic_id=UUID(int=n + 1)).topics[f"t-{n}"] for n in range(300)
    }
    image = replace(
        image_with([node(1)], [1]), topics=topics, topics_by_id={topic.topic_id: topic for topic in topics.values()}
    )
    for version in (1, 8, 9, 12, 13):
        body = AllTopics().body(image, (), version, MetadataRequest(topics=None))
        response = decode("response", ApiKey.METADATA, version, body)
        assert [topic.name for topic in response.topics] == list(topics)


def test_only_what_changed_is_encoded_again_and_unused_versions_are_forgotten() -> None:
    answers, request = AllTopics(), MetadataRequest(topics=None)
    first = image_with([node(1)], [1, 1])
    answers.body(first, (), 12, request)
    answers.body(first, (), 9, request)
    (kept,) = answers._parts[(12, False)].values()
    other = image_with([node(1)], [1], name="u", topic_id=UUID(int=77))
    second = replace(
        first, topics={**first.topics, **other.topics}, topics_by_id={**first.topics_by_id, **other.topics_by_id}
    )
    answers.body(second, (), 12, request)
    assert answers._parts[(12, False)][TOPIC_ID] is kept
    answers.body(replace(second, offset=8), (), 12, request)
    assert set(answers._parts) == {(12, False)}
    answers.body(replace(second, nodes=dict(second.nodes)), (), 12, request)
    assert answers._parts[(12, False)][TOPIC_ID] is not kept, "leaders depend on the nodes"


class Gate:
    """Turns that are given one by one."""

    def __init__(self) -> None:
        self.given = 0
        self._next = asyncio.Event()

    async def next(self) -> None:
        self.given += 1
        await self._next.wait()

    def open(self) -> None:
        self._next.set()


def many_topics(count: int, partitions: int = 300) -> MetadataImage:
    leaders = [1] * partitions
    topics = {
        f"t-{n}": image_with([node(1)], leaders, name=f"t-{n}", topic_id=UUID(int=n + 1)).topics[f"t-{n}"]
        for n in range(count)
    }
    by_id = {topic.topic_id: topic for topic in topics.values()}
    return replace(image_with([node(1)], [1]), topics=topics, topics_by_id=by_id)


async def test_all_topics_are_encoded_in_turns_once_for_all_who_ask() -> None:
    image, request = many_topics(8), MetadataRequest(topics=None)
    answers, gate, other = AllTopics(), Gate(), Gate()
    first = asyncio.ensure_future(answers.body_in_turns(image, (), 12, request, gate))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(answers.body_in_turns(image, (), 12, request, other))
    await asyncio.sleep(0)
    assert (gate.given, other.given) == (1, 0)
    gate.open()
    assert await first == await second == plain(image, 12, request)
    assert gate.given >= 3 and other.given == 0


async def test_who_waits_for_an_answer_encodes_it_when_the_other_client_leaves() -> None:
    image, request = many_topics(8), MetadataRequest(topics=None)
    answers, gate, other = AllTopics(), Gate(), Gate()
    first = asyncio.ensure_future(answers.body_in_turns(image, (), 12, request, gate))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(answers.body_in_turns(image, (), 12, request, other))
    await asyncio.sleep(0)
    other.open()
    first.cancel()
    assert await second == plain(image, 12, request)


async def test_an_image_that_comes_meanwhile_is_answered_by_itself() -> None:
    image, request = many_topics(8), MetadataRequest(topics=None)
    answers, gate = AllTopics(), Gate()
    first = asyncio.ensure_future(answers.body_in_turns(image, (), 12, request, gate))
    await asyncio.sleep(0)
    name, topic = next(iter(image.topics.items()))
    left = {**image.topics}
    del left[name]
    newer = replace(image, topics=left, topics_by_id={one.topic_id: one for one in left.values()})
    gate.open()
    second = asyncio.ensure_future(answers.body_in_turns(newer, (), 12, request, gate))
    assert await first == plain(image, 12, request)
    assert await second == plain(newer, 12, request)
    assert await answers.body_in_turns(newer, (), 12, request, Gate()) == plain(newer, 12, request)
    assert topic.topic_id not in answers._parts[(12, False)]
