"""The coordinator over partition logs: membership, shards, timers, administration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from bmq.coordinator.classic.effects import GroupState
from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.runtime.directory import _known_shard_of, shard_of
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.messages.describe_groups_response import DescribedGroup
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.coordinator.cluster import FAST, Cluster, request_context
from tests.unit.proxy.harness import until

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    yield made
    await made.coordinator.close()


async def heartbeat(cluster: Cluster, member_id: str, generation: int = 1, group_id: str = "g") -> int:
    request = HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id)
    return (await cluster.coordinator.classic.heartbeat(request, request_context(4))).error_code


async def rebalance_begins(cluster: Cluster, member_id: str) -> None:
    for _ in range(1_000):
        if await heartbeat(cluster, member_id) == ErrorCode.REBALANCE_IN_PROGRESS:
            return
        await asyncio.sleep(0)
    pytest.fail("no rebalance")


@pytest.mark.parametrize(
    ("group_id", "hash_code"),
    # `new String(group_id).hashCode()` of a JVM
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("consumer", -567770122),
        ("polygenelubricants", -(2**31)),
        ("😀", 1772899),
    ],
)
def test_shard_is_kafkas(group_id: str, hash_code: int) -> None:
    """Kafka takes 0 for the absolute value of the smallest int."""
    assert shard_of(group_id, 50) == (0 if hash_code == -(2**31) else abs(hash_code)) % 50


async def test_a_group_lives_through_join_sync_heartbeat_leave(cluster: Cluster) -> None:
    member_id = await cluster.stable()
    assert member_id.startswith("client-")
    assert await heartbeat(cluster, member_id) == ErrorCode.NONE
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    left = await cluster.coordinator.classic.leave_group(request, request_context(5))
    assert [answer.error_code for answer in left.members] == [ErrorCode.NONE]
    assert await heartbeat(cluster, member_id, 2) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_invalid_requests_are_named(cluster: Cluster) -> None:
    assert (await cluster.join("")).error_code == ErrorCode.INVALID_GROUP_ID
    assert (await cluster.join(session_ms=9)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert (await cluster.join(session_ms=1_800_001)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert (await cluster.join("g", "unknown")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert await heartbeat(cluster, "m", group_id="") == ErrorCode.INVALID_GROUP_ID
    sync = SyncGroupRequest(group_id="g", member_id="m")
    assert (
        await cluster.coordinator.classic.sync_group(sync, request_context(4))
    ).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    answer = await cluster.coordinator.classic.sync_group(sync, request_context(5))
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not any(shard.groups for shard in cluster.coordinator.directory.ready.values())


async def test_version_0_to_2_leave_names_one_member(cluster: Cluster) -> None:
    member_id = await cluster.stable()
    request = LeaveGroupRequest(group_id="g", member_id="other")
    assert (
        await cluster.coordinator.classic.leave_group(request, request_context(2))
    ).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    request = LeaveGroupRequest(group_id="g", member_id=member_id)
    assert (await cluster.coordinator.classic.leave_group(request, request_context(2))).error_code == ErrorCode.NONE
    request = LeaveGroupRequest(group_id="nowhere", member_id=member_id)
    assert (
        await cluster.coordinator.classic.leave_group(request, request_context(0))
    ).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_join_fills_in_what_old_versions_lack(cluster: Cluster) -> None:
    error = await cluster.join("g", "unknown", version=6)
    assert (error.protocol_name, error.error_code) == ("", ErrorCode.UNKNOWN_MEMBER_ID)
    assert (await cluster.join("g", "unknown", version=7)).protocol_name is None
    await cluster.join("g", version=0, rebalance_timeout_ms=-1)
    shard = await cluster.coordinator.directory.get("g")
    assert [member.rebalance_timeout_ms for member in shard.groups["g"].members] == [30_000]


async def test_two_members_share_a_generation(cluster: Cluster) -> None:
    leader = await cluster.stable()
    joining = asyncio.create_task(cluster.join())
    await rebalance_begins(cluster, leader)
    again, joined = await asyncio.gather(cluster.join(member_id=leader), joining)
    assert again.generation_id == joined.generation_id == 2
    assert {member.member_id for member in again.members} == {leader, joined.member_id}


async def test_a_silent_member_expires(cluster: Cluster) -> None:
    member_id = await cluster.stable(session_ms=20)
    shard = await cluster.coordinator.directory.get("g")
    for _ in range(1_000):
        if not shard.groups["g"].members:
            break
        await asyncio.sleep(0.005)
    assert shard.groups["g"].state is GroupState.EMPTY
    assert cluster.coordinator.metrics.expired_members == 1
    assert await heartbeat(cluster, member_id, 2) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_restart_brings_groups_back(cluster: Cluster) -> None:
    member_id = await cluster.stable()
    await cluster.coordinator.close()
    cluster.restart()
    assert await heartbeat(cluster, member_id) == ErrorCode.NONE
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id)
    assert (await cluster.coordinator.classic.sync_group(sync, request_context(3))).assignment == b"mine"


async def test_who_waits_is_sent_away_when_the_shard_is_lost(cluster: Cluster) -> None:
    leader = await cluster.stable()
    joining = asyncio.create_task(cluster.join())
    await rebalance_begins(cluster, leader)
    cluster.coordinator.resign(cluster.coordinator.directory.number_of("g"))
    assert (await joining).error_code == ErrorCode.NOT_COORDINATOR
    opened = len(cluster.shards.opened)
    assert await heartbeat(cluster, leader) == ErrorCode.NONE  # loaded again: the log still says it is a member
    assert len(cluster.shards.opened) == opened + 1


async def test_a_fenced_write_loses_the_shard(cluster: Cluster) -> None:
    joined = await cluster.join()
    cluster.log_of("g").refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert (
        await cluster.coordinator.classic.sync_group(sync, request_context(3))
    ).error_code == ErrorCode.NOT_COORDINATOR
    assert cluster.coordinator.directory.find("g") is None
    assert cluster.coordinator.metrics.lost_shards == 1


async def test_a_full_disk_fails_the_sync_and_the_group_recovers(cluster: Cluster) -> None:
    joined = await cluster.join()
    log = cluster.log_of("g")
    log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    answer = await cluster.coordinator.classic.sync_group(sync, request_context(3))
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.refuse_with = None
    again = await cluster.join(member_id=joined.member_id)
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, 2)


async def test_requests_wait_for_a_loading_shard_but_not_for_ever() -> None:
    cluster = Cluster(CoordinatorConfig(group_initial_rebalance_delay_ms=0, load_wait_max_ms=10))
    cluster.shards.gate = asyncio.Event()
    assert (await cluster.join()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.topics.add("__consumer_offsets", 999)
    assert await heartbeat(cluster, "m") == ErrorCode.COORDINATOR_NOT_AVAILABLE, "neither to go on, nor to join again"
    cluster.shards.gate.set()
    joined = await cluster.join()
    assert joined.error_code == ErrorCode.NONE
    assert len(cluster.shards.opened) == 1
    await cluster.coordinator.close()


async def test_a_shard_that_cannot_be_opened_is_tried_again(cluster: Cluster) -> None:
    cluster.shards.error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (await cluster.join()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(KafkaError):
        await cluster.coordinator.prepare("g")
    cluster.shards.error = None
    assert (await cluster.join()).error_code == ErrorCode.NONE


async def test_groups_are_not_made_without_end() -> None:
    cluster = Cluster(CoordinatorConfig(group_initial_rebalance_delay_ms=0, groups_per_shard_max=1), shard_count=1)
    assert (await cluster.join("one")).error_code == ErrorCode.NONE
    assert (await cluster.join("two")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await cluster.coordinator.close()


async def test_closing_answers_who_waits_and_refuses_newcomers(cluster: Cluster) -> None:
    await cluster.stable()
    joining = asyncio.create_task(cluster.join())
    await asyncio.sleep(0.01)
    await cluster.coordinator.close()
    assert (await joining).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await cluster.join()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_client_that_hangs_up_while_joining_does_no_harm(cluster: Cluster) -> None:
    leader = await cluster.stable()
    joining = asyncio.create_task(cluster.join())
    await rebalance_begins(cluster, leader)
    joining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await joining
    assert (await cluster.join(member_id=leader)).generation_id == 2


async def list_groups(cluster: Cluster, **filters: list[str]) -> dict[str, tuple[str, str]]:
    answer = await cluster.coordinator.administration.list_groups(ListGroupsRequest(**filters), request_context(5))
    assert answer.error_code == ErrorCode.NONE
    assert all(group.group_type == "classic" for group in answer.groups)
    return {group.group_id: (group.group_state, group.protocol_type) for group in answer.groups}


async def test_groups_are_listed_over_all_shards(cluster: Cluster) -> None:
    assert await list_groups(cluster) == {}
    assert cluster.shards.opened == []  # asking does not make the offsets topic
    await cluster.stable("one")
    await cluster.stable("two")
    await cluster.commit("simple", {("t", 0): 1})
    expected = {"one": ("Stable", "consumer"), "two": ("Stable", "consumer"), "simple": ("Empty", "")}
    assert await list_groups(cluster) == expected
    assert set(await list_groups(cluster, states_filter=["empty"])) == {"simple"}
    assert set(await list_groups(cluster, states_filter=["STABLE"], types_filter=["CLASSIC"])) == {"one", "two"}
    assert await list_groups(cluster, states_filter=["none such"]) == {}
    assert await list_groups(cluster, types_filter=["none such"]) == {}
    assert set(await list_groups(cluster, types_filter=["none such", "classic"])) == set(expected)
    assert set(await list_groups(cluster, types_filter=["Classic"])) == set(expected)
    assert await list_groups(cluster, types_filter=["consumer"]) == {}


async def test_groups_are_described(cluster: Cluster) -> None:
    member_id = await cluster.stable()
    await cluster.commit("simple", {("t", 0): 1})
    request = DescribeGroupsRequest(groups=["g", "simple", "none"], include_authorized_operations=True)
    stable, simple, missing = (
        await cluster.coordinator.administration.describe_groups(request, request_context(6))
    ).groups
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == ("Stable", "consumer", "range")
    (member,) = stable.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "/127.0.0.1")
    assert member.member_assignment == b"mine"
    assert stable.authorized_operations == 3400
    assert (simple.group_state, simple.members) == ("Empty", ())
    assert (missing.group_state, missing.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert "none" in (missing.error_message or "")
    assert missing.authorized_operations == DescribedGroup().authorized_operations, "of nothing there is none"
    older = (await cluster.coordinator.administration.describe_groups(request, request_context(5))).groups[2]
    assert (older.group_state, older.error_code) == ("Dead", ErrorCode.NONE)


async def test_groups_are_deleted_when_nobody_is_in(cluster: Cluster) -> None:
    member_id = await cluster.stable()
    await cluster.commit("g", {("t", 0): 5}, member_id=member_id, generation=1)
    await cluster.commit("simple", {("t", 0): 1})

    async def delete(*groups: str) -> dict[str, int]:
        request = DeleteGroupsRequest(groups_names=list(groups))
        results = (await cluster.coordinator.administration.delete_groups(request, request_context(3))).results
        assert all((result.error_message is None) == (result.error_code == 0) for result in results)
        return {result.group_id: result.error_code for result in results}

    assert await delete("g", "simple", "none") == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "simple": ErrorCode.NONE,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    await cluster.coordinator.classic.leave_group(leave, request_context(5))
    assert await delete("g", "g") == {"g": ErrorCode.NONE}
    assert await list_groups(cluster) == {}
    cluster.restart()
    assert await list_groups(cluster) == {}


async def test_deleting_takes_commits_along_that_are_on_their_way(cluster: Cluster) -> None:
    await cluster.commit("simple", {("t", 0): 1})
    log = cluster.log_of("simple")
    log.is_acknowledging = False
    committing = asyncio.create_task(cluster.commit("simple", {("t", 1): 2}))
    await asyncio.sleep(0)
    request = DeleteGroupsRequest(groups_names=["simple"])
    deleting = asyncio.create_task(cluster.coordinator.administration.delete_groups(request, request_context(2)))
    await asyncio.sleep(0.01)
    log.is_acknowledging = True
    log.acknowledge()
    await asyncio.gather(committing, deleting)
    assert await list_groups(cluster) == {}


async def test_metrics_count(cluster: Cluster) -> None:
    member_id = await cluster.stable()
    await cluster.commit("g", {("t", 0): 5, ("u", 0): 6}, member_id=member_id, generation=1)
    registry = CollectorRegistry()
    cluster.coordinator.metrics.register(registry)
    text = generate_latest(registry).decode()
    assert 'bmq_groups{state="Stable"} 1.0' in text
    assert "bmq_group_offset_commits_total 2.0" in text
    assert "bmq_group_rebalances_total 1.0" in text
    assert "bmq_group_offsets 2.0" in text


@in_campaign
async def test_a_hundred_groups_of_a_hundred_members() -> None:
    """All join at once; each group ends in one generation with everybody in it."""
    cluster = Cluster(FAST, shard_count=10)

    async def member(group_id: str, instance: int) -> tuple[int, int]:
        joined = await cluster.join(group_id, group_instance_id=f"i{instance}", version=9)
        return joined.generation_id, len(joined.members)

    await asyncio.gather(*(cluster.coordinator.prepare(f"g{group}") for group in range(100)))
    results = await asyncio.gather(*(member(f"g{group}", n) for group in range(100) for n in range(100)))
    for group in range(100):
        of_group = results[group * 100 : group * 100 + 100]
        assert {generation for generation, _ in of_group} == {1}
        assert sorted(count for _, count in of_group)[-2:] == [0, 100]
    await cluster.coordinator.close()


async def test_long_names_are_not_remembered() -> None:
    before = _known_shard_of.cache_info().currsize
    assert shard_of("x" * 32_000, 50) == shard_of("x" * 32_000, 50)
    assert _known_shard_of.cache_info().currsize == before


async def test_an_assignment_larger_than_a_record_may_be_is_refused(cluster: Cluster) -> None:
    joined = await cluster.join()
    log = cluster.log_of("g")
    written = log.log_end_offset
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(2 * 1024 * 1024))],
    )
    assert (
        await cluster.coordinator.classic.sync_group(request, request_context(3))
    ).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert log.log_end_offset == written
    assert await cluster.commit("h", {("t", 0): 1}) == {("t", 0): 0}


async def test_a_late_record_of_a_forgotten_group_is_not_taken_for_the_next_ones() -> None:
    cluster = Cluster(shard_count=1)
    first = await cluster.join()
    log = cluster.log_of("g")
    log.is_acknowledging = False
    leaving = LeaveGroupRequest(group_id="g", member_id=first.member_id)
    await cluster.coordinator.classic.leave_group(leaving, request_context(2))
    one = await cluster.join()
    sync = asyncio.create_task(
        cluster.coordinator.classic.sync_group(
            SyncGroupRequest(
                group_id="g",
                generation_id=one.generation_id,
                member_id=one.member_id,
                assignments=[SyncGroupRequestAssignment(member_id=one.member_id, assignment=b"mine")],
            ),
            request_context(3),
        )
    )
    await until(lambda: log.pending_count == 2)
    assert one.generation_id > 2, "it is the same group: generations go on"
    log.acknowledge(1)
    await asyncio.sleep(0)
    assert not sync.done()
    log.is_acknowledging = True
    log.acknowledge()
    async with asyncio.timeout(10):
        assert (await sync).assignment == b"mine"
    await cluster.coordinator.close()
