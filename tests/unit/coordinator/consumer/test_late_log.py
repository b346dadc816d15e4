"""Requests that come while the log is slow, or refuses, or the coordinator is another: each answer is true when it is given."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.config import ConsumerConfig, CoordinatorConfig
from bmq.protocol.batch_records import decode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.join_group_request import JoinGroupRequestProtocol
from tests.unit.coordinator.cluster import Cluster
from tests.unit.coordinator.consumer.bench import picture, replayed
from tests.unit.coordinator.consumer.test_classic_members import subscription
from tests.unit.coordinator.consumer.test_consumer_api import beat, join

pytestmark = pytest.mark.unit

CONFIG = CoordinatorConfig(
    group_initial_rebalance_delay_ms=0,
    group_min_session_timeout_ms=10,
    consumer=ConsumerConfig(assignment_interval_ms=0),
)
MEMBERS = st.sampled_from(["A", "B", "C", "D"])
ACTIONS = st.one_of(
    st.tuples(st.just("join"), MEMBERS),
    st.tuples(st.just("beat"), MEMBERS),
    st.tuples(st.just("beat"), MEMBERS),
    st.tuples(st.just("leave"), MEMBERS),
    st.tuples(st.just("classic"), MEMBERS),
    st.tuples(st.just("acknowledge"), st.just("")),
    st.tuples(st.just("acknowledge"), st.just("")),
    st.tuples(st.just("refuse"), st.just("")),
    st.tuples(st.just("restart"), st.just("")),
)


class Story:
    """What clients know of their epochs; `tasks`: their requests under way."""

    def __init__(self) -> None:
        self.cluster = Cluster(CONFIG, shard_count=1)
        self.epochs: dict[str, int] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def log(self) -> Any:
        return self.cluster.shards.logs[0]

    def durable(self) -> Any:
        """The group as the records below the high watermark make it."""
        kept = []
        for batch in self.log.batches:
            if batch.end_offset <= self.log.high_watermark:
                kept += [(record.key, record.value) for record in decode_records(batch.data, 0)]
        return replayed([(key, value) for key, value in kept if key is not None])

    async def ask(self, what: str, member_id: str) -> None:
        cluster, epoch = self.cluster, self.epochs.get(member_id, 0)
        if what == "join":
            answer = await join(cluster, member_id)
        elif what == "classic":
            told = await cluster.join("g", member_id, version=9, protocols=[_protocol()])
            if told.error_code == 0 and self.durable().exists:
                self.check(member_id, told.generation_id)
            return
        else:
            owned = None
            if what == "leave":
                epoch = -1
            else:
                member = self.durable().members.get(member_id)
                owned = [] if member is None else [p for ps in member.assigned.values() for p in ps]
            answer = await beat(cluster, member_id, epoch, owned)
        if answer.error_code == 0 and answer.member_epoch > 0:
            self.check(member_id, answer.member_epoch)
            if answer.assignment is not None:
                member = self.durable().members[member_id]
                given = {part.topic_id: set(part.partitions) for part in answer.assignment.topic_partitions}
                assert given == {topic_id: set(epochs) for topic_id, epochs in member.assigned.items()}
            self.epochs[member_id] = answer.member_epoch
        elif answer.error_code == 0:
            assert member_id not in self.durable().members
            self.epochs.pop(member_id, None)
        elif answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epochs.pop(member_id, None)

    def check(self, member_id: str, epoch: int) -> None:
        """What the answer says is durable."""
        assert self.durable().members[member_id].epoch == epoch

    def check_group(self) -> None:
        shard = self.cluster.coordinator.directory.ready.get(0)
        if shard is None:
            return
        durable, live = self.durable(), shard.consumer.groups.get("g")
        assert picture(durable) == picture(live)
        held: set[Any] = set()
        for member in durable.members.values():
            mine = {(t, p) for part in (member.assigned, member.pending) for t, ps in part.items() for p in ps}
            assert not mine & held
            held |= mine
        assert not (durable.exists and "g" in shard.groups), "a group is of one protocol"


def _protocol() -> Any:
    return JoinGroupRequestProtocol(name="range", metadata=subscription("t"))


async def play(actions: list[tuple[str, str]]) -> None:
    story = Story()
    await join(story.cluster, "A")
    story.epochs["A"] = 2
    story.log.is_acknowledging = False
    for what, member_id in actions:
        log = story.log
        if what == "acknowledge":
            log.acknowledge(min(1, log.pending_count))
        elif what == "refuse":
            log.fail_pending(ErrorCode.NOT_ENOUGH_REPLICAS)
        elif what == "restart":
            log.acknowledge()
            await story.cluster.coordinator.close()
            story.cluster.restart()
            await story.cluster.coordinator.prepare("g")
        elif all(task.done() or task.get_name() != member_id for task in story.tasks):  # one at a time, as clients do
            task = asyncio.create_task(story.ask(what, member_id), name=member_id)
            story.tasks.add(task)
        for _ in range(6):
            await asyncio.sleep(0)
        story.check_group()
    story.log.is_acknowledging = True
    story.log.acknowledge()
    async with asyncio.timeout(20):
        while waiting := [task for task in story.tasks if not task.done()]:
            story.log.acknowledge()
            await asyncio.wait(waiting, timeout=0.01)
            for task in waiting:  # a JoinGroup that made a classic group waits for its members
                if not task.done() and "g" in story.cluster.coordinator.directory.ready[0].groups:
                    task.cancel()
    for task in story.tasks:
        if not task.cancelled():
            task.result()
    story.check_group()
    await story.cluster.coordinator.close()


@given(actions=st.lists(ACTIONS, min_size=5, max_size=40))
def test_each_answer_is_true_when_it_is_given(actions: list[tuple[str, str]]) -> None:
    asyncio.run(play(actions))
