"""ShareFetch and ShareAcknowledge from request to answer: records, locks, waits, errors, and the end of connections."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from bmq.log.partition_log import AbortedTransaction, TopicPartition
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import TRANSACTIONAL
from bmq.protocol.share_state_messages import RECORD_LIMIT
from bmq.proxy.share.fetch_job import IDLE_PARTITIONS_MAX
from tests.support.produced_batch import produced_batch
from tests.unit.proxy_fetch.cluster import TOPIC_ID
from tests.unit.proxy_share.share_client import Member, ShareCluster, acquired_of, partitions_of, turns

pytestmark = pytest.mark.unit

NEVER_MS = 60_000


def code_of(raised: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return raised.value.code


# --- records


@pytest.mark.parametrize("version", [1, 2])
async def test_a_first_fetch_finds_its_start_and_gives_records(cluster: ShareCluster, version: int) -> None:
    written = cluster.fetch_cluster.produce(0, count=3) + cluster.fetch_cluster.produce(0, count=2)
    member = Member(cluster, version=version)
    response = await member.fetch([0, 1])
    assert acquired_of(response) == [(0, 4, 1)]
    found = partitions_of(response)
    assert bytes(found[0].records) == written
    assert (found[0].error_code, found[1].error_code, bytes(found[1].records)) == (0, 0, b"")
    assert response.acquisition_lock_timeout_ms == 30_000
    assert acquired_of(await member.fetch()) == []


async def test_the_usual_fetch_is_one_call(cluster: ShareCluster) -> None:
    member = Member(cluster)
    cluster.fetch_cluster.produce(0)
    await member.fetch()
    before = len(cluster.states.acquires)
    cluster.fetch_cluster.produce(0)
    assert acquired_of(await member.fetch([])) == [(1, 1, 1)]
    assert len(cluster.states.acquires) == before + 1


async def test_members_get_different_records(cluster: ShareCluster) -> None:
    for _ in range(4):
        cluster.fetch_cluster.produce(0)
    first, second = Member(cluster, "a"), Member(cluster, "b")
    answers = await asyncio.gather(first.fetch(max_records=2), second.fetch(max_records=2))
    given = sorted(offset for one in answers for low, high, _ in acquired_of(one) for offset in range(low, high + 1))
    assert given == [0, 1, 2, 3]


async def test_limits_of_records(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0, count=4)
    cluster.fetch_cluster.produce(0, count=4)
    member = Member(cluster)
    assert acquired_of(await member.fetch(max_records=2)) == [(0, 3, 1)]  # to the end of the batch
    response = await member.fetch([], max_records=2, share_acquire_mode=RECORD_LIMIT)
    assert acquired_of(response) == [(4, 5, 1)]
    assert acquired_of(await member.fetch([], max_records=5, share_acquire_mode=RECORD_LIMIT)) == [(6, 7, 1)]


async def test_a_fetch_asks_its_shard_for_no_more_batches_than_it_wants(cluster: ShareCluster) -> None:
    for _ in range(20):
        cluster.fetch_cluster.produce(0, count=2)
    member = Member(cluster)
    assert acquired_of(await member.fetch(max_records=3)) == [(0, 3, 1)]
    (part,) = cluster.states.acquires[-1].partitions
    assert [(one.first, one.last) for one in part.batches] == [(0, 1), (2, 3)]


async def test_records_larger_than_the_first_read_expects_are_all_given(cluster: ShareCluster) -> None:
    for _ in range(6):
        cluster.fetch_cluster.produce(0, value_bytes=20_000)
    assert acquired_of(await Member(cluster).fetch(max_records=5)) == [(0, 4, 1)]


async def test_the_limit_of_records_is_that_of_all_partitions(cluster: ShareCluster) -> None:
    for partition in (0, 1):
        for _ in range(3):
            cluster.fetch_cluster.produce(partition)
    response = await Member(cluster).fetch([0, 1], max_records=4, share_acquire_mode=RECORD_LIMIT)
    assert sum(high - low + 1 for one in (0, 1) for low, high, _ in acquired_of(response, one)) == 4


@pytest.mark.parametrize("fields", [{"max_records": 0}, {"max_bytes": 0}, {"max_records": -1}])
async def test_limits_of_nothing_are_answered_at_once(cluster: ShareCluster, fields: dict[str, Any]) -> None:
    cluster.fetch_cluster.produce(0)
    response = await Member(cluster).fetch(max_wait_ms=NEVER_MS, **fields)
    assert response.error_code == 0 and acquired_of(response) == []
    assert not cluster.states.acquires


async def test_released_records_come_again_counted(cluster: ShareCluster) -> None:
    written = cluster.fetch_cluster.produce(0, count=3)
    member = Member(cluster)
    await member.fetch()
    response = await member.fetch([], {0: [(0, 2, [1, 2, 3])]}, max_wait_ms=NEVER_MS)
    assert partitions_of(response)[0].acknowledge_error_code == 0
    assert acquired_of(response) == [(1, 1, 2)]
    assert bytes(partitions_of(response)[0].records) == written
    assert cluster.consumers.counts.redelivered == 1
    assert cluster.consumers.counts.acknowledged == [0, 1, 1, 1, 0]


async def test_old_records_come_from_the_store(cluster: ShareCluster) -> None:
    written = b"".join(cluster.fetch_cluster.produce(0, value_bytes=100) for _ in range(5))
    cluster.fetch_cluster.log(0).tail_start_offset = 5
    response = await Member(cluster).fetch()
    assert bytes(partitions_of(response)[0].records) == written and acquired_of(response) == [(0, 4, 1)]


async def test_records_below_the_log_start_are_skipped(cluster: ShareCluster) -> None:
    for _ in range(3):
        cluster.fetch_cluster.produce(0)
    member = Member(cluster)
    await member.fetch(max_records=1, share_acquire_mode=RECORD_LIMIT)
    await cluster.fetch_cluster.log(0).delete_records(2)
    assert acquired_of(await member.fetch([])) == [(2, 2, 1)]
    assert cluster.states.acquires[-1].partitions[0].log_start_offset == 2


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
async def test_aborted_records_are_archived_where_committed_ones_are_read(cluster: ShareCluster, level: str) -> None:
    cluster.configure(share_isolation_level=level)
    log = cluster.fetch_cluster.log(0)
    records = [Record(None, b"v", (), 1_700_000_000_000)]
    aborted = encode_batch(records, producer_id=5, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    marker = encode_end_transaction_marker(
        EndTransactionMarker(ControlType.ABORT, 0), producer_id=5, producer_epoch=0, timestamp_ms=1
    )
    for data in (aborted, marker, encode_batch(records), aborted):
        log.append(produced_batch(TopicPartition(TOPIC_ID, 0), memoryview(data), lambda _: None))
    log.aborted = [(AbortedTransaction(5, 0), 1)]
    log.last_stable_offset_bound = 3
    response = await Member(cluster).fetch()
    assert acquired_of(response) == ([(2, 2, 1)] if level == "read_committed" else [(0, 0, 1), (2, 3, 1)])
    done = {offset for offset, one in cluster.states.of("g", TOPIC_ID, 0).records.items() if one.state == "done"}
    assert done == ({0, 1} if level == "read_committed" else {1})


@pytest.mark.parametrize(
    ("strategy", "expected"), [("earliest", 0), ("latest", 2), ("by_duration:PT1S", 2), ("by_duration:P99999D", 0)]
)
async def test_where_a_share_partition_begins(cluster: ShareCluster, strategy: str, expected: int) -> None:
    cluster.configure(share_auto_offset_reset=strategy)
    cluster.fetch_cluster.produce(0)
    cluster.fetch_cluster.produce(0)
    cluster.services.clock = type("Clock", (), {"now_ms": lambda _: 1_700_000_100_000})()
    await Member(cluster).fetch()
    assert cluster.states.of("g", TOPIC_ID, 0).start_offset == expected
    assert cluster.fetch_cluster.log(0).proof_count == 1


# --- waiting


async def test_a_fetch_waits_for_records(cluster: ShareCluster) -> None:
    member = Member(cluster)
    waiting = asyncio.ensure_future(member.fetch(max_wait_ms=NEVER_MS))
    await turns()
    assert not waiting.done()
    cluster.fetch_cluster.produce(0)
    assert acquired_of(await waiting) == [(0, 0, 1)]


async def test_a_fetch_waits_for_min_bytes_without_locking_anything(cluster: ShareCluster) -> None:
    member = Member(cluster)
    cluster.fetch_cluster.produce(0, value_bytes=10)
    waiting = asyncio.ensure_future(member.fetch(max_wait_ms=NEVER_MS, min_bytes=1_000))
    await turns()
    assert not waiting.done() and not cluster.states.of("g", TOPIC_ID, 0).locked
    cluster.fetch_cluster.produce(0, value_bytes=1_000)
    assert acquired_of(await waiting) == [(0, 1, 1)]


async def test_a_fetch_that_has_all_its_records_waits_for_no_more_bytes(cluster: ShareCluster) -> None:
    for _ in range(3):
        cluster.fetch_cluster.produce(0, value_bytes=10)
    response = await Member(cluster).fetch(max_wait_ms=NEVER_MS, min_bytes=100_000, max_records=2)
    assert acquired_of(response) == [(0, 1, 1)]


async def test_a_fetch_waits_for_what_others_release(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0)
    first, second = Member(cluster, "a"), Member(cluster, "b")
    await first.fetch()
    waiting = asyncio.ensure_future(second.fetch(max_wait_ms=NEVER_MS))
    await turns()
    assert not waiting.done()
    await first.acknowledge({0: [(0, 0, [2])]})
    assert acquired_of(await waiting) == [(0, 0, 2)]


async def test_a_full_window_opens_again(cluster: ShareCluster) -> None:
    cluster.states.locks_max = 1
    cluster.fetch_cluster.produce(0)
    cluster.fetch_cluster.produce(0)
    member = Member(cluster)
    assert acquired_of(await member.fetch()) == [(0, 0, 1)]
    waiting = asyncio.ensure_future(member.fetch([], max_wait_ms=NEVER_MS))
    await turns()
    assert not waiting.done()
    other = Member(cluster, "m")
    other.epoch = member.epoch
    await other.acknowledge({0: [(0, 0, [1])]})
    assert acquired_of(await waiting) == [(1, 1, 1)]


async def test_many_waiting_members_ask_a_shard_once(cluster: ShareCluster) -> None:
    members = [Member(cluster, f"m{number}") for number in range(20)]
    waiting = [asyncio.ensure_future(one.fetch(max_wait_ms=NEVER_MS)) for one in members]
    await turns(60)
    assert len(cluster.states.waits) <= 2
    before = len(cluster.states.waits)
    cluster.fetch_cluster.fetcher.stop_waiting()
    await asyncio.gather(*waiting)
    assert len(cluster.states.waits) == before


async def test_a_poll_that_nothing_comes_to_asks_no_shard(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0)
    member = Member(cluster)
    assert acquired_of(await member.fetch([0, 1])) == [(0, 0, 1)]
    asked = len(cluster.states.acquires)
    waiting = asyncio.ensure_future(member.fetch([], max_wait_ms=NEVER_MS))
    await turns()
    cluster.consumers.shared.deadlines.expire_all()  # wakes it, before its time is over
    await turns()
    assert not waiting.done()
    cluster.fetch_cluster.fetcher.stop_waiting()
    assert partitions_of(await waiting) == {}
    assert len(cluster.states.acquires) == asked


@pytest.mark.parametrize("partition_count", [2, IDLE_PARTITIONS_MAX + 1])
async def test_a_poll_of_many_partitions_wakes_for_one(partition_count: int) -> None:
    cluster = ShareCluster(partition_count)
    try:
        member = Member(cluster)
        await member.fetch(range(partition_count))
        waiting = asyncio.ensure_future(member.fetch([], max_wait_ms=NEVER_MS))
        await turns()
        assert not waiting.done()
        cluster.fetch_cluster.produce(partition_count - 1)
        assert acquired_of(await waiting, partition_count - 1) == [(0, 0, 1)]
    finally:
        await cluster.close()


async def test_records_below_min_bytes_are_given_when_the_time_is_over(cluster: ShareCluster) -> None:
    member = Member(cluster)
    await member.fetch()
    cluster.fetch_cluster.produce(0)
    waiting = asyncio.ensure_future(member.fetch([], max_wait_ms=NEVER_MS, min_bytes=1_000_000))
    await turns()
    assert not waiting.done()
    cluster.fetch_cluster.fetcher.stop_waiting()
    assert acquired_of(await waiting) == [(0, 0, 1)]


async def test_an_idle_partition_is_started_and_awaited(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0)
    cluster.fetch_cluster.partitions.idle.add(TopicPartition(TOPIC_ID, 0))
    response = await Member(cluster).fetch(max_wait_ms=NEVER_MS)
    assert acquired_of(response) == [(0, 0, 1)]


async def test_the_state_is_asked_for_while_the_log_starts(cluster: ShareCluster) -> None:
    """Both may have to be started, at different nodes: one behind the other doubles the wait after the end of a node."""
    cluster.fetch_cluster.produce(0)
    await Member(cluster).fetch()
    cluster.fetch_cluster.produce(0)
    cluster.consumers.positions.forget(("g", TopicPartition(TOPIC_ID, 0)))
    partitions, started = cluster.fetch_cluster.partitions, asyncio.Event()
    partitions.idle.add(TopicPartition(TOPIC_ID, 0))
    start = partitions.leader_of

    async def slowly(topic_partition: TopicPartition) -> Any:
        await started.wait()
        return await start(topic_partition)

    partitions.leader_of = slowly  # type: ignore[method-assign]
    before = len(cluster.states.acquires)
    waiting = asyncio.ensure_future(Member(cluster, "other").fetch(max_wait_ms=NEVER_MS))
    await turns()
    (question,) = (part for one in cluster.states.acquires[before:] for part in one.partitions)
    assert (question.log_start_offset, list(question.batches)) == (-1, [])
    started.set()
    assert acquired_of(await waiting) == [(1, 1, 1)]
    assert len(cluster.states.acquires) == before + 2


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
async def test_a_new_share_partition_begins_once_its_log_is_started(kind: str) -> None:
    cluster = ShareCluster(bmq_share_subscription_type=kind)
    cluster.fetch_cluster.produce(0)
    cluster.fetch_cluster.partitions.idle.add(TopicPartition(TOPIC_ID, 0))
    assert acquired_of(await Member(cluster).fetch(max_wait_ms=NEVER_MS)) == [(0, 0, 1)]
    await cluster.close()


async def test_a_server_that_stops_answers_what_waits(cluster: ShareCluster) -> None:
    waiting = asyncio.ensure_future(Member(cluster).fetch(max_wait_ms=NEVER_MS))
    await turns()
    cluster.fetch_cluster.fetcher.stop_waiting()
    assert acquired_of(await waiting) == []


# --- refusals


@pytest.mark.parametrize("member_id", ["", "x" * 37])
async def test_member_ids_have_1_to_36_characters(cluster: ShareCluster, member_id: str) -> None:
    with pytest.raises(KafkaError) as raised:
        await Member(cluster, member_id).fetch()
    assert code_of(raised) == ErrorCode.INVALID_REQUEST


async def test_wrong_sessions_are_refused_as_a_whole(cluster: ShareCluster) -> None:
    member = Member(cluster)
    with pytest.raises(KafkaError) as raised:
        await member.fetch(epoch=3)
    assert code_of(raised) == ErrorCode.SHARE_SESSION_NOT_FOUND
    await member.fetch(epoch=0)
    for refused, code in (
        (member.fetch(epoch=5), ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (member.acknowledge({}, epoch=0), ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (member.fetch(acks={0: [(0, 0, [1])]}, epoch=0), ErrorCode.INVALID_REQUEST),
    ):
        with pytest.raises(KafkaError) as raised:
            await refused
        assert code_of(raised) == code


async def test_too_many_sessions_are_refused_after_the_wait(cluster: ShareCluster) -> None:
    cluster.consumers.sessions.sessions_max = 1
    await Member(cluster, "a").fetch()
    waiting = asyncio.ensure_future(Member(cluster, "b").fetch(max_wait_ms=NEVER_MS))
    await turns()
    assert not waiting.done()
    cluster.fetch_cluster.fetcher.stop_waiting()
    with pytest.raises(KafkaError) as raised:
        await waiting
    assert code_of(raised) == ErrorCode.SHARE_SESSION_LIMIT_REACHED


@pytest.mark.parametrize("field", ["max_bytes", "min_bytes", "max_records", "max_wait_ms"])
async def test_a_renewal_fetches_nothing(cluster: ShareCluster, field: str) -> None:
    cluster.fetch_cluster.produce(0)
    cluster.fetch_cluster.produce(0)
    member = Member(cluster)
    await member.fetch(max_records=1, share_acquire_mode=RECORD_LIMIT)
    nothing: dict[str, Any] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0, "is_renew_ack": True}
    with pytest.raises(KafkaError) as raised:
        await member.fetch([], epoch=1, **{**nothing, field: 1})
    assert code_of(raised) == ErrorCode.INVALID_REQUEST
    response = await member.fetch([], {0: [(0, 0, [4])]}, epoch=1, **nothing)
    assert partitions_of(response)[0].acknowledge_error_code == 0 and acquired_of(response) == []
    assert cluster.states.of("g", TOPIC_ID, 0).locked == [0]


async def test_unknown_topics_and_partitions_are_errors_of_their_own(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0)
    member = Member(cluster)
    found = partitions_of(await member.fetch([0, 9]))
    assert (found[0].error_code, found[9].error_code) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    other = Member(cluster, "other")
    response = await other.fetch([0], topic_id=UUID(int=77), max_wait_ms=NEVER_MS)
    assert partitions_of(response)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_acknowledgements_have_errors_of_their_own(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0, count=2)
    member = Member(cluster)
    await member.fetch([0, 1])
    acks = {0: [(0, 1, [1])], 1: [(1, 0, [1])], 7: [(0, 0, [1])]}
    found = partitions_of(await member.acknowledge(acks))
    assert {number: one.error_code for number, one in found.items()} == {
        0: 0,
        1: ErrorCode.INVALID_REQUEST,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    again = partitions_of(await member.fetch([], {0: [(0, 1, [1])]}))
    assert (again[0].error_code, again[0].acknowledge_error_code) == (0, ErrorCode.INVALID_RECORD_STATE)
    assert again[0].records is not None and bytes(again[0].records) == b""


@pytest.mark.parametrize("is_here", [False, True])
async def test_acknowledgements_reach_the_shard_before_the_acquisition_of_the_same_fetch(
    cluster: ShareCluster, is_here: bool
) -> None:
    cluster.states.is_here = is_here
    cluster.fetch_cluster.produce(0, count=2)
    cluster.fetch_cluster.produce(0, count=2)
    member = Member(cluster)
    assert acquired_of(await member.fetch(max_records=1)) == [(0, 1, 1)]
    del cluster.states.order[:]
    assert acquired_of(await member.fetch([], {0: [(0, 1, [2])]})) == [(2, 3, 1)]
    assert cluster.states.order[:2] == ["acknowledge", "acquire"]


class CountingThrottle:
    """`driven`: coroutines whose time counts."""

    fetch_bytes_max = 1_000_000

    def __init__(self) -> None:
        self.driven = 0

    async def drive(self, work: Any) -> Any:
        self.driven += 1
        return await work

    def fetch_wait_ms(self) -> int:
        return 0

    def fetched(self, size_bytes: int) -> int:
        return 0


async def test_the_time_of_a_fetch_beside_an_acknowledgement_counts(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0, count=2)
    member = Member(cluster)
    member.throttle = throttle = CountingThrottle()
    await member.fetch(max_records=1)
    assert throttle.driven == 0, "its own task is driven by the connection"
    await member.fetch([], {0: [(0, 1, [1])]})
    assert throttle.driven == 1


async def test_a_group_may_forbid_renewals(cluster: ShareCluster) -> None:
    cluster.configure(share_renew_acknowledge_enable="false")
    cluster.fetch_cluster.produce(0)
    member = Member(cluster)
    await member.fetch()
    found = partitions_of(await member.acknowledge({0: [(0, 0, [4])]}, is_renew_ack=True))
    assert found[0].error_code == ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize(
    ("code", "fetched", "acknowledged"),
    [
        (ErrorCode.NOT_COORDINATOR, 0, ErrorCode.KAFKA_STORAGE_ERROR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0, ErrorCode.KAFKA_STORAGE_ERROR),
        (ErrorCode.FENCED_STATE_EPOCH, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.INVALID_REQUEST, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
async def test_clients_see_only_codes_that_they_know(
    cluster: ShareCluster, code: ErrorCode, fetched: int, acknowledged: ErrorCode
) -> None:
    cluster.fetch_cluster.produce(0)
    member = Member(cluster)
    cluster.states.refuse_with = code
    assert partitions_of(await member.fetch())[0].error_code == fetched
    found = partitions_of(await member.acknowledge({0: [(0, 0, [1])]}))[0]
    assert found.error_code == acknowledged
    assert found.current_leader.leader_epoch == (3 if acknowledged == ErrorCode.NOT_LEADER_OR_FOLLOWER else 0)


async def test_a_shard_that_comes_back_is_asked_again(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0)
    cluster.states.refuse_with = ErrorCode.NOT_COORDINATOR
    waiting = asyncio.ensure_future(Member(cluster).fetch(max_wait_ms=NEVER_MS))
    await turns()
    asked = len(cluster.states.acquires)
    await turns(200)
    assert len(cluster.states.acquires) == asked  # not in a loop
    cluster.states.refuse_with = ErrorCode.NONE
    assert acquired_of(await waiting) == [(0, 0, 1)]


# --- ends


async def test_a_lost_connection_releases_what_its_member_holds(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0)
    member = Member(cluster)
    await member.fetch()
    member.lose()
    await turns()
    assert not cluster.states.of("g", TOPIC_ID, 0).locked and len(cluster.consumers.sessions) == 0
    assert acquired_of(await Member(cluster, "other").fetch()) == [(0, 0, 2)]


async def test_what_is_acquired_for_a_lost_connection_is_released(cluster: ShareCluster) -> None:
    member = Member(cluster)
    await member.fetch()
    cluster.states.gate.clear()
    cluster.fetch_cluster.produce(0)
    fetching = asyncio.ensure_future(member.fetch([], max_wait_ms=NEVER_MS))
    await turns()
    fetching.cancel()  # as the connection does
    member.lose()
    await turns()
    cluster.states.gate.set()
    await turns()
    records = cluster.states.of("g", TOPIC_ID, 0).records
    assert records[0].count == 1 and not cluster.states.of("g", TOPIC_ID, 0).locked


async def test_an_old_connection_leaves_the_new_session_alone(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0)
    old, new = Member(cluster), Member(cluster)
    await old.fetch()
    await new.fetch()
    old.lose()
    await turns()
    assert cluster.states.of("g", TOPIC_ID, 0).locked == [0]
    assert partitions_of(await new.acknowledge({0: [(0, 0, [1])]}))[0].error_code == 0
    new.lose()
    await turns()
    assert len(cluster.consumers.sessions) == 0


async def test_a_connection_is_watched_once(cluster: ShareCluster) -> None:
    member = Member(cluster)
    for _ in range(3):
        await member.fetch(epoch=0)
        assert len(set(member.peer.lost)) == 1
        await member.fetch(epoch=-1)


@pytest.mark.parametrize("with_fetch", [True, False])
async def test_the_last_request_acknowledges_and_releases(cluster: ShareCluster, with_fetch: bool) -> None:
    cluster.fetch_cluster.produce(0, count=3)
    member = Member(cluster)
    await member.fetch()
    cluster.fetch_cluster.produce(0)
    acks = {0: [(0, 0, [1])]}
    if with_fetch:
        response = await member.fetch([], acks, epoch=-1, max_wait_ms=NEVER_MS)
        assert partitions_of(response)[0].acknowledge_error_code == 0 and acquired_of(response) == []
    else:
        assert partitions_of(await member.acknowledge(acks, epoch=-1))[0].error_code == 0
    await turns()
    state = cluster.states.of("g", TOPIC_ID, 0)
    assert not state.locked and state.records[0].state == "done" and state.records[1].count == 1
    with pytest.raises(KafkaError) as raised:
        await member.fetch(epoch=2)
    assert code_of(raised) == ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_a_member_that_lost_a_partition_waits_and_hears_no_error(cluster: ShareCluster) -> None:
    """Its group has one active member; the shard is asked again after a second."""
    cluster.fetch_cluster.produce(0)
    member = Member(cluster)
    await member.fetch(max_records=0)
    cluster.states.refuse_with = ErrorCode.FENCED_MEMBER_EPOCH
    assert partitions_of(await member.fetch()) == {}
    asked = len(cluster.states.acquires) + 1
    waiting = asyncio.ensure_future(member.fetch(max_wait_ms=NEVER_MS))
    while len(cluster.states.acquires) < asked:
        await turns()
    cluster.fetch_cluster.produce(0)
    await turns()
    assert len(cluster.states.acquires) == asked and not waiting.done()
    cluster.states.refuse_with = ErrorCode.NONE
    assert acquired_of(await asyncio.wait_for(waiting, 60)) == [(0, 1, 1)]
