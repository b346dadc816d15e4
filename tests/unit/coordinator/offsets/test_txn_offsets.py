"""Offsets in transactions: who may commit, what is visible when, markers, failover, and what comes late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.classic.effects import GroupState
from bmq.coordinator.topics import OFFSETS_TOPIC
from bmq.log.transactions import TransactionClaim, TransactionMarker
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from bmq.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from bmq.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from bmq.protocol.record_batch import BatchHeader
from bmq.protocol.request_context import RequestContext
from tests.unit.coordinator.cluster import FAST, Cluster, request_context
from tests.unit.proxy.harness import until

pytestmark = pytest.mark.unit

ONE = {("t", 0): 1}
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    yield made
    await made.coordinator.close()


async def code_of(cluster: Cluster, group_id: str = "g", **options: Any) -> int:
    return (await cluster.commit_in_transaction(group_id, ONE, **options))["t", 0]


async def refusal(cluster: Cluster, group_id: str = "g", marker: TransactionMarker | None = None, **end: Any) -> int:
    """The code a marker is refused with."""
    with pytest.raises(KafkaError) as caught:
        if marker is None:
            await cluster.end(group_id, **end)
        else:
            await cluster.coordinator.write_marker(cluster.coordinator.directory.number_of(group_id), marker)
    return caught.value.code


# --- what is visible when


async def test_offsets_are_visible_once_the_transaction_is_committed(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 0): 1, ("t", 1): 2})
    assert await cluster.commit_in_transaction("g", {("t", 0): 11, ("u", 3): 12}) == {("t", 0): 0, ("u", 3): 0}
    assert await cluster.fetch_all("g") == {("t", 0): 1, ("t", 1): 2}
    assert await cluster.fetch("g", "t", 0, require_stable=True) == (UNSTABLE, -1)
    assert await cluster.fetch("g", "u", 3, require_stable=True) == (UNSTABLE, -1)
    assert await cluster.fetch("g", "t", 1, require_stable=True) == (0, 2)
    assert await cluster.fetch("h", "t", 0, require_stable=True) == (0, -1)
    await cluster.end("g")
    assert await cluster.fetch_all("g", require_stable=True) == {("t", 0): 11, ("t", 1): 2, ("u", 3): 12}


async def test_what_is_aborted_was_never_there(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 0): 1})
    await cluster.commit_in_transaction("g", {("t", 0): 11, ("t", 1): 12})
    await cluster.end("g", is_commit=False)
    assert await cluster.fetch_all("g", require_stable=True) == {("t", 0): 1}


async def test_all_offsets_say_which_are_unstable(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 0): 1, ("t", 1): 2})
    await cluster.commit_in_transaction("g", {("t", 0): 11, ("u", 0): 12})
    for topics in ([OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])], None):
        request = OffsetFetchRequest(group_id="g", topics=topics, require_stable=True)
        (topic,) = (await cluster.coordinator.offsets.offset_fetch(request, request_context(7))).topics
        assert [(part.error_code, part.committed_offset) for part in topic.partitions] == [(UNSTABLE, -1), (0, 2)]


async def test_a_later_plain_commit_stays(cluster: Cluster) -> None:
    await cluster.commit_in_transaction("g", {("t", 0): 11})
    await cluster.commit("g", {("t", 0): 20})
    assert await cluster.fetch("g", "t", 0, require_stable=True) == (UNSTABLE, -1), "Kafka says so until the end"
    await cluster.end("g")
    assert await cluster.fetch_all("g") == {("t", 0): 20}


async def test_a_transaction_reaches_all_groups_of_a_shard() -> None:
    cluster = Cluster(shard_count=1)
    for group_id in ("g", "h"):
        await cluster.commit_in_transaction(group_id, {("t", 0): 5})
    assert len(cluster.verifier.asked) == 1, "the shard's partition is in the transaction already"
    await cluster.commit_in_transaction("g", {("t", 1): 6}, producer=(8, 0))
    await cluster.end("g")
    assert (await cluster.fetch_all("g"), await cluster.fetch_all("h")) == ({("t", 0): 5}, {("t", 0): 5})
    assert await cluster.fetch("g", "t", 1, require_stable=True) == (UNSTABLE, -1)
    await cluster.coordinator.close()


async def test_records_are_kafkas(cluster: Cluster) -> None:
    await cluster.commit_in_transaction("g", {("t", 0): 5}, producer=(7, 3))
    await cluster.end("g", (7, 3), coordinator_epoch=4)
    headers = [BatchHeader.parse(batch.data) for batch in cluster.log_of("g").batches]
    assert [(h.producer_id, h.producer_epoch, h.base_sequence) for h in headers] == [(7, 3, -1)] * 2
    assert [(h.is_transactional, h.is_control) for h in headers] == [(True, False), (True, True)]


async def test_nothing_is_answered_before_it_is_durable(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 0): 1})
    log = cluster.log_of("g")
    log.is_acknowledging = False
    committing = asyncio.create_task(code_of(cluster))
    await until(lambda: log.pending_count == 1)
    stable = asyncio.create_task(cluster.fetch("g", "t", 0, require_stable=True))
    await asyncio.sleep(0.01)
    assert not committing.done() and not stable.done(), "who asks for stable offsets waits for what is on its way"
    log.acknowledge()
    assert await committing == 0
    assert await stable == (UNSTABLE, -1)
    ending = asyncio.create_task(cluster.end("g"))
    await until(lambda: log.pending_count == 1)
    assert not ending.done()
    assert await cluster.fetch("g", "t", 0, require_stable=True) == (UNSTABLE, -1)
    log.acknowledge()
    await ending
    assert await cluster.fetch("g", "t", 0, require_stable=True) == (0, 1)


# --- who may commit


async def test_members_and_strangers(cluster: Cluster) -> None:
    assert await code_of(cluster, "") == ErrorCode.INVALID_GROUP_ID
    member_id = await cluster.stable()
    assert await code_of(cluster, member_id=member_id, generation=1) == ErrorCode.NONE
    assert await code_of(cluster, member_id=member_id, generation=2) == ErrorCode.ILLEGAL_GENERATION
    assert await code_of(cluster, member_id="other", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await code_of(cluster, member_id=member_id, instance_id="no", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await code_of(cluster) == ErrorCode.NONE, "a producer that does not say for whom"
    assert await code_of(cluster, member_id="other") == ErrorCode.UNKNOWN_MEMBER_ID
    static = await cluster.join("s", group_instance_id="i")
    assert await code_of(cluster, "s", member_id="before", instance_id="i", generation=1) == (
        ErrorCode.FENCED_INSTANCE_ID
    )
    assert await code_of(cluster, "s", member_id=static.member_id, instance_id="i", generation=1) == ErrorCode.NONE


async def test_members_by_heartbeats_commit_at_their_epoch(cluster: Cluster) -> None:
    """KIP-848: versions before topic ids know no stale epoch."""
    joining = ConsumerGroupHeartbeatRequest(
        group_id="n", member_id="m", rebalance_timeout_ms=10_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    epoch = (await cluster.coordinator.consumer.consumer_group_heartbeat(joining, request_context(1))).member_epoch
    assert epoch > 0
    assert await code_of(cluster, "n", member_id="m", generation=epoch) == ErrorCode.NONE
    for other in (epoch + 1, 0):
        assert await code_of(cluster, "n", member_id="m", generation=other) == ErrorCode.ILLEGAL_GENERATION
    assert await code_of(cluster, "n", member_id="m", generation=epoch + 1, version=6) == ErrorCode.STALE_MEMBER_EPOCH
    assert await code_of(cluster, "n", member_id="other", generation=epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await code_of(cluster, "n") == ErrorCode.NONE, "a producer that does not say for whom"


async def test_a_group_that_is_not_there(cluster: Cluster) -> None:
    assert await code_of(cluster, "new", generation=3, version=5) == ErrorCode.ILLEGAL_GENERATION
    assert await code_of(cluster, "new", generation=3, version=6) == ErrorCode.GROUP_ID_NOT_FOUND
    assert await code_of(cluster, "new") == ErrorCode.NONE
    listed = await cluster.coordinator.administration.list_groups(ListGroupsRequest(), request_context(5))
    assert [(group.group_id, group.group_state) for group in listed.groups] == [("new", "Empty")]
    assert await code_of(cluster, "new", generation=3) == ErrorCode.UNKNOWN_MEMBER_ID
    await cluster.end("new", is_commit=False)
    assert (await cluster.coordinator.administration.list_groups(ListGroupsRequest(), request_context(5))).groups == []


async def test_a_rebalance_does_not_keep_a_member_from_committing(cluster: Cluster) -> None:
    joined = await cluster.join()
    shard = await cluster.coordinator.directory.get("g")
    assert shard.groups["g"].state is GroupState.COMPLETING_REBALANCE
    assert await code_of(cluster, member_id=joined.member_id, generation=1) == ErrorCode.NONE


async def test_what_cannot_be_committed_fails_alone(cluster: Cluster) -> None:
    codes = await cluster.commit_in_transaction("g", {("t", 0): 1, ("none", 0): 1, ("t", 4): 1}, metadata="x" * 4096)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list(codes.values()) == [ErrorCode.NONE, unknown, unknown]
    cluster.verifier.asked.clear()
    assert await code_of(cluster, metadata="x" * 4097, producer=(8, 0)) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert cluster.verifier.asked == [], "nothing would be written"
    cluster.verifier.code = ErrorCode.INVALID_TXN_STATE
    codes = await cluster.commit_in_transaction("g", {("t", 0): 1, ("none", 0): 1}, producer=(8, 0))
    assert list(codes.values()) == [ErrorCode.INVALID_TXN_STATE, unknown]


async def test_topics_by_id_from_v6(cluster: Cluster) -> None:
    assert await code_of(cluster, version=6) == ErrorCode.NONE
    topic = TxnOffsetCommitRequestTopic(
        topic_id=UUID(int=77), partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    )
    request = TxnOffsetCommitRequest(group_id="g", producer_id=7, topics=[topic])
    (answer,) = (await cluster.coordinator.transactional_offsets.txn_offset_commit(request, request_context(6))).topics
    assert (answer.topic_id, answer.partitions[0].error_code) == (UUID(int=77), ErrorCode.UNKNOWN_TOPIC_ID)


# --- verification


async def test_a_transaction_is_verified_once(cluster: Cluster) -> None:
    number = cluster.coordinator.directory.number_of("g")
    for _ in range(3):
        await code_of(cluster)
    claim = TransactionClaim("id-7", may_add=True, is_abortable_told=True)
    assert cluster.verifier.asked == [(claim, 7, 0, OFFSETS_TOPIC, (number,))]
    await cluster.end("g")
    await code_of(cluster)
    assert len(cluster.verifier.asked) == 2, "this is another transaction"
    await code_of(cluster, producer=(7, 1))
    assert len(cluster.verifier.asked) == 3, "and this another epoch"


@pytest.mark.parametrize(
    ("version", "may_add", "is_abortable_told"),
    [(0, False, False), (3, False, False), (4, False, True), (5, True, True)],
)
async def test_what_a_version_claims(cluster: Cluster, version: int, may_add: bool, is_abortable_told: bool) -> None:
    await code_of(cluster, version=version)
    assert cluster.verifier.asked[0][0] == TransactionClaim("id-7", may_add, is_abortable_told)


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_TXN_STATE, 4, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 5, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NETWORK_EXCEPTION, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 0, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, 5, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 5, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_what_the_transaction_coordinator_says_is_told_in_the_versions_words(
    cluster: Cluster, said: ErrorCode, version: int, told: ErrorCode
) -> None:
    cluster.verifier.code = said
    assert await code_of(cluster, version=version) == told
    assert cluster.log_of("g").log_end_offset == 0


async def test_without_a_way_to_the_transaction_coordinator_nothing_is_written(cluster: Cluster) -> None:
    verifier = cluster.verifier
    cluster.verifier = None
    cluster.restart()
    assert await code_of(cluster) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.coordinator.use_transactions(verifier)
    assert await code_of(cluster) == ErrorCode.NONE
    assert await code_of(cluster, producer=(-1, 0)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await code_of(cluster, producer=(9, -1)) == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_shard_that_loads_is_told_in_the_versions_words(cluster: Cluster) -> None:
    cluster.shards.error = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert await code_of(cluster, version=1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await code_of(cluster, version=2) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def verifying(cluster: Cluster, **options: Any) -> asyncio.Task[int]:
    """A commit that waits for the transaction coordinator's word."""
    cluster.verifier.gate = asyncio.Event()
    asked = len(cluster.verifier.asked)
    task = asyncio.create_task(code_of(cluster, **options))
    await until(lambda: len(cluster.verifier.asked) > asked)
    return task


