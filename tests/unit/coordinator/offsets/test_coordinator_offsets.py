"""Committed offsets: commit, fetch, delete, expiry, snapshots, and the same state after a restart at any point."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.offsets.offset_columns import PackedOffsets
from bmq.coordinator.snapshot import decode_snapshot
from bmq.protocol.batch_records import decode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.group_records import OffsetCommitKey, decode_key, decode_value
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from bmq.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from bmq.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordinator.cluster import FAST, Cluster, request_context
from tests.unit.proxy.harness import until

pytestmark = pytest.mark.unit

HOUR_MS = 3_600_000


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    yield made
    await made.coordinator.close()


async def test_a_simple_consumer_commits_and_fetches(cluster: Cluster) -> None:
    assert await cluster.commit("g", {("t", 0): 5, ("t", 1): 6}) == {("t", 0): 0, ("t", 1): 0}
    assert await cluster.commit("g", {("t", 0): 7}) == {("t", 0): 0}
    assert await cluster.fetch_all("g") == {("t", 0): 7, ("t", 1): 6}
    assert await cluster.fetch("g", "t", 2) == (0, -1)
    assert await cluster.fetch("nobody", "t", 0) == (0, -1)


async def test_without_an_offsets_topic_nobody_can_prove_that_nothing_is_committed(cluster: Cluster) -> None:
    """A server that was replaced before the topic was made must not say "no offsets" (rule 15)."""
    assert await cluster.fetch("g", "t", 0) == (ErrorCode.NOT_COORDINATOR, -1)
    assert cluster.shards.opened == []  # FindCoordinator makes the topic, asking for offsets does not


async def test_records_are_kafkas(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 3): 9}, metadata="m")
    (batch,) = cluster.log_of("g").batches
    (record,) = decode_records(batch.data)
    assert record.key is not None
    key = decode_key(record.key)
    value = decode_value(key, record.value)
    assert key == OffsetCommitKey(group="g", topic="t", partition=3)
    assert (value.offset, value.metadata, value.commit_timestamp_ms, value.topic_id) == (  # type: ignore[union-attr]
        9,
        "m",
        cluster.clock.now_ms(),
        UUID(int=1),
    )


async def test_what_cannot_be_committed_fails_alone(cluster: Cluster) -> None:
    codes = await cluster.commit("g", {("t", 0): 1, ("none", 0): 1, ("t", 4): 1, ("t", -1): 1}, metadata="x" * 4096)
    assert list(codes.values()) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    too_long = await cluster.commit("g", {("t", 0): 2}, metadata="x" * 4097)
    assert too_long == {("t", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert await cluster.fetch_all("g") == {("t", 0): 1}


@pytest.mark.parametrize("is_transactional", [False, True])
async def test_a_long_group_id_in_many_records_is_refused(cluster: Cluster, is_transactional: bool) -> None:
    """A request that names a partition often is small; its records, each with the group's id, are not."""
    group_id = "g" * 20_000
    topic = OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=0)] * 1_000)
    request = OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=-1, topics=[topic])
    if is_transactional:
        transactional = TxnOffsetCommitRequest(
            transactional_id="i",
            group_id=group_id,
            producer_id=7,
            producer_epoch=0,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[TxnOffsetCommitRequestPartition()] * 1_000)],
        )
        codes = (
            (await cluster.coordinator.transactional_offsets.txn_offset_commit(transactional, request_context(5)))
            .topics[0]
            .partitions
        )
    else:
        codes: Any = (await cluster.coordinator.offsets.offset_commit(request, request_context(9))).topics[0].partitions  # type: ignore[no-redef]
    assert {part.error_code for part in codes} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert not cluster.log_of(group_id).batches
    assert (await cluster.commit(group_id, {("t", 0): 1}))["t", 0] == ErrorCode.NONE


async def test_topics_by_id_from_v10(cluster: Cluster) -> None:
    assert await cluster.commit("g", {("t", 0): 5}, version=10) == {("t", 0): 0}
    assert await cluster.fetch("g", "", 0, version=10, topic_id=UUID(int=1)) == (0, 5)
    assert await cluster.fetch("g", "", 0, version=10, topic_id=UUID(int=77)) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)
    gone = cluster.topics.topics["t"]
    cluster.topics.topics["t"] = type(gone)("t", UUID(int=55))
    # The same name is another topic now: what was committed for the old one does not count.
    assert await cluster.fetch("g", "t", 0) == (0, -1)
    assert await cluster.fetch_all("g") == {}


