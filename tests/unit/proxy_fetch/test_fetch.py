"""Fetch from bytes to bytes: waiting, limits, errors, sessions and budgets, over partition logs in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.aio.loop_turns import LoopTurns
from bmq.log.partition_log import AbortedTransaction, TopicPartition
from bmq.log.store import FileMissing
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_request_in_turns, decode_response, encode_request, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import TooManyElements
from bmq.protocol.messages.fetch_request import FetchRequest, FetchTopic, ForgottenTopic
from bmq.protocol.request_context import RequestContext
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.fetch_wake_ups import GATHER_S_PER_PARTITION
from bmq.proxy.fetcher import ELEMENTS_MAX
from tests.unit.proxy_fetch.cluster import (
    LEADER_EPOCH,
    NODE,
    OTHER_ID,
    TOPIC_ID,
    VERSIONS,
    FetchCluster,
    image_of,
    offsets_in,
    results,
    topic,
    want,
)

pytestmark = pytest.mark.unit

NEVER_MS = 60_000
Make = Callable[..., FetchCluster]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    made: list[FetchCluster] = []

    def one(*args: object, **named: object) -> FetchCluster:
        made.append(FetchCluster(*args, **named))  # type: ignore[arg-type]
        return made[-1]

    yield one
    for cluster in made:
        await cluster.fetcher.close()


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# --- reading


@pytest.mark.parametrize("version", VERSIONS)
async def test_records_come_back_in_every_version(make: Make, version: int) -> None:
    cluster = make()
    written = cluster.produce(0) + cluster.produce(0, count=3)
    answer = cluster.send(want({0: 0, 1: 0}), version)
    assert answer.done(), "what is in memory is answered at once"
    found = results(answer.result())
    assert found[0].records == written and found[0].high_watermark == 4 and found[0].error_code == 0
    assert not found[1].records and found[1].high_watermark == 0
    part = answer.result().responses[0]
    assert (part.topic_id == TOPIC_ID) if version >= 13 else (part.topic == "t")


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_unknown_isolation_level_is_kafkas_unknown_error(make: Make, version: int) -> None:
    cluster = make()
    cluster.produce(0)
    answer = cluster.send(want({0: 0, 1: 0}, isolation_level=9, session=(7, 3)), version)
    assert answer.done()
    response = answer.result()
    if version >= 7:
        assert (response.error_code, response.session_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, 7)
    found = [one for topic in response.responses for one in topic.partitions]
    # Versions with ids of topics say it once, above them.
    assert [one.partition_index for one in found] == ([] if version >= 13 else [0, 1])
    assert {one.error_code for one in found} <= {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert all(not one.records and one.aborted_transactions is not None for one in found)


async def test_a_fetch_of_too_many_partitions_is_refused_before_it_is_decoded(make: Make) -> None:
    cluster = make()
    asked = FetchRequest(topics=[FetchTopic(topic_id=TOPIC_ID)] * (ELEMENTS_MAX + 1))
    frame = bytearray(encode_request(ApiKey.FETCH, 13, 7, "test", asked))
    header = parse_request_header(frame)
    with pytest.raises(TooManyElements):
        next(decode_request_in_turns(header, frame, ELEMENTS_MAX))
    replies: list[Any] = []
    context = RequestContext(13, "test", "127.0.0.1", turns=LoopTurns())
    await cluster.fetcher.fetch_in_turns(frame, header, context, cluster.services, replies.extend)  # type: ignore[arg-type]
    assert decode_response(ApiKey.FETCH, 13, b"".join(replies))[1].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_is_not_in_memory_comes_from_the_store(make: Make, version: int) -> None:
    cluster = make()
    written = b"".join(cluster.produce(0, value_bytes=100) for _ in range(5))
    tail = b"".join(cluster.produce(1) for _ in range(2))
    cluster.log(0).tail_start_offset = 5
    found = results(await cluster.fetch(want({0: 0, 1: 0}), version))
    assert (found[0].records, found[1].records) == (written, tail)
    assert cluster.fetcher.shared.counts.catch_up_bytes == len(written)
    assert cluster.fetcher.shared.counts.tail_bytes == len(tail)


@given(data=st.data())
def test_limits_are_kept_and_a_fetch_always_moves_on(data: st.DataObject) -> None:
    """Whole batches in order from the offset on; only the first partition with records may pass the limits (KIP-74)."""
    sizes = data.draw(st.lists(st.lists(st.integers(0, 200), max_size=6), min_size=1, max_size=3))
    max_bytes = data.draw(st.integers(0, 1500))
    partition_max_bytes = data.draw(st.integers(0, 800))
    in_store = data.draw(st.sets(st.integers(0, 2)))

    async def run() -> None:
        cluster = FetchCluster(len(sizes))
        for partition, values in enumerate(sizes):
            for value_bytes in values:
                cluster.produce(partition, value_bytes=value_bytes)
            if partition in in_store:
                cluster.log(partition).tail_start_offset = 10**6
        offsets = {p: data.draw(st.integers(0, len(values))) for p, values in enumerate(sizes)}
        found = results(
            await cluster.fetch(want(offsets, max_bytes=max_bytes, partition_max_bytes=partition_max_bytes))
        )
        total = passed = 0
        for partition, one in found.items():
            batches = [b.data for b in cluster.log(partition).batches[offsets[partition] :]]
            records = one.records or b""
            count = len(offsets_in(records))
            assert one.error_code == 0 and records == b"".join(batches[:count])
            if len(records) > min(partition_max_bytes, max(max_bytes - total, 0)):
                passed += 1
                assert count == 1 and total == 0
            total += len(records)
        assert passed <= 1
        if any(offset < len(sizes[partition]) for partition, offset in offsets.items()):
            assert total > 0
        await cluster.fetcher.close()

    asyncio.run(run())


async def test_a_session_shares_the_bytes_fairly(make: Make) -> None:
    cluster = make(3)
    for partition in range(3):
        for _ in range(4):
            cluster.produce(partition)
    offsets = {0: 0, 1: 0, 2: 0}
    first = await cluster.fetch(want(offsets, max_bytes=1, session=(0, 0)))
    session_id, served = first.session_id, [p for p, one in results(first).items() if one.records]
    for epoch in range(1, 6):
        response = await cluster.fetch(
            want({served[-1]: offsets[served[-1]] + 1}, max_bytes=1, session=(session_id, epoch))
        )
        offsets[served[-1]] += 1
        served += [p for p, one in results(response).items() if one.records]
    # The full fetch has its own order; from then on the partitions take turns.
    assert served == [0, 0, 1, 2, 0, 1]


async def test_read_committed_ends_at_the_last_stable_offset(make: Make) -> None:
    cluster = make()
    batches = [cluster.produce(0) for _ in range(6)]
    log = cluster.log(0)
    log.last_stable_offset_bound = 4
    log.aborted = [(AbortedTransaction(9, 1), 3)]
    for tail_start_offset in (0, 100):
        log.tail_start_offset = tail_start_offset
        one = results(await cluster.fetch(want({0: 2}, isolation_level=1)))[0]
        assert one.records == b"".join(batches[2:4])
        assert (one.high_watermark, one.last_stable_offset) == (6, 4)
        assert [(a.producer_id, a.first_offset) for a in one.aborted_transactions] == [(9, 1)]
        one = results(await cluster.fetch(want({0: 2}, isolation_level=0)))[0]
        assert one.records == b"".join(batches[2:]) and one.aborted_transactions is None
    one = results(await cluster.fetch(want({0: 4}, isolation_level=1)))[0]
    assert not one.records and one.error_code == 0 and list(one.aborted_transactions) == []


async def test_nothing_past_the_high_watermark_is_told(make: Make) -> None:
    cluster = make()
    first = cluster.produce(0)
    cluster.log(0).is_acknowledging = False
    cluster.produce(0)
    assert results(await cluster.fetch(want({0: 0})))[0].records == first
    one = results(await cluster.fetch(want({0: 2})))[0]
    assert one.error_code == 0 and not one.records


# --- waiting


async def test_waits_for_min_bytes_and_wakes_for_it(make: Make) -> None:
    cluster = make()
    size = len(cluster.produce(2))
    answers = [cluster.send(want({0: 0, 1: 0}, max_wait_ms=NEVER_MS, min_bytes=2 * size), 18) for _ in range(20)]
    await turns()
    assert not any(answer.done() for answer in answers)
    assert cluster.log(0).waiting_count == cluster.log(1).waiting_count == 1
    cluster.produce(0)
    await turns()
    assert not any(answer.done() for answer in answers)
    assert cluster.log(0).waiting_count == 1
    cluster.produce(1)
    await turns()
    for answer in answers:
        assert [len(one.records) for one in results(answer.result()).values()] == [size, size]
    assert len(cluster.fetcher.shared.deadlines) == 0


async def test_a_fetch_of_hundreds_of_partitions_gathers_before_it_answers(make: Make) -> None:
    cluster = make(200)
    wanted = want(dict.fromkeys(range(200), 0), max_wait_ms=NEVER_MS)
    answer = cluster.send(wanted, 18)
    begun_s = cluster.fetcher.shared.loop.time()
    await turns()
    written = {0: cluster.produce(0)}
    await turns()
    assert not answer.done()
    written[7] = cluster.produce(7)
    found = {number: one.records for number, one in results(await answer).items() if one.records}
    assert found == written
    assert cluster.fetcher.shared.loop.time() - begun_s >= 200 * GATHER_S_PER_PARTITION
    few = cluster.send(want({0: 2, 1: 0}, max_wait_ms=NEVER_MS), 18)
    await turns()
    cluster.produce(1)
    await turns()
    assert few.done(), "a few partitions cost nothing"


async def test_answers_with_less_when_the_time_is_over(make: Make) -> None:
    cluster = make()
    written = cluster.produce(0)
    begun_s = cluster.fetcher.shared.loop.time()
    response = await cluster.fetch(want({0: 0, 1: 0}, max_wait_ms=30, min_bytes=10**6))
    assert cluster.fetcher.shared.loop.time() >= begun_s + 0.030
    assert results(response)[0].records == written
    assert cluster.replies == 1 and len(cluster.fetcher.shared.deadlines) == 0


async def test_no_more_than_so_many_wait(make: Make) -> None:
    cluster = make(1, FetchSettings(fetch_waiting_max=5))
    answers = [cluster.send(want({0: 0}, max_wait_ms=NEVER_MS), 18) for _ in range(8)]
    await turns()
    assert [answer.done() for answer in answers] == [False] * 5 + [True] * 3


async def test_an_absurd_wait_is_cut(make: Make) -> None:
    cluster = make(1, FetchSettings(fetch_wait_ms_max=20))
    assert results(await cluster.fetch(want({0: 0}, max_wait_ms=2**31 - 1)))[0].error_code == 0


# --- partitions that are not ready


async def test_idle_partitions_are_started_once_for_all(make: Make) -> None:
    cluster = make()
    written = cluster.produce(0)
    started: list[TopicPartition] = []
    key = TopicPartition(TOPIC_ID, 0)
    cluster.partitions.idle.add(key)
    leader_of = cluster.partitions.leader_of
    gate = asyncio.Event()

    async def slowly(topic_partition: TopicPartition) -> object:
        started.append(topic_partition)
        await gate.wait()
        return await leader_of(topic_partition)

    cluster.partitions.leader_of = slowly  # type: ignore[method-assign, assignment]
    answers = [cluster.send(want({0: 0, 1: 0}), 18) for _ in range(5)]
    await turns()
    assert not any(answer.done() for answer in answers)
    gate.set()
    await turns()
    for answer in answers:
        assert results(answer.result())[0].records == written
    assert started == [key]


async def test_a_partition_that_does_not_start_in_time_holds_up_the_others_shortly(make: Make) -> None:
    cluster = make(2, FetchSettings(fetch_start_wait_ms=10))
    written = cluster.produce(1)
    cluster.partitions.idle.add(TopicPartition(TOPIC_ID, 0))
    never: Callable[[TopicPartition], Awaitable[object]] = lambda _: asyncio.Event().wait()  # noqa: E731
    cluster.partitions.leader_of = never  # type: ignore[method-assign, assignment]
    found = results(await cluster.fetch(want({0: 0, 1: 0}, max_wait_ms=NEVER_MS)))
    assert found[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and found[1].records == written


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR])
async def test_why_it_did_not_start_is_told(make: Make, code: ErrorCode) -> None:
    cluster = make()
    cluster.partitions.errors[TopicPartition(TOPIC_ID, 1)] = code
    response = await cluster.fetch(want({0: 0, 1: 0}, max_wait_ms=NEVER_MS))
    assert {p: one.error_code for p, one in results(response).items()} == {0: 0, 1: code}
    is_hinted = code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = results(response)[1].current_leader
    assert (leader.leader_id, leader.leader_epoch) == ((NODE.node_id, LEADER_EPOCH) if is_hinted else (-1, -1))
    assert [(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints] == (
        [(1, "127.0.0.1", 9092, "r1")] if is_hinted else []
    )
    assert cluster.services.stats.errors[1, code] == 1


async def test_a_started_partition_that_is_never_ready_is_an_error_and_no_loop(make: Make) -> None:
    cluster = make()
    key = TopicPartition(TOPIC_ID, 0)
    cluster.partitions.idle.add(key)
    starts = 0

    async def elsewhere(_: TopicPartition) -> None:
        nonlocal starts
        starts += 1

    cluster.partitions.leader_of = elsewhere  # type: ignore[method-assign, assignment]
    response = await cluster.fetch(want({0: 0}, max_wait_ms=NEVER_MS))
    assert results(response)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and starts == 1


# --- errors


@pytest.mark.parametrize("tail_start_offset", [0, 100])
async def test_out_of_range_needs_the_owners_word(make: Make, tail_start_offset: int) -> None:
    cluster = make()
    for _ in range(5):
        cluster.produce(0)
    log = cluster.log(0)
    log.tail_start_offset = tail_start_offset
    await log.delete_records(2)
    for offset in (1, 6):
        one = results(await cluster.fetch(want({0: offset}, max_wait_ms=NEVER_MS)))[0]
        assert (one.error_code, one.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    log.is_owner = False
    one = results(await cluster.fetch(want({0: 6}, max_wait_ms=NEVER_MS)))[0]
    assert one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert results(await cluster.fetch(want({0: 5})))[0].error_code == 0


async def test_out_of_range_by_then_in_range_is_read(make: Make) -> None:
    cluster = make()
    cluster.produce(0)
    log = cluster.log(0)

    async def prove() -> None:
        cluster.produce(0)
        cluster.produce(0)

    log.prove_ownership = prove  # type: ignore[method-assign]
    one = results(await cluster.fetch(want({0: 2}, max_wait_ms=NEVER_MS)))[0]
    assert one.error_code == 0 and offsets_in(one.records) == [2]


async def test_leader_epochs_are_checked(make: Make) -> None:
    cluster = make()
    cluster.produce(0)
    expected = {
        -1: ErrorCode.NONE,
        LEADER_EPOCH: ErrorCode.NONE,
        LEADER_EPOCH - 1: ErrorCode.FENCED_LEADER_EPOCH,
        LEADER_EPOCH + 1: ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
    for epoch, code in expected.items():
        assert results(await cluster.fetch(want({0: 0}, epoch=epoch)))[0].error_code == code


async def test_a_diverging_epoch_is_told(make: Make) -> None:
    cluster = make()
    cluster.produce(0)
    request = want({0: 1}, max_wait_ms=NEVER_MS)
    request.topics[0].partitions[0].last_fetched_epoch = LEADER_EPOCH
    log = cluster.log(0)
    log.epoch_end_offset = lambda leader_epoch: (LEADER_EPOCH - 2, 0)  # type: ignore[method-assign]
    one = results(await cluster.fetch(request))[0]
    assert (one.diverging_epoch.epoch, one.diverging_epoch.end_offset) == (LEADER_EPOCH - 2, 0) and not one.records
    log.epoch_end_offset = lambda leader_epoch: (-1, -1)  # type: ignore[method-assign]
    assert results(await cluster.fetch(request))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_what_diverges_is_proved_before_it_is_told(make: Make) -> None:
    """A remote state that is behind, or an owner that was replaced, knows less of the log than the reader has seen."""
    cluster = make()
    for _ in range(3):
        cluster.produce(0)
    log = cluster.log(0)
    request = want({0: 2}, max_wait_ms=NEVER_MS)
    request.topics[0].partitions[0].last_fetched_epoch = LEADER_EPOCH
    ends, proofs = iter([(LEADER_EPOCH, 1), (LEADER_EPOCH, 3), (LEADER_EPOCH, 3)]), 0

    async def prove() -> None:
        nonlocal proofs
        proofs += 1

    log.epoch_end_offset = lambda leader_epoch: next(ends)  # type: ignore[method-assign]
    log.prove_ownership = prove  # type: ignore[method-assign]
    one = results(await cluster.fetch(request))[0]
    assert one.error_code == 0 and offsets_in(one.records) == [2] and proofs == 1
    log.epoch_end_offset = lambda leader_epoch: (-1, -1)  # type: ignore[method-assign]
    del log.prove_ownership
    log.is_owner = False
    assert results(await cluster.fetch(request))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", VERSIONS)
async def test_unknown_topics_and_partitions(make: Make, version: int) -> None:
    cluster = make(2)
    code = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = await cluster.fetch(want({0: 0}, topic_id=OTHER_ID, name="other", max_wait_ms=NEVER_MS), version)
    assert (results(unknown)[0].error_code, results(unknown)[0].aborted_transactions) == (code, ())
    for partition in (2, -1):
        one = results(await cluster.fetch(want({partition: 0}, max_wait_ms=NEVER_MS), version))[partition]
        assert one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [12, 15])
async def test_replicas_are_refused_and_debuggers_served(make: Make, version: int) -> None:
    cluster = make()
    written = cluster.produce(0)
    one = results(await cluster.fetch(want({0: 0}, replica_id=2), version))[0]
    assert one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and not one.records
    assert results(await cluster.fetch(want({0: 0}, replica_id=-2), version))[0].records == written


async def test_a_failing_store_is_a_partitions_error(make: Make) -> None:
    cluster = make()
    for partition in (0, 1):
        cluster.produce(partition)
        cluster.log(partition).tail_start_offset = 100
    read = cluster.services.store.read

    async def half_gone(path: str, *, file_id: int, position: int, length_bytes: int) -> object:
        if path == cluster.log(0).path:
            raise FileMissing(path)
        return await read(path, file_id=file_id, position=position, length_bytes=length_bytes)

    cluster.services.store.read = half_gone  # type: ignore[method-assign, assignment]
    found = results(await cluster.fetch(want({0: 0, 1: 0}, max_wait_ms=NEVER_MS)))
    assert found[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR and offsets_in(found[1].records) == [0]


async def test_a_fault_of_ours_answers_all_the_same(make: Make) -> None:
    cluster = make()
    answer = cluster.send(want({0: 0}, max_wait_ms=NEVER_MS), 18)
    log = cluster.log(0)
    log.tail_read = lambda *_: 1 / 0  # type: ignore[assignment,method-assign]
    cluster.produce(0)
    await turns()
    assert answer.result().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(cluster.fetcher.shared.deadlines) == 0


# --- sessions


@pytest.mark.parametrize("version", [7, 12, 13, 18])
async def test_an_incremental_fetch_hears_what_changed(make: Make, version: int) -> None:
    cluster = make(3)
    first = await cluster.fetch(want({0: 0, 1: 0, 2: 0}, session=(0, 0)), version)
    session_id = first.session_id
    assert session_id > 0 and set(results(first)) == {0, 1, 2}
    written = cluster.produce(1)
    second = await cluster.fetch(want({}, session=(session_id, 1)), version)
    assert {p: one.records for p, one in results(second).items()} == {1: written}
    nothing = await cluster.fetch(want({1: 1}, session=(session_id, 2)), version)
    assert results(nothing) == {} and nothing.session_id == session_id
    request = want({}, session=(session_id, 3))
    request.forgotten_topics_data = [ForgottenTopic(topic_id=TOPIC_ID, topic="t", partitions=[1])]
    cluster.produce(1)
    assert results(await cluster.fetch(request, version)) == {}
    wrong = await cluster.fetch(want({}, session=(session_id, 3)), version)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH and not wrong.responses
    gone = await cluster.fetch(want({}, session=(session_id + 1, 3)), version)
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    ended = await cluster.fetch(want({}, session=(session_id, -1)), version)
    assert (ended.error_code, ended.session_id, len(cluster.fetcher.shared.sessions)) == (0, 0, 0)


async def test_a_session_follows_a_topic_that_was_made_anew(make: Make) -> None:
    cluster = make(1)
    cluster.produce(0)
    session_id = (await cluster.fetch(want({0: 0}, session=(0, 0)), 11)).session_id
    cluster.controller.image = image_of()
    gone = await cluster.fetch(want({}, session=(session_id, 1)), 11)
    assert results(gone)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.partitions.add(OTHER_ID, 0)
    cluster.controller.image = image_of(topic("t", OTHER_ID, 1))
    anew = results(await cluster.fetch(want({}, session=(session_id, 2)), 11))[0]
    assert (anew.error_code, anew.high_watermark) == (0, 0)


async def test_topics_are_told_apart(make: Make) -> None:
    cluster = make(1)
    cluster.partitions.add(OTHER_ID, 0)
    cluster.controller.image = image_of(topic("t", TOPIC_ID, 1), topic("u", OTHER_ID, 1))
    request = FetchRequest(
        topics=[*want({0: 0}).topics, *want({0: 0}, topic_id=OTHER_ID, name="u").topics], session_epoch=-1
    )
    for version in (11, 16):
        response = await cluster.fetch(request, version)
        names: list[str | UUID | None] = [p.topic_id if version >= 13 else p.topic for p in response.responses]
        assert names == ([TOPIC_ID, OTHER_ID] if version >= 13 else ["t", "u"])


# --- budget


async def test_unsent_responses_are_counted_and_beyond_the_budget_carry_one_batch(make: Make) -> None:
    cluster = make(2, FetchSettings(fetch_response_bytes_max=1000))
    for partition in (0, 1):
        for _ in range(10):
            cluster.produce(partition, value_bytes=100)
        cluster.log(partition).tail_start_offset = 10**6
    size = len(cluster.log(0).batches[0].data)
    held: list[object] = []
    budget = cluster.fetcher.shared.budget
    served = []
    context = RequestContext(18, "c", "127.0.0.1")
    for _ in range(4):
        frame = bytearray(encode_request(ApiKey.FETCH, 18, 1, "c", want({0: 0, 1: 0})))
        before = budget.bytes_used
        answered = asyncio.Event()

        def reply(buffers: object, answered: asyncio.Event = answered) -> None:
            held.append(buffers)
            answered.set()

        cluster.fetcher.fetch(frame, parse_request_header(frame), context, cluster.services, reply)  # type: ignore[arg-type]
        await answered.wait()
        await turns()
        served.append(budget.bytes_used - before)
    assert served[0] <= 1000 and served[0] > 2 * size
    assert served[2:] == [size, size], "one batch, so that everybody moves on"
    held.pop()
    assert budget.bytes_used == sum(served[:3])
    held.clear()
    answered.clear()
    assert budget.bytes_used == 0


async def test_a_stopping_server_lets_nobody_wait(make: Make) -> None:
    cluster = make()
    written = cluster.produce(0)
    request = want({0: 0, 1: 0}, max_wait_ms=NEVER_MS, min_bytes=10**6)
    answers = [cluster.send(request, 18) for _ in range(3)]
    cluster.fetcher.stop_waiting()
    answers.append(cluster.send(request, 18))
    assert [results(answer.result())[0].records for answer in answers] == [written] * 4
    cluster.partitions.idle.add(TopicPartition(TOPIC_ID, 1))
    one = results(cluster.send(request, 18).result())[1]
    assert one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await turns()
    assert cluster.replies == 5 and len(cluster.fetcher.shared.deadlines) == 0


async def test_closing_answers_nobody_and_leaves_nothing(make: Make) -> None:
    cluster = make()
    cluster.send(want({0: 0}, max_wait_ms=NEVER_MS), 18)
    await turns()
    await cluster.fetcher.close()
    assert cluster.log(0).waiting_count == 0 and len(cluster.fetcher.shared.deadlines) == 0 and cluster.replies == 0


async def test_many_consumers_hear_every_record_once(make: Make) -> None:
    """Random interleaving of producers and incremental consumers: each reads each partition's log exactly."""
    cluster = make(4)
    random = Random(5)

    async def consume(number: int) -> dict[int, bytes]:
        offsets, read = dict.fromkeys(range(4), 0), dict.fromkeys(range(4), b"")
        session, changed = (0, 0), dict(offsets)
        while any(offset < 40 for offset in offsets.values()):
            response = await cluster.fetch(
                want(changed, max_wait_ms=NEVER_MS, max_bytes=900, session=session), (7, 13, 18)[number % 3]
            )
            assert response.error_code == 0
            session = (response.session_id, session[1] + 1)
            changed = {}
            for partition, one in results(response).items():
                assert one.error_code == 0
                for offset in offsets_in(one.records):
                    assert offset == offsets[partition]
                    offsets[partition] = changed[partition] = offset + 1
                read[partition] += one.records or b""
        return read

    async def produce() -> None:
        left = dict.fromkeys(range(4), 40)
        while any(left.values()):
            partition = random.choice([p for p, count in left.items() if count])
            cluster.produce(partition, value_bytes=random.randrange(200))
            log = cluster.log(partition)
            if random.random() < 0.3:
                log.tail_start_offset = random.randint(log.tail_start_offset, log.log_end_offset)
            left[partition] -= 1
            await turns(random.randrange(4))

    done = await asyncio.gather(*(consume(number) for number in range(6)), produce())
    for read in done[:-1]:
        assert read == {p: b"".join(b.data for b in cluster.log(p).batches) for p in range(4)}