@pytest.mark.parametrize(
    ("marker_epoch", "told"), [(0, ErrorCode.INVALID_TXN_STATE), (1, ErrorCode.INVALID_PRODUCER_EPOCH)]
)
@pytest.mark.parametrize("is_on_its_way", [False, True])
async def test_a_marker_between_the_word_and_the_write_refuses_the_commit(
    cluster: Cluster, marker_epoch: int, told: ErrorCode, is_on_its_way: bool
) -> None:
    await cluster.coordinator.prepare("g")
    task = await verifying(cluster, version=3)
    gate = cluster.verifier.gate
    assert gate is not None
    log = cluster.log_of("g")
    log.is_acknowledging = not is_on_its_way
    ending = asyncio.create_task(cluster.end("g", (7, marker_epoch), is_commit=False))
    if is_on_its_way:
        await until(lambda: log.pending_count == 1)
    else:
        await ending
    gate.set()
    await asyncio.sleep(0.01)
    assert task.done() != is_on_its_way
    log.acknowledge()
    await ending
    assert await task == told
    assert log.log_end_offset == 1, "only the marker"
    cluster.verifier.gate = None
    log.is_acknowledging = True
    assert await code_of(cluster, producer=(7, 1)) == 0, "the next transaction begins"


@pytest.mark.parametrize(("marker_epoch", "told"), [(2, ErrorCode.NONE), (3, ErrorCode.INVALID_PRODUCER_EPOCH)])
async def test_a_repeated_marker_of_the_transaction_before_does_not_refuse_the_commit(
    cluster: Cluster, marker_epoch: int, told: ErrorCode
) -> None:
    """From version 5 on each transaction has its own epoch: a marker with it ended the one before."""
    await cluster.coordinator.prepare("g")
    task = await verifying(cluster, producer=(7, 2))
    marker = TransactionMarker(7, marker_epoch, 0, is_commit=False, transaction_version=2)
    await cluster.coordinator.write_marker(cluster.coordinator.directory.number_of("g"), marker)
    assert cluster.verifier.gate is not None
    cluster.verifier.gate.set()
    assert await task == told


