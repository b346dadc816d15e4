"""A shard goes from one process to another: what its groups keep, and what the old owner may still say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bmq.coordinator.classic.effects import GroupState
from bmq.coordinator.runtime.recent_proof import PROOF_AGE_MAX_MS
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
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
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from bmq.protocol.request_context import RequestContext
from tests.unit.coordinator.cluster import Cluster, request_context
from tests.unit.proxy.harness import until

pytestmark = pytest.mark.unit


@pytest.fixture
async def old() -> AsyncIterator[Cluster]:
    made = Cluster()
    yield made
    await made.coordinator.close()


@pytest.fixture
async def new(old: Cluster) -> AsyncIterator[Cluster]:
    """The next owner of all shards. It fences the old one where it loads a shard."""
    made = old.take_over()
    yield made
    await made.coordinator.close()


async def beat(cluster: Cluster, member_id: str, generation: int = 1, group_id: str = "g") -> int:
    request = HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id)
    return (await cluster.coordinator.classic.heartbeat(request, request_context(4))).error_code


async def test_generation_and_members_live_on_without_a_rebalance(old: Cluster, new: Cluster) -> None:
    member_id = await old.stable()
    assert await old.commit("g", {("t", 0): 42}, member_id=member_id, generation=1) == {("t", 0): 0}
    assert await beat(new, member_id) == ErrorCode.NONE
    synced = await new.coordinator.classic.sync_group(
        SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id), request_context(3)
    )
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert await new.commit("g", {("t", 0): 43}, member_id=member_id, generation=1) == {("t", 0): 0}
    assert await new.fetch_all("g") == {("t", 0): 43}
    rejoined = await new.join("g", member_id)
    assert rejoined.generation_id == 2, "a leader that joins a stable group again asks for a rebalance"


async def test_every_session_begins_anew_at_the_new_owner(old: Cluster, new: Cluster) -> None:
    member_id = await old.stable(session_ms=60_000)
    await new.coordinator.prepare("g")
    shard = new.coordinator.directory.find("g")
    assert shard is not None
    (member,) = shard.groups["g"].members
    left_ms = member.deadline_ms - asyncio.get_running_loop().time() * 1000
    until_ms = 60_000 + PROOF_AGE_MAX_MS
    assert member.member_id == member_id and until_ms - 1_000 < left_ms <= until_ms


async def test_an_unfinished_rebalance_is_begun_again(old: Cluster, new: Cluster) -> None:
    """What was not durable yet, a generation without assignments, the new owner has never heard of."""
    member_id = await old.stable()
    joined = await old.join("g", member_id)
    assert joined.generation_id == 2
    assert await beat(new, member_id, 2) == ErrorCode.ILLEGAL_GENERATION
    assert (await new.join("g", member_id)).generation_id == 2


async def test_a_fenced_owner_acknowledges_nothing_and_denies_nothing(old: Cluster, new: Cluster) -> None:
    member_id = await old.stable()
    await old.commit("other", {("t", 1): 1})
    for group_id in ("g", "other", "none"):
        await new.coordinator.prepare(group_id)
    not_coordinator = ErrorCode.NOT_COORDINATOR
    described = await old.coordinator.administration.describe_groups(
        DescribeGroupsRequest(groups=["none"]), request_context(5)
    )
    assert described.groups[0].error_code == not_coordinator, "a group that is not in memory may be in the log"
    deleted = await old.coordinator.administration.delete_groups(
        DeleteGroupsRequest(groups_names=["none"]), request_context(2)
    )
    assert deleted.results[0].error_code == not_coordinator
    assert await old.fetch("other", "t", 1) == (not_coordinator, -1)
    assert await old.commit("g", {("t", 0): 1}, member_id=member_id, generation=1) == {("t", 0): not_coordinator}
    assert old.coordinator.directory.find("g") is None


async def test_who_waits_at_the_old_owner_is_sent_to_the_new_one(old: Cluster, new: Cluster) -> None:
    member_id = await old.stable()
    waiting = asyncio.create_task(old.join("g"))
    shard = old.coordinator.directory.ready[old.coordinator.directory.number_of("g")]
    await until(lambda: shard.groups["g"].state is GroupState.PREPARING_REBALANCE)
    old.coordinator.resign(old.coordinator.directory.number_of("g"))
    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
    assert await beat(new, member_id) == ErrorCode.NONE


async def test_giving_up_a_shard_that_loads(old: Cluster) -> None:
    """Who waited for it is sent away; whoever comes next is not bound to that attempt."""
    number = old.coordinator.directory.number_of("g")
    for turns in (0, 1, 5):  # also before the loading has begun
        old.shards.gate = asyncio.Event()
        waiting = asyncio.create_task(old.join("g"))
        for _ in range(turns + 1):
            await asyncio.sleep(0)
        old.coordinator.resign(number)
        next_one = asyncio.create_task(old.join("g"))
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        old.shards.gate.set()
        assert (await next_one).error_code == ErrorCode.NONE
        old.coordinator.resign(number)


async def test_a_shard_lost_as_soon_as_it_was_loaded_takes_nobody_in(old: Cluster) -> None:
    """Between the end of the loading and the turn of who waited for it: a join would never be answered."""
    number = old.coordinator.directory.number_of("g")
    waiting = asyncio.create_task(old.join("g"))
    await until(lambda: number in old.coordinator.directory.ready)
    old.coordinator.resign(number)
    assert (await asyncio.wait_for(waiting, 10)).error_code == ErrorCode.NOT_COORDINATOR


async def test_offsets_of_a_shard_lost_while_another_is_proven_are_not_denied(old: Cluster) -> None:
    names = ["g", next(n for n in map(str, range(99)) if old.coordinator.directory.number_of(n) != 0)]
    names = sorted(names, key=old.coordinator.directory.number_of)
    first, second = (old.coordinator.directory.number_of(name) for name in names)
    assert first != second
    for name in names:
        assert await old.commit(name, {("t", 0): 7}) == {("t", 0): 0}
    slow = old.coordinator.directory.ready[second].state_log
    gate = asyncio.Event()
    prove = slow.log.prove_ownership

    async def prove_late() -> None:
        await gate.wait()
        await prove()

    slow.log.prove_ownership = prove_late  # type: ignore[method-assign]
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=topics) for name in names])
    asking = asyncio.create_task(old.coordinator.offsets.offset_fetch(request, request_context(8)))
    for _ in range(20):
        await asyncio.sleep(0)
    old.coordinator.resign(first)
    gate.set()
    lost, kept = (await asking).groups
    assert (lost.error_code, lost.topics) == (ErrorCode.NOT_COORDINATOR, ())
    assert kept.topics[0].partitions[0].committed_offset == 7


async def test_groups_are_not_listed_while_a_shard_is_lost(old: Cluster) -> None:
    await old.commit("g", {("t", 0): 7})
    old.shards.error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not assigned here")
    listed = await old.coordinator.administration.list_groups(ListGroupsRequest(), request_context(5))
    assert listed.error_code == ErrorCode.NOT_COORDINATOR


async def test_without_an_offsets_topic_nobody_here_is_the_coordinator(old: Cluster) -> None:
    """As Kafka: the picture of the cluster may be old, so "there is no such group" would be a guess."""
    coordinator, code = old.coordinator, ErrorCode.NOT_COORDINATOR
    assert await beat(old, "m") == code
    sync = SyncGroupRequest(group_id="g", member_id="m")
    assert (await coordinator.classic.sync_group(sync, request_context(3))).error_code == code
    leave = LeaveGroupRequest(group_id="g", member_id="m")
    assert (await coordinator.classic.leave_group(leave, request_context(2))).error_code == code
    described = await coordinator.administration.describe_groups(
        DescribeGroupsRequest(groups=["g"]), request_context(5)
    )
    deleted = await coordinator.administration.delete_groups(
        DeleteGroupsRequest(groups_names=["g"]), request_context(2)
    )
    assert (described.groups[0].error_code, deleted.results[0].error_code) == (code, code)
    assert await old.fetch("g", "t", 0) == (code, -1)
    listed = await coordinator.administration.list_groups(ListGroupsRequest(), request_context(5))
    assert (listed.error_code, list(listed.groups)) == (0, [])
    await coordinator.prepare("g")
    assert await beat(old, "m") == ErrorCode.UNKNOWN_MEMBER_ID


async def test_what_was_forwarded_to_an_earlier_leader_epoch_of_the_same_node_is_refused(old: Cluster) -> None:
    """A commit that lay in a connection while the shard went away and came back would undo what was committed since."""
    await old.commit("g", {("t", 0): 41})
    shard = old.coordinator.directory.find("g")
    assert shard is not None
    current = shard.state_log.log.leader_epoch
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[
            OffsetCommitRequestTopic(
                name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
            )
        ],
    )
    context = RequestContext(9, "client", "127.0.0.1")
    for leader_epoch in (current + 1, current + 5):
        with pytest.raises(KafkaError) as refused:
            await old.coordinator.handle(ApiKey.OFFSET_COMMIT, request, replace(context, leader_epoch=leader_epoch))
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert await old.fetch("g", "t", 0) == (0, 41)
    for leader_epoch in (current, -1):
        answer = await old.coordinator.handle(
            ApiKey.OFFSET_COMMIT, request, replace(context, leader_epoch=leader_epoch)
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert await old.fetch("g", "t", 0) == (0, 7)
