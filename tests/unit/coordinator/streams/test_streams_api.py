"""Streams groups through the coordinator: durable answers, topics that are made, and the other APIs on such a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from bmq.coordinator.config import StreamsConfig
from bmq.coordinator.coordinator import GroupCoordinator
from bmq.coordinator.streams.tasks import NO_TASKS, Tasks
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.create_topics_request import CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from bmq.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from bmq.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, Topology
from bmq.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from bmq.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from tests.unit.coordinator.cluster import FAST, Cluster, request_context
from tests.unit.coordinator.streams.bench import ids, subtopology, task_parts, told

pytestmark = pytest.mark.unit

TOPOLOGY = Topology(epoch=0, subtopologies=[subtopology("0", ["t"])])
WITH_LOG = Topology(epoch=0, subtopologies=[subtopology("0", ["t"], changelogs=["log"])])
ALL = Tasks(ids(*(("0", number) for number in range(4))))
NO_DELAY = StreamsConfig(assignment_interval_ms=0, initial_rebalance_delay_ms=0)


class World(Cluster):
    """A coordinator that can have topics made; `refuse_with` instead of making them."""

    def __init__(self, streams: StreamsConfig = NO_DELAY) -> None:
        self.asked: list[str] = []
        self.refuse_with: ErrorCode | KafkaError = ErrorCode.NONE
        super().__init__(replace(FAST, streams=streams))

    def restart(self) -> GroupCoordinator:
        self.coordinator = GroupCoordinator(
            self.shards,
            self.clock,
            Random(7),
            self.config,
            lambda: self.topics,
            verifier=self.verifier,
            create_topics=self.create_topics,
            may_describe=lambda _context, _topic: True,
        )
        return self.coordinator

    async def create_topics(self, request: CreateTopicsRequest, context: Any) -> CreateTopicsResponse:
        names = [topic.name for topic in request.topics]
        self.asked += names
        if isinstance(self.refuse_with, KafkaError):
            raise self.refuse_with
        if self.refuse_with is ErrorCode.NONE:
            for name in names:
                self.topics.add(name, 100 + len(self.topics.topics))
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name=name, error_code=self.refuse_with) for name in names]
        )

    async def beat(self, member: str, epoch: int = 0, /, **fields: Any) -> StreamsGroupHeartbeatResponse:
        request = StreamsGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch)
        if epoch == 0:
            request.rebalance_timeout_ms, request.topology, request.process_id = 60_000, TOPOLOGY, member
        else:
            request.active_tasks = request.standby_tasks = request.warmup_tasks = request.client_tags = None
        version = fields.pop("version", 0)
        for name, value in fields.items():
            setattr(request, name, value)
        return await self.coordinator.streams.streams_group_heartbeat(request, request_context(version))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.coordinator.close()


async def test_a_group_lives_and_is_loaded_again(world: World) -> None:
    answer = await world.beat("a")
    assert (answer.error_code, answer.member_epoch, told(answer)) == (0, 2, ALL)
    assert told(await world.beat("a", 2)) is None
    world.restart()
    answer = await world.beat("a", 2)
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    answers = await asyncio.gather(*(world.beat(f"b{number}") for number in range(20)))
    assert {answer.error_code for answer in answers} == {0}
    shard = await world.coordinator.directory.get("g")
    group = shard.streams.find("g")
    assert group is not None and len(group.members) == 21
    await shard.save_snapshot(force=True)
    before = vars(group.fork())
    world.restart()
    shard = await world.coordinator.directory.get("g")
    group = shard.streams.find("g")
    assert group is not None and vars(group.fork()) == before


async def test_errors_are_answers(world: World) -> None:
    answer = await world.beat("a", 5)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR, "nobody has made the offsets topic yet"
    await world.beat("a")
    answer = await world.beat("a", 9)
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert answer.error_message and answer.status == []
    assert (await world.beat("", 0)).error_code == ErrorCode.INVALID_REQUEST


async def test_the_session_is_over() -> None:
    world = World(replace(NO_DELAY, session_timeout_ms=30, min_session_timeout_ms=1))
    await world.beat("a")
    shard = await world.coordinator.directory.get("g")
    async with asyncio.timeout(5):
        while shard.streams.groups["g"].members:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert (await world.beat("a", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.coordinator.metrics.expired_members == 1
    await world.coordinator.close()


async def test_the_first_target_comes_when_the_delay_is_over() -> None:
    world = World(replace(NO_DELAY, initial_rebalance_delay_ms=30))
    first, second = await asyncio.gather(world.beat("a"), world.beat("b"))
    for answer in (first, second):
        assert answer.status is not None and [status.status_code for status in answer.status] == [5]
    shard = await world.coordinator.directory.get("g")
    group = shard.streams.groups["g"]
    async with asyncio.timeout(5):
        while group.target_epoch < group.epoch:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert world.coordinator.metrics.expired_members == 0
    given = [cast(Tasks, told(await world.beat(member, 1))).active for member in "ab"]
    assert {len(tasks) for tasks in given} == {2} and given[0] | given[1] == ALL.active
    await world.coordinator.close()


async def test_topics_are_made(world: World) -> None:
    world.refuse_with = ErrorCode.POLICY_VIOLATION
    answer = await world.beat("a", topology=WITH_LOG)
    assert answer.status is not None and [status.status_code for status in answer.status] == [3]
    assert told(answer) == NO_TASKS
    await asyncio.sleep(0)
    world.refuse_with = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too slow")
    answer = await world.beat("a", 2)
    assert answer.status is not None
    assert answer.status[0].status_detail == "Internal topics are missing: log; Creation failed: log: POLICY_VIOLATION."
    await asyncio.sleep(0)
    world.refuse_with = ErrorCode.NONE
    answer = await world.beat("a", 2)
    assert answer.status is not None and answer.status[0].status_detail.endswith("; Creation failed: too slow.")
    await asyncio.sleep(0)
    assert world.asked == ["log"] * 3
    answer = await world.beat("a", 2)
    assert (answer.status, answer.member_epoch, told(answer)) == ([], 3, ALL)


async def test_lists_and_descriptions(world: World) -> None:
    await world.beat("a")
    for types, found in ((["Streams"], ["g"]), (["consumer"], []), ([], ["g"])):
        request = ListGroupsRequest(types_filter=types)
        listed = (await world.coordinator.administration.list_groups(request, request_context(5))).groups
        assert [group.group_id for group in listed] == found
        assert all(
            (one.group_type, one.protocol_type, one.group_state) == ("streams", "streams", "Stable") for one in listed
        )
    request_described = StreamsGroupDescribeRequest(group_ids=["g", "x", ""], include_authorized_operations=True)
    described = (await world.coordinator.streams.streams_group_describe(request_described, request_context(0))).groups
    assert [(one.error_code, one.group_state) for one in described] == [(0, "Stable"), (69, ""), (24, "")]
    assert described[0].authorized_operations > 0
    classic = (
        await world.coordinator.administration.describe_groups(DescribeGroupsRequest(groups=["g"]), request_context(6))
    ).groups[0]
    assert (classic.group_state, classic.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert world.coordinator.metrics._groups_by_state()["Stable"] == 1


async def test_the_topology_is_described(world: World) -> None:
    assert not (await world.beat("a")).topology_description_required, "its version has no place for it"
    answers = [
        await world.beat("a", 2, version=1),
        await world.beat("b", version=1),
        await world.beat("a", 2, version=1),
    ]
    assert [answer.topology_description_required for answer in answers] == [True, False, False], "one is asked"

    async def update(member_id: str = "a", epoch: int = 0, **fields: Any) -> int:
        nodes = [TopologyDescriptionNode(**{"name": "n", "node_type": 1, "source_topics": ["t"], **fields})]
        part = TopologyDescriptionSubtopology(subtopology_id="0", nodes=nodes)
        asked = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id="g",
            member_id=member_id,
            topology_epoch=epoch,
            topology_description=TopologyDescription(subtopologies=[part]),
        )
        return (
            await world.coordinator.streams.streams_group_topology_description_update(asked, request_context(0))
        ).error_code

    async def shown(*, asks: bool = True) -> tuple[int, list[str]]:
        request = StreamsGroupDescribeRequest(group_ids=["g"], include_topology_description=asks)
        (group,) = (await world.coordinator.streams.streams_group_describe(request, request_context(1))).groups
        told = group.topology_description
        parts = [] if told is None else told.subtopologies
        return group.topology_description_status, [node.name for part in parts for node in part.nodes]

    assert await shown() == (1, [])
    assert await update("x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert await update(epoch=1) == ErrorCode.INVALID_REQUEST
    assert await update(node_type=4) == ErrorCode.INVALID_REQUEST
    assert await update() == 0
    assert (await shown(), await shown(asks=False)) == ((3, ["n"]), (0, []))
    world.restart()
    assert await shown() == (1, [])
    stale = await world.beat("c", version=1, topology=replace(TOPOLOGY, epoch=-1))
    assert not stale.topology_description_required, "it has another topology"
    assert (await world.beat("a", version=1)).topology_description_required, "the next owner asks again"
    too_many = [f"n{number}" for number in range(50_000)]
    assert await update(successors=too_many) == ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    assert await shown() == (1, [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bmq.coordinator.streams_groups.DESCRIPTIONS_BYTES_MAX", 10)
        assert await update() == ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    assert await update() == 0


async def test_other_protocols_on_a_streams_group(world: World) -> None:
    await world.beat("a")
    assert (await world.join("g")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="c",
        member_epoch=0,
        rebalance_timeout_ms=5,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    for member_epoch in (0, 1):
        heartbeat.member_epoch = member_epoch
        answer = await world.coordinator.consumer.consumer_group_heartbeat(heartbeat, request_context(1))
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await world.beat("a", -1)
    assert (await world.join("g")).error_code == 0, "an empty one gives way"
    assert (await world.beat("a")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    shard = await world.coordinator.directory.get("g")
    assert not shard.streams.groups and "g" in shard.groups


async def test_an_empty_streams_group_stays_when_a_classic_member_that_it_cannot_know_joins(world: World) -> None:
    await world.beat("a")
    await world.beat("a", -1)
    assert (await world.join("g", "classic", version=5)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    shard = await world.coordinator.directory.get("g")
    group = shard.streams.find("g")
    assert group is not None
    assert group.topology is not None
    assert (await world.join("g", "", version=3)).error_code == ErrorCode.NONE
    assert shard.streams.find("g") is None


async def test_a_streams_group_where_a_consumer_group_is(world: World) -> None:
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="c",
        member_epoch=0,
        rebalance_timeout_ms=5,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answers = await asyncio.gather(
        world.coordinator.consumer.consumer_group_heartbeat(heartbeat, request_context(1)), world.beat("a")
    )
    assert [answer.error_code for answer in answers] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
    assert (await world.beat("a", -1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets(world: World) -> None:
    await world.beat("a")
    await world.beat("b")
    assert told(await world.beat("a", 2)) is not None
    rest = Tasks(ids(("0", 0), ("0", 1)))
    owned = {"active_tasks": task_parts(rest.active), "standby_tasks": [], "warmup_tasks": []}
    assert (await world.beat("a", 2, **owned)).member_epoch == 3
    place = ("t", 0)

    async def commit(**fields: Any) -> int:
        return (await world.commit("g", {place: 5}, **fields))[place]

    assert await commit() == ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit(member_id="a", generation=3, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert await commit(member_id="a", generation=4) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit(member_id="a", generation=3) == 0
    assert await commit(member_id="a", generation=2, version=10) == 0
    in_transaction = world.commit_in_transaction
    assert (await in_transaction("g", {place: 6}))[place] == 0
    assert (await in_transaction("g", {place: 6}, member_id="a", generation=3))[place] == 0
    for version, code in ((5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.STALE_MEMBER_EPOCH)):
        assert (await in_transaction("g", {place: 6}, member_id="a", generation=4, version=version))[place] == code
    assert (await in_transaction("g", {place: 6}, member_id="x", generation=4))[place] == ErrorCode.UNKNOWN_MEMBER_ID

    async def fetch(member_id: str | None, epoch: int) -> int:
        group = OffsetFetchRequestGroup(group_id="g", topics=None, member_id=member_id, member_epoch=epoch)
        return (
            (await world.coordinator.offsets.offset_fetch(OffsetFetchRequest(groups=[group]), request_context(9)))
            .groups[0]
            .error_code
        )

    assert [await fetch(None, -1), await fetch("a", 3), await fetch("a", 2), await fetch("x", 3)] == [0, 0, 113, 25]


async def test_deletion(world: World) -> None:
    await world.beat("a")
    assert (await world.commit("g", {("t", 0): 5}, member_id="a", generation=2))["t", 0] == 0

    async def delete() -> int:
        request = DeleteGroupsRequest(groups_names=["g"])
        return (await world.coordinator.administration.delete_groups(request, request_context(2))).results[0].error_code

    assert await delete() == ErrorCode.NON_EMPTY_GROUP
    await world.beat("a", -1)
    assert await delete() == 0
    assert await delete() == ErrorCode.GROUP_ID_NOT_FOUND
    world.restart()
    shard = await world.coordinator.directory.get("g")
    assert not shard.has_group("g")


async def test_an_empty_group_without_offsets_goes(world: World) -> None:
    await world.beat("a")
    shard = await world.coordinator.directory.get("g")
    shard._expire(["g"])
    await asyncio.sleep(0)
    assert shard.streams.find("g") is not None
    await world.beat("a", -1)
    shard._expire(["g"])
    async with asyncio.timeout(5):
        while shard.has_group("g"):  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_topics_that_change_are_looked_at(world: World) -> None:
    await world.beat("a")
    old = world.topics
    world.topics = type(old)(dict(old.topics))
    world.topics.topics["t"] = replace(old.topics["t"], partitions=(0, 1, 2, 3, 4))
    world.coordinator.image_changed(old, world.topics)
    answer = await world.beat("a", 2)
    assert answer.member_epoch == 3
    assert len(cast(Tasks, told(answer)).active) == 5