async def test_a_marker_that_was_refused_ends_nothing(cluster: Cluster) -> None:
    await code_of(cluster, producer=(7, 2))
    await cluster.end("g", (7, 2))
    task = await verifying(cluster, producer=(7, 2))
    gate = cluster.verifier.gate
    assert gate is not None
    ending = asyncio.create_task(refusal(cluster, producer=(7, 1)))
    await asyncio.sleep(0)
    gate.set()
    assert (await ending, await task) == (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NONE)


async def test_members_are_looked_at_when_the_word_is_there(cluster: Cluster) -> None:
    """A rebalance during the question: the commit of the generation before must not become pending."""
    member_id = await cluster.stable()
    task = await verifying(cluster, member_id=member_id, generation=1)
    assert (await cluster.join("g", member_id)).generation_id == 2
    assert cluster.verifier.gate is not None
    cluster.verifier.gate.set()
    assert await task == ErrorCode.ILLEGAL_GENERATION


async def test_a_shard_lost_between_the_word_and_the_write_takes_nothing(cluster: Cluster) -> None:
    member_id = await cluster.stable()
    task = await verifying(cluster, member_id=member_id, generation=1)
    cluster.coordinator.resign(cluster.coordinator.directory.number_of("g"))
    assert cluster.verifier.gate is not None
    cluster.verifier.gate.set()
    assert await task == ErrorCode.NOT_COORDINATOR
    cluster.verifier.gate = None
    assert await code_of(cluster, member_id=member_id, generation=1) == ErrorCode.NONE
    assert len(cluster.verifier.asked) == 2