async def test_members_and_strangers(cluster: Cluster) -> None:
    member_id = await cluster.stable()
    one = {("t", 0): 1}

    async def code(**who: object) -> int:
        return (await cluster.commit("g", one, **who))[("t", 0)]  # type: ignore[arg-type]

    assert await code(member_id=member_id, generation=1) == ErrorCode.NONE
    assert await code(member_id=member_id, generation=2) == ErrorCode.ILLEGAL_GENERATION
    assert await code(member_id="other", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await code() == ErrorCode.UNKNOWN_MEMBER_ID
    assert await cluster.commit("new", one, generation=3) == {("t", 0): ErrorCode.GROUP_ID_NOT_FOUND}
    assert await cluster.commit("new", one, generation=3, version=8) == {("t", 0): ErrorCode.ILLEGAL_GENERATION}
    await cluster.commit("simple", one)
    assert await cluster.commit("simple", one, generation=3) == {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}


@pytest.mark.parametrize(
    ("refusal", "answer"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
    ],
)
async def test_a_refused_commit_is_not_committed(cluster: Cluster, refusal: ErrorCode, answer: ErrorCode) -> None:
    await cluster.commit("g", {("t", 0): 1})
    cluster.log_of("g").refuse_with = refusal
    assert await cluster.commit("g", {("t", 0): 2, ("none", 0): 1}) == {
        ("t", 0): answer,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    cluster.log_of("g").refuse_with = None
    assert await cluster.fetch_all("g") == {("t", 0): 1}


async def test_nothing_is_answered_before_it_is_durable(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 0): 1})
    log = cluster.log_of("g")
    log.is_acknowledging = False
    committing = asyncio.create_task(cluster.commit("g", {("t", 0): 2}))
    await asyncio.sleep(0.01)
    assert not committing.done()
    assert await cluster.fetch_all("g") == {("t", 0): 1}
    stable = asyncio.create_task(cluster.fetch_all("g", require_stable=True))
    await asyncio.sleep(0.01)
    assert not stable.done()
    log.acknowledge()
    assert await stable == {("t", 0): 2}
    assert await committing == {("t", 0): 0}


async def test_a_zombie_does_not_answer(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 0): 1})
    cluster.log_of("g").is_owner = False
    assert await cluster.fetch("g", "t", 0) == (ErrorCode.NOT_COORDINATOR, -1)
    assert cluster.coordinator.directory.find("g") is None


async def test_a_client_that_hangs_up_does_not_take_its_commit_back(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 0): 1})
    log = cluster.log_of("g")
    log.is_acknowledging = False
    committing = asyncio.create_task(cluster.commit("g", {("t", 0): 2}))
    await asyncio.sleep(0.01)
    committing.cancel()
    log.acknowledge()
    await asyncio.sleep(0)
    assert await cluster.fetch_all("g") == {("t", 0): 2}


async def test_fetch_before_v8_has_one_group(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 0): 5})
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    request = OffsetFetchRequest(group_id="g", topics=topics)
    answer = await cluster.coordinator.offsets.offset_fetch(request, request_context(1))
    assert [(part.partition_index, part.committed_offset) for part in answer.topics[0].partitions] == [(0, 5), (1, -1)]
    everything = await cluster.coordinator.offsets.offset_fetch(
        OffsetFetchRequest(group_id="g", topics=None), request_context(7)
    )
    assert [part.committed_offset for part in everything.topics[0].partitions] == [5]
    cluster.log_of("g").is_owner = False
    failed = await cluster.coordinator.offsets.offset_fetch(request, request_context(1))
    assert {part.error_code for part in failed.topics[0].partitions} == {ErrorCode.NOT_COORDINATOR}
    cluster.shards.error = MalformedMessage("broken")
    failed = await cluster.coordinator.offsets.offset_fetch(request, request_context(2))
    assert failed.error_code != ErrorCode.NONE


