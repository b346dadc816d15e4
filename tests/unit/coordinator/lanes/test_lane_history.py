"""Random histories: lanes come and go, shards move, former owners go on, copies are repeated; each record is seen once.

Method: records are produced until the lanes are done, so that lanes come and go in the middle of the log. Records of the shard
are durable some turns later, and links are lost meanwhile. The partition is a list of lanes. The base group and two lanes' groups read it through the coordinator's own calls. What a
lane's group was given counts when its commit is answered. Copies go to a fake that drops duplicates as a partition's owner does, and
refuses some.
"""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

import pytest

from bmq.coordinator.api import lane_ends
from bmq.coordinator.coordinator import GroupCoordinator
from bmq.coordinator.lanes.lane_states import is_copied
from bmq.log.lanes.copying import CopyJob, CopyStep
from bmq.log.lanes.intervals import Interval, is_of_base, is_of_lane
from bmq.log.partition_log import ReplayableLog
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.lane_messages import LaneDecideRequest, LaneGroupRequest, LaneGroupResponse, LanePartition
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest
from bmq.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from bmq.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from bmq.protocol.request_context import by_itself
from tests.unit.coordinator.cluster import Cluster, request_context
from tests.unit.coordinator.lanes.test_lanes_api import TOPIC, join_request

pytestmark = [pytest.mark.unit, pytest.mark.safety]

LANES = ("blue", "red")
STEPS = 400
SEEDS = 6
TAKEOVERS_MAX = 12


class World:
    """The partition, its copies, and the present owner of all shards. `rng` decides about every delay and fault."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.log: list[str] = []
        self.copies: list[int] = []
        self.sequences: dict[int, int] = {}
        self.producers = 0
        self.cluster = Cluster()
        self.cluster.topics.add("t.retry.g", 3)
        self.cluster.topics.group_configs["g"] = {"bmq.lane.enable": "true", "bmq.lane.grace.ms": "0"}
        self.former: list[Cluster] = []
        self.wire(self.cluster)

    def wire(self, cluster: Cluster) -> None:
        ways = Ways(self, cluster.coordinator)
        cluster.coordinator.lanes.use(ways, ways, ways)
        opened = cluster.shards.open

        async def open_shard(shard: int, *, is_awaited: bool) -> ReplayableLog:
            log = await opened(shard, is_awaited=is_awaited)
            self.acknowledge()  # who has opened a log knows how every append of its former owner has ended
            return log

        cluster.shards.open = open_shard  # type: ignore[method-assign]

    def take_over(self) -> None:
        self.former.append(self.cluster)
        self.cluster = self.cluster.take_over()
        self.wire(self.cluster)

    def acknowledge(self) -> None:
        """What the shards' owners have appended is durable."""
        for log in self.cluster.shards.logs.values():
            log.is_acknowledging = False
            log.acknowledge()

    async def pause(self, *turns: int) -> None:
        """For one of these numbers of turns of the loop."""
        for _ in range(self.rng.choice(turns or (0, 0, 1, 1, 3))):
            await asyncio.sleep(0)

    async def decided(self, cluster: Cluster, lane: str, first: int, end: int) -> list[Interval] | None:
        """None: refused."""
        part = LanePartition(topic_id=TOPIC, partition=0, first=first, last=end - 1)
        request = LaneDecideRequest(group_id="g", lane=lane, partitions=[part])
        answer = await cluster.coordinator.lanes.decide(request, by_itself(ApiKey.LANE_DECIDE))
        if answer.error_code:
            return None
        (decided,) = answer.partitions
        return [Interval(one.lane, one.start, one.end, one.kept) for one in decided.intervals]


class Ways:
    """As LaneCalls, ProvenBounds and LaneCopies of one process."""

    def __init__(self, world: World, coordinator: GroupCoordinator) -> None:
        self.world = world
        self.coordinator = coordinator

    async def group(self, request: LaneGroupRequest) -> LaneGroupResponse:
        await self.world.pause()
        present = self.world.cluster.coordinator  # calls are routed
        answer: LaneGroupResponse = await present.handle(ApiKey.LANE_GROUP, request, by_itself(ApiKey.LANE_GROUP))
        await self.world.pause()
        return answer

    async def proven_bounds(self, topic_id: UUID, partition: int) -> tuple[int, int]:
        await self.world.pause()
        end = len(self.world.log)
        await self.world.pause()
        return 0, end

    async def producer(self, base: str, topic_id: UUID, partition: int) -> tuple[int, int]:
        self.world.producers += 1
        return self.world.producers, 0

    async def copy(self, job: CopyJob) -> CopyStep:
        world = self.world
        await world.pause()
        if world.rng.random() < 0.2:  # its topic is too full, missing, or takes smaller records
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        end = min(job.first + (1 if job.first % 3 else 20), job.end)  # of a job always the same
        found = [offset for offset in range(job.first, end) if world.log[offset] == job.lane]
        expected = world.sequences.get(job.producer_id, 0)
        if found and job.sequence > expected:
            raise AssertionError(f"copies {expected} … {job.sequence - 1} are missing")
        if found and job.sequence == expected:
            world.copies += found
            world.sequences[job.producer_id] = expected + len(found)
        await world.pause()
        if world.rng.random() < 0.2:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return CopyStep(end, len(found))