async def test_a_shard_whose_next_owner_was_quicker_takes_nothing(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 1): 1})
    task = await verifying(cluster)
    heir = cluster.take_over()
    await heir.end("g", (7, 0), is_commit=False)
    assert cluster.verifier.gate is not None
    cluster.verifier.gate.set()
    assert await task == ErrorCode.NOT_COORDINATOR
    assert await heir.fetch_all("g") == {("t", 1): 1}
    await heir.coordinator.close()


async def test_a_client_that_hangs_up_while_it_is_verified_leaves_nothing_behind(cluster: Cluster) -> None:
    task = await verifying(cluster)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    shard = await cluster.coordinator.directory.get("g")
    assert not shard.transactions._guards
    assert cluster.log_of("g").log_end_offset == 0


async def test_a_fenced_epoch_is_refused_by_the_log(cluster: Cluster) -> None:
    await code_of(cluster, producer=(7, 3))
    assert await code_of(cluster, producer=(7, 2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    await cluster.end("g", (7, 4), is_commit=False)
    assert await code_of(cluster, producer=(7, 3)) == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_an_envelope_for_another_leader_epoch_is_refused(cluster: Cluster) -> None:
    """A commit that was delayed on its way here, over a change of owners, is another try's business by then."""
    await cluster.coordinator.prepare("g")
    request = TxnOffsetCommitRequest(group_id="g")
    context = RequestContext(5, "client", "192.0.2.1", leader_epoch=cluster.shards.leader_epoch + 1)
    with pytest.raises(KafkaError) as caught:
        await cluster.coordinator.handle(ApiKey.TXN_OFFSET_COMMIT, request, context)
    assert caught.value.code is ErrorCode.NOT_COORDINATOR


# --- markers


async def test_a_marker_where_the_shard_is_not_ready_is_sent_elsewhere(cluster: Cluster) -> None:
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await refusal(cluster) == moved, "there is no offsets topic"
    await cluster.commit("g", {("t", 0): 1})
    number = cluster.coordinator.directory.number_of("g")
    cluster.coordinator.resign(number)
    for code in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ):
        cluster.shards.error = KafkaError(code)
        assert await refusal(cluster) == moved
    cluster.shards.error = None
    await cluster.end("g")
    assert cluster.coordinator.directory.find("g") is not None, "it loads a shard that is ours"
    await cluster.coordinator.close()
    assert await refusal(cluster) == moved


@pytest.mark.parametrize(
    ("append_error", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_a_marker_that_was_not_written_is_refused(
    cluster: Cluster, append_error: ErrorCode, told: ErrorCode
) -> None:
    await cluster.commit("g", {("t", 0): 1})
    await code_of(cluster)
    cluster.log_of("g").refuse_with = append_error
    assert await refusal(cluster) == told
    cluster.log_of("g").refuse_with = None
    await cluster.end("g")
    assert await cluster.fetch("g", "t", 0, require_stable=True) == (0, 1)


async def test_old_coordinators_and_old_epochs_are_fenced(cluster: Cluster) -> None:
    await code_of(cluster, producer=(7, 3))
    assert await refusal(cluster, producer=(7, 2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    await cluster.end("g", (7, 3), coordinator_epoch=5)
    await code_of(cluster, producer=(7, 3))
    fenced = await refusal(cluster, producer=(7, 3), coordinator_epoch=4)
    assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await cluster.fetch("g", "t", 0, require_stable=True) == (UNSTABLE, -1)


@pytest.mark.parametrize("is_applied", [True, False])
async def test_a_repeated_marker_does_not_end_the_next_transaction(cluster: Cluster, is_applied: bool) -> None:
    """From version 2 on: the first one's answer was lost, and the second comes when the producer has gone on."""
    first = TransactionMarker(7, 1, 0, is_commit=False, transaction_version=2)
    number = cluster.coordinator.directory.number_of("g")
    await code_of(cluster)
    await cluster.coordinator.write_marker(number, first)
    await cluster.coordinator.write_marker(number, first)
    log = cluster.log_of("g")
    log.is_acknowledging = is_applied
    committing = asyncio.create_task(code_of(cluster, producer=(7, 1)))
    if is_applied:
        await committing
    else:
        await until(lambda: log.pending_count == 1)
    assert await refusal(cluster, marker=first) == ErrorCode.INVALID_PRODUCER_EPOCH
    log.acknowledge()
    log.is_acknowledging = True
    assert await committing == 0
    await cluster.coordinator.write_marker(number, TransactionMarker(7, 2, 0, is_commit=True, transaction_version=2))
    assert await cluster.fetch_all("g") == {("t", 0): 1}


async def test_a_caller_that_goes_away_does_not_take_its_marker_back(cluster: Cluster) -> None:
    await code_of(cluster)
    log = cluster.log_of("g")
    log.is_acknowledging = False
    ending = asyncio.create_task(cluster.end("g"))
    await until(lambda: log.pending_count == 1)
    ending.cancel()
    log.acknowledge()
    await asyncio.sleep(0)
    assert await cluster.fetch_all("g") == {("t", 0): 1}


# --- deletions and time


async def test_pending_offsets_are_deleted_with_their_group(cluster: Cluster) -> None:
    await code_of(cluster)
    deleted = await cluster.coordinator.administration.delete_groups(
        DeleteGroupsRequest(groups_names=["g"]), request_context(3)
    )
    assert [result.error_code for result in deleted.results] == [0]
    await cluster.end("g")
    assert await cluster.fetch_all("g") == {}
    cluster.restart()
    assert (await cluster.coordinator.administration.list_groups(ListGroupsRequest(), request_context(5))).groups == []


async def test_pending_offsets_are_deleted_with_their_topic(cluster: Cluster) -> None:
    await cluster.commit_in_transaction("g", {("t", 0): 1, ("u", 0): 2})
    cluster.coordinator.topics_deleted(["t"])
    await asyncio.sleep(0.01)
    await cluster.end("g")
    assert await cluster.fetch_all("g") == {("u", 0): 2}


async def test_pending_offsets_are_deleted_one_by_one(cluster: Cluster) -> None:
    await cluster.commit_in_transaction("g", {("t", 0): 1, ("t", 1): 2})
    topics = [OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    request = OffsetDeleteRequest(group_id="g", topics=topics)
    answer = await cluster.coordinator.offsets.offset_delete(request, request_context(0))
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
    assert await cluster.fetch("g", "t", 0, require_stable=True) == (0, -1)
    await cluster.end("g")
    assert await cluster.fetch_all("g") == {("t", 1): 2}


async def test_deleting_takes_commits_along_that_are_on_their_way(cluster: Cluster) -> None:
    await cluster.commit("g", {("t", 1): 1})
    log = cluster.log_of("g")
    log.is_acknowledging = False
    committing = asyncio.create_task(code_of(cluster))
    await until(lambda: log.pending_count == 1)
    request = DeleteGroupsRequest(groups_names=["g"])
    deleting = asyncio.create_task(cluster.coordinator.administration.delete_groups(request, request_context(2)))
    await until(lambda: log.pending_count == 2)
    log.is_acknowledging = True
    log.acknowledge()
    await asyncio.gather(committing, deleting)
    await cluster.end("g")
    assert await cluster.fetch_all("g") == {}


async def expire(cluster: Cluster) -> None:
    for shard in list(cluster.coordinator.directory.ready.values()):
        shard._expire(shard.group_ids())
    await asyncio.sleep(0.01)


async def test_what_is_pending_does_not_expire_and_keeps_its_group(cluster: Cluster) -> None:
    joined = await cluster.stable()
    await cluster.commit("g", {("t", 0): 1, ("t", 1): 2}, member_id=joined, generation=1)
    await cluster.commit_in_transaction("g", {("t", 0): 11}, member_id=joined, generation=1)
    shard = await cluster.coordinator.directory.get("g")
    group = shard.groups["g"]
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined)])
    await cluster.coordinator.classic.leave_group(leave, request_context(5))
    await until(lambda: group.state is GroupState.EMPTY)
    cluster.clock.advance(2 * cluster.config.offsets_retention_ms)
    await expire(cluster)
    assert await cluster.fetch_all("g") == {("t", 0): 1}
    assert "g" in shard.groups and group.written is not None
    await cluster.end("g", is_commit=False)
    await expire(cluster)
    assert not shard.has_group("g")


# --- the next owner


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("is_commit", [False, True])
async def test_an_open_transaction_lives_on_at_the_next_owner(
    cluster: Cluster, is_saved: bool, is_commit: bool
) -> None:
    await cluster.commit("g", {("t", 0): 1, ("t", 1): 2})
    await cluster.commit_in_transaction("g", {("t", 0): 11, ("t", 1): 12})
    await cluster.commit("g", {("t", 1): 20})
    if is_saved:
        shard = await cluster.coordinator.directory.get("g")
        await shard.save_snapshot(force=True)
    heir = cluster.take_over()
    assert await heir.fetch("g", "t", 0, require_stable=True) == (UNSTABLE, -1)
    assert await code_of(heir, producer=(7, 0)) == 0
    assert heir.verifier.asked == [], "the log says that its transaction is open"
    await heir.commit_in_transaction("g", {("t", 0): 11})
    await heir.end("g", is_commit=is_commit)
    ended = {("t", 0): 11 if is_commit else 1, ("t", 1): 20}
    assert await heir.fetch_all("g", require_stable=True) == ended
    again = heir.take_over()
    assert await again.fetch_all("g", require_stable=True) == ended
    await heir.coordinator.close()
    await again.coordinator.close()


_GROUPS = st.sampled_from("ghi")
_OFFSETS = st.dictionaries(
    st.tuples(st.sampled_from("tu"), st.integers(0, 3)), st.integers(0, 99), min_size=1, max_size=3
)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), _GROUPS, _OFFSETS),
        st.tuples(st.just("pending"), _GROUPS, st.tuples(st.integers(1, 2), _OFFSETS)),
        st.tuples(st.just("end"), _GROUPS, st.tuples(st.integers(1, 2), st.booleans())),
        st.tuples(st.just("delete"), _GROUPS, st.none()),
        st.tuples(st.just("topic"), st.sampled_from("tu"), st.none()),
        st.tuples(st.just("time"), st.just(""), st.none()),
        st.tuples(st.just("snapshot"), st.just(""), st.none()),
    ),
    max_size=15,
)


