"""The shard of a base group: which lanes are taken, from which offset on, and who may join."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from bmq.coordinator.api import lane_ends
from bmq.coordinator.coordinator import GroupCoordinator
from bmq.coordinator.lanes.lane_states import is_copied
from bmq.log.lanes.copying import CopyJob, CopyStep
from bmq.log.lanes.intervals import NO_END, Interval
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.lane_messages import (
    DecidedPartition,
    LaneDecideRequest,
    LaneGroupRequest,
    LaneGroupResponse,
    LaneListRequest,
    LanePartition,
)
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest
from bmq.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from bmq.protocol.request_context import by_itself
from tests.unit.coordinator.classic.group_bench import subscription
from tests.unit.coordinator.cluster import Cluster, request_context

pytestmark = pytest.mark.unit

TOPIC = UUID(int=1)


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_ends, "LOOK_S", 0.001)


LAST = 10_000


class Calls:
    """As bmq.coordinator.lanes.ports.LaneCalls and ProvenBounds, and LaneCopies: ten
    offsets a step, three records. `gate`: bounds are told once it is set."""

    def __init__(self, coordinator: GroupCoordinator, end: int = 0) -> None:
        self._coordinator = coordinator
        self.end = end
        self.gate: asyncio.Event | None = None
        self.asked = asyncio.Event()
        self.start = 0
        self.producers = 100
        self.group_count = 0
        self.jobs: list[CopyJob] = []
        self.copy_error: KafkaError | None = None
        self.refused: tuple[str, ...] = ("blue", "red")  # lanes whose copies end with `copy_error`
        self.held: dict[str, asyncio.Event] = {}  # until when copies of a lane get no answer

    async def group(self, request: LaneGroupRequest) -> LaneGroupResponse:
        self.group_count += 1
        answer: LaneGroupResponse = await self._coordinator.handle(
            ApiKey.LANE_GROUP, request, by_itself(ApiKey.LANE_GROUP)
        )
        return answer

    async def proven_bounds(self, topic_id: UUID, partition: int) -> tuple[int, int]:
        assert topic_id == TOPIC
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        return self.start, self.end

    async def producer(self, base: str, topic_id: UUID, partition: int) -> tuple[int, int]:
        self.producers += 1
        return self.producers, 0

    async def copy(self, job: CopyJob) -> CopyStep:
        self.jobs.append(job)
        if job.lane in self.held:
            await self.held[job.lane].wait()
        if self.copy_error is not None and job.lane in self.refused:
            raise self.copy_error
        return CopyStep(min(job.first + 10, job.end), 3)


def wire(cluster: Cluster, end: int = 0) -> Calls:
    calls = Calls(cluster.coordinator, end)
    cluster.coordinator.lanes.use(calls, calls, calls)
    return calls


def with_lanes(end: int = 0) -> tuple[Cluster, Calls]:
    cluster = Cluster()
    cluster.topics.add("t.retry.g", 3)
    cluster.topics.group_configs["g"] = {"bmq.lane.enable": "true"}
    return cluster, wire(cluster, end)


async def join(cluster: Cluster, group_id: str, client_id: str) -> int:
    """The error code of the group's first JoinGroup."""
    context = request_context(3, client_id)
    return (await cluster.coordinator.classic.join_group(join_request(group_id), context)).error_code