async def test_many_groups_in_one_fetch_prove_each_shard_once(cluster: Cluster) -> None:
    groups = [f"g{number}" for number in range(20)]
    for number, group_id in enumerate(groups):
        await cluster.commit(group_id, {("t", 0): number})
    proofs = 0
    for log in cluster.shards.logs.values():

        async def prove() -> None:
            nonlocal proofs
            proofs += 1

        log.prove_ownership = prove  # type: ignore[method-assign]
    asked = [
        OffsetFetchRequestGroup(group_id=group_id, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])])
        for group_id in groups
    ]
    answer = await cluster.coordinator.offsets.offset_fetch(OffsetFetchRequest(groups=asked), request_context(9))
    assert [group.topics[0].partitions[0].committed_offset for group in answer.groups] == list(range(20))
    assert proofs == len(cluster.shards.logs)


async def delete(cluster: Cluster, group_id: str, *partitions: tuple[str, int]) -> tuple[int, list[int]]:
    topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
        for name, index in partitions
    ]
    answer = await cluster.coordinator.offsets.offset_delete(
        OffsetDeleteRequest(group_id=group_id, topics=topics), request_context(0)
    )
    return answer.error_code, [topic.partitions[0].error_code for topic in answer.topics]


async def test_offsets_are_deleted_unless_subscribed(cluster: Cluster) -> None:
    assert await delete(cluster, "", ("t", 0)) == (ErrorCode.INVALID_GROUP_ID, [])
    assert await delete(cluster, "g", ("t", 0)) == (ErrorCode.NOT_COORDINATOR, []), "no offsets topic: nobody knows"
    await cluster.coordinator.prepare("g")
    assert await delete(cluster, "g", ("t", 0)) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    member_id = await cluster.stable()
    await cluster.commit("g", {("t", 0): 1, ("u", 0): 2}, member_id=member_id, generation=1)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await delete(cluster, "g", ("t", 0), ("u", 0), ("u", 3), ("none", 0), ("u", 4), ("u", -1), ("t", 9)) == (
        ErrorCode.NONE,
        [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE, *([unknown] * 4)],
    )
    assert await cluster.fetch_all("g") == {("t", 0): 1}
    other = await cluster.join("other", protocol_type="connect")
    assert other.error_code == ErrorCode.NONE
    assert await delete(cluster, "other", ("t", 0)) == (ErrorCode.NON_EMPTY_GROUP, [])


async def test_deleting_a_topic_drops_its_offsets(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 0): 1, ("u", 0): 2})
    await cluster.commit("h", {("t", 1): 1})
    cluster.coordinator.topics_deleted(["t"])
    await asyncio.sleep(0.01)
    assert await cluster.fetch_all("g") == {("u", 0): 2}
    assert await cluster.fetch_all("h") == {}


async def expire(cluster: Cluster) -> None:
    for shard in list(cluster.coordinator.directory.ready.values()):
        shard._expire(shard.group_ids())
    await asyncio.sleep(0.01)


async def test_offsets_expire_from_their_commit_or_from_when_the_group_emptied(cluster: Cluster) -> None:
    week_ms = cluster.config.offsets_retention_ms
    member_id = await cluster.stable()
    await cluster.commit("g", {("t", 0): 1, ("u", 0): 2}, member_id=member_id, generation=1)
    await cluster.commit("simple", {("t", 0): 3})
    cluster.clock.advance(week_ms - 1)
    await expire(cluster)
    assert await cluster.fetch_all("simple") == {("t", 0): 3}
    cluster.clock.advance(1)
    await expire(cluster)
    assert await cluster.fetch_all("simple") == {}
    assert await cluster.fetch_all("g") == {("t", 0): 1}  # it is subscribed to t, and no longer to u
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    await cluster.coordinator.classic.leave_group(leave, request_context(5))
    cluster.clock.advance(week_ms - 1)
    await expire(cluster)
    assert await cluster.fetch_all("g") == {("t", 0): 1}
    cluster.clock.advance(1)
    await expire(cluster)
    assert await cluster.fetch_all("g") == {}
    assert not any(shard.group_ids() for shard in cluster.coordinator.directory.ready.values())
    assert cluster.coordinator.metrics.expired_offsets == 3