@given(_STEPS)
def test_a_restart_brings_back_the_same_state_at_any_point(history: list[tuple[str, str, Any]]) -> None:
    async def run() -> None:
        cluster = Cluster(FAST, shard_count=2)
        await cluster.coordinator.prepare("g")
        await cluster.coordinator.prepare("h")
        for what, name, detail in history:
            if what == "plain":
                await cluster.commit(name, detail)
            elif what == "pending":
                codes = await cluster.commit_in_transaction(name, detail[1], producer=(detail[0], 0))
                assert set(codes.values()) == {0}
            elif what == "end":
                await cluster.end(name, (detail[0], 0), is_commit=detail[1])
            elif what == "delete":
                await cluster.coordinator.administration.delete_groups(
                    DeleteGroupsRequest(groups_names=[name]), request_context(3)
                )
                assert await cluster.fetch_all(name, require_stable=True) == {}
            elif what == "topic":
                cluster.coordinator.topics_deleted([name])
                await asyncio.sleep(0)
            elif what == "time":
                cluster.clock.advance(cluster.config.offsets_retention_ms)
                await expire(cluster)
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
        return [
            (
                sorted(shard.group_ids()),
                {group_id: shard.offsets.committed(group_id) for group_id in shard.offsets.group_ids()},
                {transaction.producer_id: transaction for transaction in shard.offsets.pending.copied()},
            )
            for shard in shards
        ]

    asyncio.run(run())