class Base:
    """The base group's consumer."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.position = 0
        self.seen: list[int] = []

    async def read(self) -> None:
        world, first = self.world, self.position
        end = min(len(world.log), first + world.rng.choice((3, 20, 10_000)))
        asked = world.rng.choice([world.cluster, world.cluster, *world.former[-1:]])  # perhaps by an old route
        await world.pause()
        if first == end or (intervals := await world.decided(asked, "", first, end)) is None:
            return
        self.seen += [offset for offset in range(first, end) if is_of_base(intervals, world.log[offset], offset)]
        self.position = end


class Lane:
    """A lane's group of one consumer, who comes and goes."""

    def __init__(self, world: World, lane: str) -> None:
        self.world, self.lane, self.group_id = world, lane, f"g@{lane}"
        self.member: tuple[str, int] | None = None
        self.last_member_id = ""
        self.position: int | None = None  # not asked for yet
        self.given: list[int] = []
        self.done: list[int] = []

    @property
    def client_id(self) -> str:
        return f"lanes:{self.group_id}"

    async def come(self) -> None:
        if self.last_member_id:  # the shard's next owner may not know that it left, and would wait for its session
            await self._leave(self.last_member_id)
        classic, context = self.world.cluster.coordinator.classic, request_context(3, self.client_id)
        joined = await classic.join_group(join_request(self.group_id), context)
        if joined.error_code:
            return
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")],
        )
        await classic.sync_group(request, context)  # if it is refused the member's commits are, and it goes
        self.member = joined.member_id, joined.generation_id
        self.position, self.given = None, []

    async def _find_position(self) -> int | None:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group_id, topics=None)])
        answer = await self.world.cluster.coordinator.offsets.offset_fetch(request, request_context(8))
        (group,) = answer.groups
        if group.error_code:
            return None
        return next((one.committed_offset for topic in group.topics for one in topic.partitions), 0)

    async def read(self) -> None:
        world = self.world
        if self.position is None:
            self.position = await self._find_position()
        if (first := self.position) is None:
            return
        end = min(len(world.log), first + world.rng.choice((3, 20, 10_000)))
        asking = asyncio.create_task(world.decided(world.cluster, self.lane, first, end))
        if world.rng.random() < 0.15:  # the link is lost
            await world.pause(2, 10, 40)
            asking.cancel()
        (intervals,) = await asyncio.gather(asking, return_exceptions=True)
        if first == end or not isinstance(intervals, list):
            return
        self.given += [
            offset
            for offset in range(first, end)
            if world.log[offset] == self.lane and is_of_lane(intervals, self.lane, offset)
        ]
        self.position = end

    async def commit(self) -> None:
        assert self.member is not None
        if self.position is None:
            return
        member_id, generation = self.member
        offsets = {("t", 0): self.position}
        codes = await self.world.cluster.commit(self.group_id, offsets, member_id=member_id, generation=generation)
        if set(codes.values()) == {0}:
            self.done += self.given
            self.given = []

    async def go(self) -> None:
        assert self.member is not None
        self.last_member_id = self.member[0]
        if await self._leave(self.member[0]) in {ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID}:
            self.member = None

    async def _leave(self, member_id: str) -> int:
        request = LeaveGroupRequest(group_id=self.group_id, member_id=member_id)
        context = request_context(1, self.client_id)
        return (await self.world.cluster.coordinator.classic.leave_group(request, context)).error_code

    async def act(self) -> None:
        rng = self.world.rng
        if self.member is None:
            if rng.random() < 0.05:
                await self.come()
        elif rng.random() < 0.15:
            await self.go()
        else:
            await rng.choice((self.read, self.read, self.commit))()


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_any_history_of_lanes_shows_each_record_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_ends, "LOOK_S", 0.0)
    world = World(seed)
    rng, base, lanes = world.rng, Base(world), [Lane(world, lane) for lane in LANES]
    await world.cluster.coordinator.prepare("g")
    is_over = False

    async def repeat(lane: Lane) -> None:
        for _ in range(STEPS):
            await world.pause()
            await lane.act()

    async def read() -> None:
        while not is_over:
            await world.pause()
            await base.read()

    async def produce() -> None:
        while not is_over:
            world.log += rng.choices(("", *LANES), k=rng.randint(0, 2))
            await world.pause(0, 1, 3, 60)
            if rng.random() < 0.02 and len(world.former) < TAKEOVERS_MAX:
                world.take_over()

    async def store() -> None:
        while True:
            await world.pause(1, 3, 60)
            world.acknowledge()

    async with asyncio.timeout(60):
        others = [asyncio.create_task(one()) for one in (store, read, produce)]
        await asyncio.gather(*map(repeat, lanes))
        is_over = True
        await asyncio.gather(*others[1:])
        while any(lane.member for lane in lanes):
            for lane in lanes:
                if lane.member is not None:
                    await lane.go()
        world.log += ["blue", "red", ""]
        shard = await world.cluster.coordinator.directory.get("g")
        opened = len(shard.lanes.states.entries())
        while not all(is_copied(value) for _, value in shard.lanes.states.entries()):  # noqa: ASYNC110
            await asyncio.sleep(0)
        while base.position < len(world.log):
            await base.read()
        others[0].cancel()
    seen = [*base.seen, *world.copies, *(offset for lane in lanes for offset in lane.done)]
    assert sorted(seen) == list(range(len(world.log)))
    assert opened >= 5, "lanes came often enough"