def join_request(group_id: str) -> JoinGroupRequest:
    """From an old client, of which no member id is demanded."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    )


async def heartbeat(cluster: Cluster, group_id: str, client_id: str) -> tuple[int, str]:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m-" + client_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = await cluster.coordinator.consumer.consumer_group_heartbeat(request, request_context(1, client_id))
    return answer.error_code, answer.error_message or ""


async def decide(cluster: Cluster, lane: str = "", partition: int = 0, last: int = LAST) -> DecidedPartition:
    request = LaneDecideRequest(
        group_id="g", lane=lane, partitions=[LanePartition(topic_id=TOPIC, partition=partition, first=0, last=last)]
    )
    answer = await cluster.coordinator.lanes.decide(request, by_itself(ApiKey.LANE_DECIDE))
    if answer.error_code:
        return DecidedPartition(error_code=answer.error_code)
    (part,) = answer.partitions
    return part


def intervals(part: DecidedPartition) -> list[Interval]:
    assert part.error_code == 0
    return [Interval(one.lane, one.start, one.end, one.kept) for one in part.intervals]


async def reason(cluster: Cluster) -> str:
    listed = await cluster.coordinator.lanes.list(LaneListRequest(group_id="g"), by_itself(ApiKey.LANE_LIST))
    return "; ".join(one.reason for one in listed.untaken)


async def test_members_of_a_group_with_lanes_need_the_mark_of_their_group() -> None:
    cluster, _ = with_lanes()
    for group_id in ("g", "g@blue"):
        code, message = await heartbeat(cluster, group_id, "rdkafka")
        assert code == ErrorCode.INVALID_REQUEST and f"client.id=lanes:{group_id}" in message
        assert await join(cluster, group_id, "rdkafka") == ErrorCode.INVALID_REQUEST
        assert await heartbeat(cluster, group_id, f"lanes:{group_id}#-0") == (0, "")
    assert await join(cluster, "elsewhere", "rdkafka") == 0


async def test_mark_of_another_group_is_refused_even_where_there_are_no_lanes() -> None:
    cluster = Cluster()
    for group_id, client_id in (("h", "lanes:g"), ("g", "lanes:g@blue"), ("g@blue", "lanes:g")):
        code, message = await heartbeat(cluster, group_id, client_id)
        assert code == ErrorCode.INVALID_REQUEST and "names the group" in message
        assert await join(cluster, group_id, client_id) == ErrorCode.INVALID_REQUEST
    assert await join(cluster, "g", "lanes:g") == 0


async def test_lane_is_taken_from_the_end_on_with_its_groups_first_fetch() -> None:
    cluster, calls = with_lanes(end=70)
    assert await join(cluster, "g@blue", "lanes:g@blue") == 0
    assert intervals(await decide(cluster)) == []
    assert intervals(await decide(cluster, "blue")) == [Interval("blue", 70)]
    calls.end = 90
    assert intervals(await decide(cluster)) == [Interval("blue", 70, NO_END, NO_END)]
    assert intervals(await decide(cluster, "blue")) == [Interval("blue", 70)]
    assert intervals(await decide(cluster, last=69)) == []
    assert intervals(await decide(cluster, partition=1)) == []


async def test_lane_is_not_taken_and_the_reason_is_told() -> None:
    cluster, _ = with_lanes()
    assert await join(cluster, "h", "h") == 0
    assert intervals(await decide(cluster, "blue")) == [] and "no members" in await reason(cluster)
    await join(cluster, "g@blue", "lanes:g@blue")
    del cluster.topics.topics["t.retry.g"]
    assert intervals(await decide(cluster, "blue")) == [] and "no topic t.retry.g" in await reason(cluster)
    cluster.topics.add("t.retry.g", 3)
    cluster.topics.group_configs.clear()
    assert intervals(await decide(cluster, "blue")) == [] and "bmq.lane.enable=true" in await reason(cluster)
    assert await join(cluster, "g", "rdkafka") == 0
    cluster.topics.group_configs["g"] = {"bmq.lane.enable": "true"}
    assert intervals(await decide(cluster, "blue")) == [] and "'rdkafka', without the mark" in await reason(cluster)


async def test_member_of_the_lanes_group_without_the_mark_keeps_the_lane_from_being_taken() -> None:
    cluster, _ = with_lanes()
    del cluster.topics.group_configs["g"]
    assert await join(cluster, "g@blue", "rdkafka") == 0
    cluster.topics.group_configs["g"] = {"bmq.lane.enable": "true"}
    assert intervals(await decide(cluster, "blue")) == [] and "'rdkafka', without the mark" in await reason(cluster)


async def test_questions_wait_while_a_lane_is_being_taken() -> None:
    cluster, calls = with_lanes(end=5)
    await join(cluster, "g@blue", "lanes:g@blue")
    calls.gate = asyncio.Event()
    taking = asyncio.create_task(decide(cluster, "blue"))
    await calls.asked.wait()
    asking = asyncio.create_task(decide(cluster))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not asking.done() and intervals(await decide(cluster, partition=1)) == []
    calls.gate.set()
    assert intervals(await asking) == intervals(await taking) == [Interval("blue", 5)]


async def test_questions_wait_for_an_opening_whose_asker_has_gone() -> None:
    """The append is on its way when the link to the asker is lost: the interval may be durable, so nothing is decided yet."""
    cluster, calls = with_lanes(end=5)
    await join(cluster, "g@blue", "lanes:g@blue")
    await cluster.coordinator.prepare("g")
    log = cluster.log_of("g")
    log.is_acknowledging = False
    taking = asyncio.create_task(decide(cluster, "blue"))
    await calls.asked.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    taking.cancel()
    asking = asyncio.create_task(decide(cluster))
    for _ in range(20):
        await asyncio.sleep(0)
    assert taking.cancelled() and not asking.done()
    log.is_acknowledging = True
    log.acknowledge()
    assert intervals(await asking) == [Interval("blue", 5)]


async def test_next_owner_has_the_intervals_and_a_former_one_answers_nothing() -> None:
    cluster, _ = with_lanes(end=5)
    await join(cluster, "g@blue", "lanes:g@blue")
    await decide(cluster, "blue")
    heir = cluster.take_over()
    wire(heir, end=50)
    assert intervals(await decide(heir)) == [Interval("blue", 5)]
    del cluster.topics.group_configs["g"]
    assert await join(heir, "g", "rdkafka") == ErrorCode.INVALID_REQUEST, "there are intervals"
    assert (await decide(cluster)).error_code == ErrorCode.NOT_COORDINATOR


async def test_snapshot_has_the_intervals() -> None:
    cluster, _ = with_lanes(end=5)
    await join(cluster, "g@blue", "lanes:g@blue")
    await decide(cluster, "blue")
    shard = cluster.coordinator.directory.find("g")
    assert shard is not None
    assert await shard.save_snapshot(force=True)
    heir = cluster.take_over()
    wire(heir)
    assert intervals(await decide(heir)) == [Interval("blue", 5)]


async def test_intervals_go_with_their_topic() -> None:
    cluster, _ = with_lanes(end=5)
    await join(cluster, "g@blue", "lanes:g@blue")
    await decide(cluster, "blue")
    shard = cluster.coordinator.directory.find("g")
    assert shard is not None and shard.lanes.states.count == 1
    cluster.coordinator.lanes.topics_gone(shard, {TOPIC})
    await shard.prove()
    for _ in range(5):
        await asyncio.sleep(0)
    assert shard.lanes.states.count == 0 and not shard.lanes.states.has_group("g")


class Left:
    """A lane that was taken at 5 and whose group has committed 12; its member has gone."""

    def __init__(self) -> None:
        self.cluster, self.calls = with_lanes(end=5)
        self.cluster.topics.group_configs["g"]["bmq.lane.grace.ms"] = "0"

    async def begin(self, end: int) -> None:
        member_id = await member(self.cluster)
        await decide(self.cluster, "blue")
        await self.cluster.commit("g@blue", {("t", 0): 12}, member_id=member_id, generation=1)
        self.calls.end = end
        await leave(self.cluster, member_id)


async def member(cluster: Cluster) -> str:
    """The lane's group with one member that has its assignment; the member's id."""
    context = request_context(3, "lanes:g@blue")
    joined = await cluster.coordinator.classic.join_group(join_request("g@blue"), context)
    assert joined.error_code == 0
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
    request = SyncGroupRequest(
        group_id="g@blue", generation_id=joined.generation_id, member_id=joined.member_id, assignments=[assignment]
    )
    assert (await cluster.coordinator.classic.sync_group(request, context)).error_code == 0
    return joined.member_id


async def leave(cluster: Cluster, member_id: str) -> None:
    request = LeaveGroupRequest(group_id="g@blue", member_id=member_id)
    assert (await cluster.coordinator.classic.leave_group(request, request_context(1, "lanes:g@blue"))).error_code == 0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 -- the coordinator works in the background
            await asyncio.sleep(0.001)


async def until_ended(cluster: Cluster) -> list[Interval]:
    """Once no lane is taken and nothing waits for its copy."""
    shard = cluster.coordinator.directory.find("g")
    assert shard is not None
    await until(lambda: all(is_copied(value) for _, value in shard.lanes.states.entries()))
    return intervals(await decide(cluster))


async def test_lane_that_went_ends_at_what_was_committed_and_the_rest_is_copied_once() -> None:
    left = Left()
    await left.begin(end=40)
    assert await until_ended(left.cluster) == [Interval("blue", 5, 40, 12)]
    assert [(job.first, job.end, job.producer_id, job.sequence) for job in left.calls.jobs] == [
        (12, 40, 101, 0),
        (22, 40, 101, 3),
        (32, 40, 101, 6),
    ]
    assert left.calls.jobs[0][:4] == ("g", TOPIC, 0, "blue")


async def test_lane_is_kept_while_its_group_has_members() -> None:
    left = Left()
    member_id = await member(left.cluster)
    await decide(left.cluster, "blue")
    asked = left.calls.group_count
    await until(lambda: left.calls.group_count >= asked + 3)
    assert intervals(await decide(left.cluster)) == [Interval("blue", 5)]
    await leave(left.cluster, member_id)
    assert await until_ended(left.cluster) == [], "nothing was produced meanwhile"


async def test_next_owner_goes_on_with_the_copies_where_the_log_says() -> None:
    left = Left()
    await left.begin(end=40)
    left.calls.copy_error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    await until(lambda: bool(left.calls.jobs))
    heir = left.cluster.take_over()
    calls = wire(heir, end=50)
    assert intervals(await decide(heir)) == [Interval("blue", 5, 40, 12)]
    await until_ended(heir)
    assert calls.jobs[0] == left.calls.jobs[0] and calls.producers == 100, "the same batch again"


async def waits(cluster: Cluster) -> dict[str, str]:
    """Why copies wait, by lane; those that do not have an empty reason."""
    listed = await cluster.coordinator.lanes.list(LaneListRequest(group_id="g"), by_itself(ApiKey.LANE_LIST))
    return {one.lane: one.waits for one in listed.intervals}


async def leave_beside_red(left: Left) -> None:
    """The lane `red` was taken as well, and leaves over all; returns once that is copied."""
    context = request_context(3, "lanes:g@red")
    red = await left.cluster.coordinator.classic.join_group(join_request("g@red"), context)
    await decide(left.cluster, "red")
    await left.begin(end=40)
    request = LeaveGroupRequest(group_id="g@red", member_id=red.member_id)
    await left.cluster.coordinator.classic.leave_group(request, request_context(1, "lanes:g@red"))
    shard = left.cluster.coordinator.directory.find("g")
    assert shard is not None
    states = shard.lanes.states
    await until(lambda: [is_copied(one) for key, one in states.entries() if key.lane == "red"] == [True])


async def test_copies_that_get_no_answer_hold_up_no_others() -> None:
    left = Left()
    left.calls.held["blue"] = asyncio.Event()
    await leave_beside_red(left)
    assert [job.first for job in left.calls.jobs if job.lane == "blue"] == [12]
    left.calls.held["blue"].set()
    assert Interval("blue", 5, 40, 12) in await until_ended(left.cluster)


async def test_a_lane_that_goes_while_another_ones_copies_get_no_answer_is_ended() -> None:
    left = Left()
    left.calls.held["blue"] = asyncio.Event()
    context = request_context(3, "lanes:g@red")
    red = await left.cluster.coordinator.classic.join_group(join_request("g@red"), context)
    await decide(left.cluster, "red")
    await left.begin(end=40)
    await until(lambda: any(job.lane == "blue" for job in left.calls.jobs))
    request = LeaveGroupRequest(group_id="g@red", member_id=red.member_id)
    await left.cluster.coordinator.classic.leave_group(request, request_context(1, "lanes:g@red"))
    shard = left.cluster.coordinator.directory.find("g")
    assert shard is not None
    states = shard.lanes.states
    await until(lambda: [is_copied(one) for key, one in states.entries() if key.lane == "red"] == [True])
    left.calls.held["blue"].set()
    await until_ended(left.cluster)


async def test_copies_that_are_refused_wait_and_say_why_and_others_go_on() -> None:
    left = Left()
    why = "topic t.retry.g, partition 0, did not take the copy of its first record from offset 12 on: too large"
    left.calls.refused = ("blue",)
    left.calls.copy_error = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, why)
    await leave_beside_red(left)
    await until(lambda: sum(job.lane == "blue" for job in left.calls.jobs) >= 3)
    assert await waits(left.cluster) == {"blue": why, "red": ""}
    assert len({job for job in left.calls.jobs if job.lane == "blue"}) == 1, "the same batch each time"
    left.calls.copy_error = None
    assert Interval("blue", 5, 40, 12) in await until_ended(left.cluster)
    assert await waits(left.cluster) == {"blue": "", "red": ""}


async def test_reason_goes_with_the_topic_of_the_records() -> None:
    left = Left()
    left.calls.copy_error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic t.retry.g")
    await left.begin(end=40)
    shard = left.cluster.coordinator.directory.find("g")
    assert shard is not None
    await until(lambda: bool(shard.lanes.waits))
    left.cluster.coordinator.lanes.topics_gone(shard, {TOPIC})
    await until(lambda: not shard.lanes.waits)
    assert shard.lanes.states.count == 0


def test_what_fails_again_is_tried_after_twice_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_ends, "LOOK_S", 1.0)
    lengths, pause = [], None
    for _ in range(7):
        pause = lane_ends.Pause.after(pause, 100.0)
        assert pause.until_s == 100.0 + pause.length_s
        lengths.append(pause.length_s)
    assert lengths == [1, 2, 4, 8, 16, 30, 30]


async def test_lane_that_comes_back_takes_what_follows_and_intervals_go_with_the_log() -> None:
    left = Left()
    await left.begin(end=40)
    await until_ended(left.cluster)
    await member(left.cluster)
    assert intervals(await decide(left.cluster, "blue")) == [Interval("blue", 5, 40, 12), Interval("blue", 40)]
    left.calls.start = 40
    await join(left.cluster, "g@red", "lanes:g@red")
    assert intervals(await decide(left.cluster, "red")) == [Interval("blue", 40), Interval("red", 40)]


async def test_group_tells_members_and_committed_offsets() -> None:
    cluster, calls = with_lanes()
    await cluster.commit("g@blue", {("t", 0): 7})
    await join(cluster, "g@blue", "lanes:g@blue#1")
    asked = LaneGroupRequest(group_id="g@blue")
    answer = await calls.group(asked)
    assert answer.is_mark_demanded and list(answer.client_ids) == ["lanes:g@blue#1"]