async def test_offsets_of_a_group_that_is_at_work_do_not_expire(cluster: Cluster) -> None:
    """Nobody knows what a rebalancing group will be subscribed to, or a group of another protocol type is."""
    week_ms = cluster.config.offsets_retention_ms
    rebalancing = await cluster.stable()
    await cluster.commit("g", {("u", 0): 1}, member_id=rebalancing, generation=1)
    assert (await cluster.join("g", rebalancing)).generation_id == 2
    connect = await cluster.join("c", protocol_type="connect")
    synced = SyncGroupRequest(group_id="c", generation_id=1, member_id=connect.member_id)
    assert (await cluster.coordinator.classic.sync_group(synced, request_context(3))).error_code == 0
    await cluster.commit("c", {("u", 0): 2}, member_id=connect.member_id, generation=1)
    cluster.clock.advance(2 * week_ms)
    await expire(cluster)
    assert (await cluster.fetch_all("g"), await cluster.fetch_all("c")) == ({("u", 0): 1}, {("u", 0): 2})
    synced = SyncGroupRequest(group_id="g", generation_id=2, member_id=rebalancing)
    assert (await cluster.coordinator.classic.sync_group(synced, request_context(3))).error_code == 0
    await expire(cluster)
    assert await cluster.fetch_all("g") == {}, "it is stable now, and not subscribed to it"
    leave = LeaveGroupRequest(group_id="c", members=[MemberIdentity(member_id=connect.member_id)])
    await cluster.coordinator.classic.leave_group(leave, request_context(5))
    cluster.clock.advance(week_ms - 1)
    await expire(cluster)
    assert await cluster.fetch_all("c") == {("u", 0): 2}
    cluster.clock.advance(1)
    await expire(cluster)
    assert await cluster.fetch_all("c") == {}


async def test_a_commit_on_its_way_keeps_nothing_but_itself() -> None:
    cluster = Cluster(shard_count=1)
    await cluster.commit("g", {("t", 0): 1, ("u", 0): 2})
    cluster.clock.advance(cluster.config.offsets_retention_ms)
    log = cluster.log_of("g")
    log.is_acknowledging = False
    commit = asyncio.create_task(cluster.commit("g", {("u", 0): 3}))
    await until(lambda: log.pending_count > 0)
    await expire(cluster)
    log.is_acknowledging = True
    log.acknowledge()
    assert await commit == {("u", 0): 0}
    await until(lambda: cluster.coordinator.metrics.expired_offsets == 1)
    assert await cluster.fetch_all("g") == {("u", 0): 3}
    await cluster.coordinator.close()


async def test_old_commits_say_themselves_how_long_they_last(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 0): 1}, version=4, retention_ms=HOUR_MS)
    cluster.clock.advance(HOUR_MS)
    await expire(cluster)
    assert await cluster.fetch_all("g") == {}


async def test_expiry_takes_turns(cluster: Cluster) -> None:
    cluster.config = CoordinatorConfig(group_initial_rebalance_delay_ms=0, expiry_offsets_per_turn_max=2)
    cluster.restart()
    for number in range(10):
        await cluster.commit(f"g{number}", {("t", 0): 1})
    cluster.clock.advance(cluster.config.offsets_retention_ms)
    await expire(cluster)
    assert cluster.coordinator.metrics.expired_offsets == 10


async def test_a_long_log_is_replaced_by_a_snapshot() -> None:
    config = CoordinatorConfig(group_initial_rebalance_delay_ms=0, snapshot_records_max=10)
    cluster = Cluster(config, shard_count=1)
    await cluster.stable("g")
    for number in range(12):
        await cluster.commit("simple", {("t", 0): number})
    await asyncio.sleep(0.01)
    log = cluster.log_of("simple")
    assert [snapshot.next_offset for snapshot in log.snapshots] == [10]
    cluster.restart()
    assert await cluster.fetch_all("simple") == {("t", 0): 11}
    shard = await cluster.coordinator.directory.get("g")
    assert shard.state_log.records_since_snapshot == 3
    assert shard.groups["g"].generation == 1
    await cluster.coordinator.close()


