"""A remote log over real links, listeners and brokers: it answers as the owner would, or says that it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import patch

import pytest

from bmq.log.partition_log import AppendResult
from bmq.log.segment_reader import read_whole_batches
from bmq.log.transactions import TransactionClaim
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.codec import encode_response
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, MalformedMessage
from bmq.protocol.hot_produce import parse_produce
from bmq.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from bmq.protocol.record_batch import BatchHeader
from bmq.routing.remote_log import RemoteLog, RemoteLogContext
from bmq.routing.settings import RouterSettings
from tests.support.produced_batch import produced_batch
from tests.unit.routing.owner_nodes import TOPIC_ID, Cluster, append, batch_of, key, records_of, until

pytestmark = pytest.mark.unit

MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER


def on_cluster(**options: Any) -> Callable[[Callable[[Cluster], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """The test runs in the proxy's process of a cluster made for it."""

    def decorate(test: Callable[[Cluster], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        def run() -> None:
            cluster = Cluster(**options)
            cluster.run(lambda: test(cluster))

        run.__name__ = test.__name__
        run.__doc__ = test.__doc__
        return run

    return decorate


async def opened(cluster: Cluster, *, owner: int = 2, leader_epoch: int = 1) -> RemoteLog:
    """Beside the router, which has its own."""
    log = RemoteLog(key(), owner, leader_epoch, cluster.router.context)
    await log.open()
    return log


async def refusal(work: Coroutine[Any, Any, Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await work
    return caught.value.code


@on_cluster()
async def test_opening_fills_the_remote_state(cluster: Cluster) -> None:
    owned = await cluster.nodes[2].log()
    for values in ((b"a", b"b"), (b"c",), (b"d", b"e")):
        await append(owned, *values)
    await owned.delete_records(2)
    log = await opened(cluster)
    assert (log.log_start_offset, log.high_watermark, log.last_stable_offset, log.log_end_offset) == (2, 5, 5, 5)
    assert [log.epoch_end_offset(epoch) for epoch in (0, 1, 2)] == [
        owned.epoch_end_offset(epoch) for epoch in (0, 1, 2)
    ]
    assert log.aborted_transactions(2, 5) == []
    assert log.aborted_transactions(0, 5) is None  # what was deleted is forgotten


@on_cluster()
async def test_appends_are_answered_as_the_owner_answers_them(cluster: Cluster) -> None:
    log = await opened(cluster)
    records = batch_of(b"a", b"b")
    answers: list[AppendResult] = []
    log.append(produced_batch(key(), records, answers.append))
    assert BatchHeader.parse(records).leader_epoch == 1
    for number, is_acks_all in enumerate((True, False)):
        result = await append(log, b"c", is_acks_all=is_acks_all)
        assert result == AppendResult(ErrorCode.NONE, 2 + number, -1, 0)
    assert answers == [AppendResult(ErrorCode.NONE, 0, -1, 0)]
    assert await records_of(await cluster.nodes[2].log()) == [b"a", b"b", b"c", b"c"]
    damaged = batch_of(b"x")
    damaged[-1] ^= 1
    log.append(produced_batch(key(), damaged, answers.append))
    await until(lambda: len(answers) == 2)
    assert answers[1].error_code is ErrorCode.CORRUPT_MESSAGE and answers[1].message
    assert log.append_count == 0 and cluster.router.context.budget.bytes_used == 0


@on_cluster()
async def test_the_records_at_fault_are_named_as_by_the_owner(cluster: Cluster) -> None:
    log = await opened(cluster)
    owned = await cluster.nodes[2].log()
    answers: list[AppendResult] = []
    for one in (log, owned):
        late = encode_batch([Record(b"k", b"v"), Record(b"k", b"v", timestamp_ms=2**62)])
        one.append(produced_batch(one.topic_partition, memoryview(late), answers.append))
    await until(lambda: len(answers) == 2)
    assert answers[0] == answers[1]
    assert answers[0].error_code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answers[0].record_errors] == [1]


@on_cluster()
async def test_many_appends_arrive_in_order(cluster: Cluster) -> None:
    log = await opened(cluster)
    values = [b"%d" % number for number in range(500)]
    answers = await asyncio.gather(*(append(log, value) for value in values))
    assert [answer.base_offset for answer in answers] == list(range(500))
    assert await records_of(await cluster.nodes[2].log()) == values


@on_cluster()
async def test_a_lost_link_leaves_the_outcome_unknown(cluster: Cluster) -> None:
    log = await opened(cluster)
    detached: list[RemoteLog] = []
    cluster.router.context.detached = detached.append
    answers = [append(log, b"a"), append(log, b"b")]
    await asyncio.sleep(0)
    cluster.network.reset_between("node-2")
    for answer in answers:
        assert (await answer).error_code is ErrorCode.NETWORK_EXCEPTION
    assert detached == [log] and log.link is None and not log.is_closed
    assert (await append(log, b"c")).error_code is ErrorCode.NETWORK_EXCEPTION
    await log.open()
    assert (await append(log, b"d")).error_code is ErrorCode.NONE


@on_cluster()
async def test_closing_fails_what_is_under_way_at_once_and_late_answers_are_ignored(cluster: Cluster) -> None:
    log = await opened(cluster)
    answer = append(log, b"a")
    proof = asyncio.ensure_future(log.prove_ownership())
    await asyncio.sleep(0)
    now_s = cluster.loop.time()
    log.close()
    assert (await answer).error_code is MOVED
    assert await refusal(proof) is MOVED  # type: ignore[arg-type]
    assert cluster.loop.time() == now_s
    assert (await append(log, b"b")).error_code is MOVED
    assert cluster.router.context.budget.bytes_used == 0
    owned = await cluster.nodes[2].log()
    await until(lambda: owned.high_watermark == 1)  # it was written, and the answer comes to nobody
    await asyncio.sleep(1)


@on_cluster()
async def test_a_retired_log_takes_the_old_owners_last_answers_and_nothing_new(cluster: Cluster) -> None:
    log = await opened(cluster)
    answer = append(log, b"a")
    log.retire()
    assert (await append(log, b"b")).error_code is MOVED
    assert (await answer).error_code is ErrorCode.NONE
    assert log.append_count == 0


@on_cluster()
async def test_who_waits_for_a_closed_log_is_woken_and_nothing_is_followed(cluster: Cluster) -> None:
    log = await opened(cluster)
    log.close()
    woken: list[int] = []
    log.on_advance(lambda: woken.append(1))
    log.on_advance(lambda: woken.append(2))()
    assert not woken
    await asyncio.sleep(0)
    assert woken == [1] and cluster.router.tails.followed_count == 0


@on_cluster()
async def test_an_owner_that_is_none_detaches_the_log(cluster: Cluster) -> None:
    log = await opened(cluster)
    woken: list[int] = []
    log.on_advance(lambda: woken.append(1))
    cluster.nodes[2].manager.drop(key())
    assert (await append(log, b"a")).error_code is MOVED
    assert log.link is None and woken == [1]
    assert await refusal(log.open()) is MOVED


@pytest.mark.parametrize("believed", [0, 2])
@pytest.mark.parametrize(
    "ask",
    [
        RemoteLog.prove_ownership,
        lambda log: log.locate(0),
        lambda log: log.max_timestamp(),
        lambda log: log.offset_for_timestamp(0, 1),
        lambda log: log.delete_records(0),
    ],
)
def test_questions_at_another_epoch_are_refused(believed: int, ask: Callable[[RemoteLog], Any]) -> None:
    cluster = Cluster()

    async def main() -> None:
        await append(await cluster.nodes[2].log(), b"a")
        log = RemoteLog(key(), 2, believed, cluster.router.context)
        assert await refusal(ask(log)) is MOVED

    cluster.run(main)


@on_cluster()
async def test_appends_at_another_epoch_are_refused(cluster: Cluster) -> None:
    log = await opened(cluster)
    cluster.assign(0, 2, 2)
    owned = await cluster.nodes[2].log()
    assert (await append(log, b"a")).error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert owned.log_end_offset == 0 and log.link is None


@on_cluster()
async def test_proving_ownership_brings_the_remote_state_up_to_date(cluster: Cluster) -> None:
    log = await opened(cluster)
    owned = await cluster.nodes[2].log()
    woken: list[int] = []
    log.on_advance(lambda: woken.append(log.high_watermark))
    cluster.router.tails.forget(log)
    await append(owned, b"a", b"b")
    assert log.high_watermark == 0
    await log.prove_ownership()
    assert log.high_watermark == log.log_end_offset == 2 and woken == [2]


@on_cluster()
async def test_an_owner_that_lost_its_directory_proves_nothing(cluster: Cluster) -> None:
    log = await opened(cluster)
    cluster.assign(0, 3, 2)
    await cluster.nodes[3].log()
    assert await refusal(log.prove_ownership()) is MOVED
    assert log.link is None


@pytest.mark.parametrize("end", [RemoteLog.retire, RemoteLog.close])
def test_a_proof_that_comes_in_the_turn_in_which_the_log_ends_proves_nothing(end: Callable[[RemoteLog], None]) -> None:
    @on_cluster()
    async def run(cluster: Cluster) -> None:
        log = await opened(cluster)
        await append(await cluster.nodes[2].log(), b"a", b"b")
        links = cluster.router.context.links
        call = links.call

        async def call_and_end(*args: Any, **options: Any) -> Any:
            answer = await call(*args, **options)
            end(log)
            return answer

        with patch.object(links, "call", call_and_end):
            assert await refusal(log.prove_ownership()) is MOVED
        assert log.high_watermark == 0

    run()


@on_cluster()
async def test_what_is_not_in_memory_is_located_by_the_owner_and_read_from_the_store(cluster: Cluster) -> None:
    owned = await cluster.nodes[2].log()
    for value in (b"a", b"b", b"c"):
        await append(owned, value)
    log = await opened(cluster)
    assert log.tail_read(0, 1000, 3) is None
    location = await log.locate(1)
    assert location == await owned.locate(1)
    store = cluster.store.client("reader")
    found = await read_whole_batches(store, location, 1, 100, 3)
    assert found is not None and decode_records(found[1])[0].value == b"b"
    assert await refusal(log.locate(3)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.link is not None


@on_cluster()
async def test_timestamps_are_looked_up_by_the_owner(cluster: Cluster) -> None:
    log = await opened(cluster)
    assert await log.max_timestamp() is None
    await append(log, b"a", b"b")
    now_ms = cluster.clock.now_ms()
    owned = await cluster.nodes[2].log()
    assert await log.max_timestamp() == await owned.max_timestamp() is not None
    assert await log.offset_for_timestamp(now_ms, 2) == (0, now_ms)
    assert await log.offset_for_timestamp(now_ms + 1, 2) is None
    assert await log.offset_for_timestamp(now_ms, 0) is None


@on_cluster()
async def test_records_are_deleted_by_the_owner(cluster: Cluster) -> None:
    log = await opened(cluster)
    for value in (b"a", b"b", b"c"):
        await append(log, value)
    assert await log.delete_records(2) == 2 and log.log_start_offset == 2
    assert await log.delete_records(-1) == 3
    assert await refusal(log.delete_records(9)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await cluster.nodes[2].log()).log_start_offset == 3


@on_cluster()
async def test_state_machines_do_not_run_on_it(cluster: Cluster) -> None:
    log = await opened(cluster)
    assert (await append(log, b"a", is_internal=True)).error_code is MOVED


@on_cluster(config=RouterSettings(call_timeout_ms=1_000))
async def test_an_owner_that_hangs_is_not_waited_for_for_ever(cluster: Cluster) -> None:
    log = await opened(cluster)
    cluster.network.cut("node-1", "node-2")
    assert await refusal(log.prove_ownership()) is MOVED
    assert 1 <= cluster.loop.time() < 1.5
    cluster.network.heal()


@on_cluster(config=RouterSettings(forward_bytes_max=1_000))
async def test_what_is_under_way_to_owners_is_bounded(cluster: Cluster) -> None:
    log = await opened(cluster)
    cluster.network.cut("node-1", "node-2")
    answers = [append(log, bytes(400)) for _ in range(5)]
    assert [answer.done() for answer in answers] == [False] * 4 + [True]
    assert answers[4].result().error_code is ErrorCode.REQUEST_TIMED_OUT
    cluster.network.heal()
    assert {(await answer).error_code for answer in answers[:4]} == {ErrorCode.NONE}
    assert (await append(log, b"a")).error_code is ErrorCode.NONE


class StubLink:
    """Keeps what is sent."""

    is_open = True

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def version(self, api_key: ApiKey) -> int:
        return 13

    def send_frame(self, api_key: ApiKey, body: Any, answered: Any) -> None:
        self.sent.append((body, answered))


def stubbed(log: RemoteLog) -> StubLink:
    link = StubLink()
    log._link = link  # type: ignore[assignment]
    return link


@on_cluster()
async def test_the_records_are_sent_as_they_lie(cluster: Cluster) -> None:
    log = await opened(cluster)
    link = stubbed(log)
    records = batch_of(b"a")
    log.append(produced_batch(log.topic_partition, records, lambda _: None))
    ((body, _),) = link.sent
    assert body[1] is records
    log.close()


@pytest.mark.parametrize(("is_acks_all", "acks"), [(True, -1), (False, 1)])
def test_the_owner_is_told_what_the_client_waits_for(is_acks_all: bool, acks: int) -> None:
    """min.insync.replicas concerns acks=all alone, and the owner is who knows how many replicas there are."""

    @on_cluster()
    async def check(cluster: Cluster) -> None:
        log = await opened(cluster)
        link = stubbed(log)
        for claim in (None, TransactionClaim("id", may_add=True)):
            log.append(produced_batch(key(), batch_of(b"a"), lambda _: None, is_acks_all=is_acks_all, claim=claim))
        assert [parse_produce(bytearray(b"".join(body)), 0, 13).acks for body, _ in link.sent] == [acks, acks]
        log.close()

    check()


def produced(*codes: int) -> bytearray:
    partitions = [PartitionProduceResponse(index=0, error_code=code, base_offset=7) for code in codes]
    topic = TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=partitions)
    return bytearray(encode_response(ApiKey.PRODUCE, 13, 1, ProduceResponse(responses=[topic])))


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (produced(ErrorCode.UNKNOWN_TOPIC_ID), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (produced(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        (produced(9_999), ErrorCode.UNKNOWN_SERVER_ERROR),
        (produced(0), ErrorCode.NONE),
        (produced(0, 0), None),
        (produced(), None),
        (bytearray(b"\0\0\0\1"), None),
    ],
)
def test_answers_that_are_unusual_or_none(frame: bytearray, expected: ErrorCode | None) -> None:
    cluster = Cluster()

    async def main() -> None:
        log = await opened(cluster)
        link = stubbed(log)
        answers: list[AppendResult] = []
        log.append(produced_batch(key(), batch_of(b"a"), answers.append))
        answered = link.sent[0][1]
        if expected is None:
            with pytest.raises(MalformedMessage):  # which closes the link
                answered(frame)
            assert answers[0].error_code is ErrorCode.NETWORK_EXCEPTION and log.link is None
        else:
            answered(frame)
            assert answers[0].error_code is expected and answers[0].base_offset == 7
        assert len(answers) == 1
        log.close()
        assert len(answers) == 1

    cluster.run(main)


@on_cluster()
async def test_the_context_is_shared(cluster: Cluster) -> None:
    shared: RemoteLogContext = cluster.router.context
    logs = [RemoteLog(key(number), 2, 1, shared) for number in range(2)]
    links = [stubbed(log) for log in logs]
    for log in logs:
        log.append(produced_batch(key(), batch_of(b"a"), lambda _: None))
    assert all(link.sent for link in links)
    assert shared.budget.bytes_used == 2 * len(batch_of(b"a"))
    for log in logs:
        log.close()
    assert shared.budget.bytes_used == 0