async def test_a_large_state_is_saved_when_an_eighth_may_have_changed() -> None:
    config = CoordinatorConfig(group_initial_rebalance_delay_ms=0, snapshot_records_max=10)
    cluster = Cluster(config, shard_count=1)
    offsets = {("t", number % 4): number for number in range(4)}
    saved: list[int] = []
    for number in range(80):
        await cluster.commit(f"g{number % 40}", offsets)
        for _ in range(10):  # a snapshot is made in turns of the loop
            await asyncio.sleep(0)
        saved += [item.next_offset for item in cluster.log_of("g0").snapshots if item.next_offset not in saved]
    # When there are ten records behind the last one, by commits of four; from 96 offsets on an eighth of the state is more.
    assert saved == [*range(12, 97, 12), 112, 128, *range(148, 320, 20)]
    await cluster.coordinator.close()


async def test_a_snapshot_is_the_state_of_one_moment() -> None:
    """Commits that are applied while the bytes are made belong behind it."""
    cluster = Cluster(shard_count=1)
    for number in range(3):
        await cluster.commit("g", {("t", number): number})
    shard = await cluster.coordinator.directory.get("g")
    saving = asyncio.create_task(shard.save_snapshot(force=True))
    await asyncio.sleep(0)
    await cluster.commit("g", {("t", 0): 9})
    assert await saving
    (snapshot,) = cluster.log_of("g").snapshots
    (part,) = decode_snapshot(snapshot.data)
    assert isinstance(part, PackedOffsets)
    assert snapshot.next_offset == 3
    assert {partition: value.offset for partition, value in part.unpacked().items()} == {0: 0, 1: 1, 2: 2}
    await cluster.coordinator.close()


async def test_an_unreadable_record_is_skipped(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 0): 1})
    shard = await cluster.coordinator.directory.get("g")
    await shard.append([(b"\0\1", b"junk"), (b"\0\x63new kind", b"x"), (b"", b"")])
    assert await cluster.commit("g", {("t", 1): 2}) == {("t", 1): 0}
    cluster.restart()
    assert await cluster.fetch_all("g") == {("t", 0): 1, ("t", 1): 2}


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("commit"),
            st.sampled_from(["g", "h", "i"]),
            st.dictionaries(st.tuples(st.sampled_from("tu"), st.integers(0, 3)), st.integers(0, 99), max_size=3),
        ),
        st.tuples(
            st.just("delete"), st.sampled_from(["g", "h", "i"]), st.tuples(st.sampled_from("tu"), st.integers(0, 3))
        ),
        st.tuples(st.just("topic"), st.sampled_from("tu"), st.none()),
        st.tuples(st.just("time"), st.sampled_from([HOUR_MS, 5 * 24 * HOUR_MS]), st.none()),
        st.tuples(st.just("stable"), st.sampled_from(["g", "h"]), st.none()),
        st.tuples(st.just("snapshot"), st.just(""), st.none()),
    ),
    max_size=12,
)


@given(steps)
def test_a_restart_brings_back_the_same_state_at_any_point(history: list[tuple[str, str, object]]) -> None:
    async def run() -> None:
        cluster = Cluster(FAST, shard_count=2)
        for what, name, detail in history:
            if what == "commit":
                await cluster.commit(name, detail)  # type: ignore[arg-type]
            elif what == "delete":
                await delete(cluster, name, detail)  # type: ignore[arg-type]
            elif what == "topic":
                cluster.coordinator.topics_deleted([name])
                await asyncio.sleep(0)
            elif what == "time":
                cluster.clock.advance(int(name))
                await expire(cluster)
            elif what == "stable":
                joined = await cluster.join(name, group_instance_id="same", version=9)
                assert joined.error_code == 0
            else:
                for shard in cluster.coordinator.directory.ready.values():
                    await shard.save_snapshot(force=True)
            before = await picture(cluster)
            await cluster.coordinator.close()
            cluster.restart()
            assert await picture(cluster) == before
        await cluster.coordinator.close()

    async def picture(cluster: Cluster) -> object:
        shards = [await cluster.coordinator.directory.load(number) for number in range(2)]
        pictures = []
        for shard in shards:
            offsets = shard.offsets
            counts = {group_id: offsets.count_of(group_id) for group_id in offsets.group_ids()}
            committed = {group_id: offsets.committed(group_id) for group_id in counts}
            assert {group_id: sum(map(len, topics.values())) for group_id, topics in committed.items()} == counts
            assert offsets.count == sum(counts.values())
            pictures.append((sorted(shard.durable_state().groups), committed))
        return pictures

    asyncio.run(run())
