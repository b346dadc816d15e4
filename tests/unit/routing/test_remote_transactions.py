"""Transactions in partitions that other nodes own: what a request claims arrives there, and readers here see their ends."""

from __future__ import annotations

import asyncio
from unittest.mock import patch

import pytest

from bmq.broker.tail_cache import TailCache
from bmq.internode_server import tail_feed
from bmq.log.partition_log import AbortedTransaction, AppendResult, PartitionLog
from bmq.log.transactions import ActiveProducer, TransactionClaim, TransactionMarker
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.internal_messages import TailPart
from bmq.protocol.record_batch import rewrite
from bmq.routing.remote_log import RemoteLog
from bmq.routing.remote_state import RemoteState
from tests.fakes.transaction_verifier import FakeVerifier
from tests.support.produced_batch import produced_batch
from tests.unit.routing.owner_nodes import Cluster, append, batch_of, key, until
from tests.unit.routing.test_remote_log import on_cluster, opened, refusal

pytestmark = pytest.mark.unit

CLAIMS = [
    TransactionClaim("tx"),
    TransactionClaim("tx", is_abortable_told=True),
    TransactionClaim("tx", may_add=True, is_abortable_told=True),
]
P = 9


def use_verifier(cluster: Cluster) -> FakeVerifier:
    verifier = FakeVerifier()
    cluster.nodes[2].manager.use_transactions(verifier)
    return verifier


def send(
    log: PartitionLog, sequence: int = 0, *, producer_id: int = P, claim: TransactionClaim = CLAIMS[2]
) -> asyncio.Future[AppendResult]:
    records = batch_of(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)
    answer: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
    log.append(produced_batch(log.topic_partition, records, answer.set_result, claim=claim))
    return answer


def marker(producer_id: int = P, *, is_commit: bool = False) -> TransactionMarker:
    return TransactionMarker(producer_id, 0, 4, is_commit)


@on_cluster()
async def test_what_a_request_claims_arrives_at_the_owner(cluster: Cluster) -> None:
    verifier = use_verifier(cluster)
    log = await opened(cluster)
    for number, claim in enumerate(CLAIMS):
        answer = await send(log, producer_id=number, claim=claim)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, number)
    assert [(question.claim, question.producer_id) for question in verifier.asked] == [
        (claim, number) for number, claim in enumerate(CLAIMS)
    ]
    assert (await append(log, b"plain")).base_offset == 3


@on_cluster()
async def test_the_owners_refusal_comes_back(cluster: Cluster) -> None:
    verifier = use_verifier(cluster)
    log = await opened(cluster)
    verifier.codes.extend([ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE])
    assert (await send(log, claim=CLAIMS[0])).error_code is ErrorCode.INVALID_TXN_STATE
    assert (await send(log, claim=CLAIMS[1])).error_code is ErrorCode.TRANSACTION_ABORTABLE
    assert log.link is not None


@on_cluster()
async def test_a_follower_knows_what_was_aborted_and_asks_nobody(cluster: Cluster) -> None:
    use_verifier(cluster)
    owned = await cluster.nodes[2].log()
    await send(owned)
    await owned.write_marker(marker())
    log = await opened(cluster)
    assert (log.high_watermark, log.last_stable_offset) == (2, 2)
    assert log.aborted_transactions(0, 2) == [AbortedTransaction(P, 0)]
    log.on_advance(lambda: None)
    await until(lambda: log.is_followed)
    await send(owned, 1)
    await append(owned, b"plain")
    await until(lambda: log.high_watermark == 4)
    assert log.last_stable_offset == 2
    woken: list[int] = []
    log.on_advance(lambda: woken.append(log.last_stable_offset))
    await owned.write_marker(marker())
    await until(lambda: woken)
    assert woken == [5]
    assert log.aborted_transactions(2, 5) == [AbortedTransaction(P, 2)]
    assert log.aborted_transactions(0, 5) == [AbortedTransaction(P, 0), AbortedTransaction(P, 2)]
    assert log.aborted_transactions(4, 6) is None  # nobody said yet that nothing is open there
    assert cluster.nodes[2].requests(ApiKey.FIND_ABORTED) == 0


@on_cluster()
async def test_what_is_too_much_to_be_told_is_asked_for(cluster: Cluster) -> None:
    use_verifier(cluster)
    owned = await cluster.nodes[2].log()
    for sequence in range(5):
        await send(owned, sequence)
        await owned.write_marker(marker())
    with patch.object(tail_feed, "ABORTED_MAX", 2):
        log = await opened(cluster)
    assert log.aborted_transactions(6, 10) == [AbortedTransaction(P, 6), AbortedTransaction(P, 8)]
    assert log.aborted_transactions(5, 10) is None
    expected = [AbortedTransaction(P, first) for first in (2, 4)]
    assert await log.find_aborted_transactions(2, 6) == expected
    assert cluster.nodes[2].requests(ApiKey.FIND_ABORTED) == 1
    assert await refusal(log.find_aborted_transactions(2, 11)) is ErrorCode.OFFSET_NOT_AVAILABLE
    log.close()
    assert await refusal(log.find_aborted_transactions(2, 6)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@on_cluster()
async def test_a_new_owner_tells_of_the_same_transactions(cluster: Cluster) -> None:
    use_verifier(cluster)
    log = await cluster.router.leader_of(key())
    await send(log)
    await cluster.hand_over(0, 3)
    log = await cluster.router.leader_of(key())
    assert isinstance(log, RemoteLog) and (log.owner, log.last_stable_offset, log.high_watermark) == (3, 0, 1)
    await (await cluster.nodes[3].log()).write_marker(marker())
    await log.prove_ownership()
    assert log.last_stable_offset == 2 and log.aborted_transactions(0, 2) == [AbortedTransaction(P, 0)]


@on_cluster()
async def test_producers_are_listed_by_the_owner(cluster: Cluster) -> None:
    use_verifier(cluster)
    log = await opened(cluster)
    assert await log.active_producers() == []
    await append(log, b"plain")
    await send(log)
    assert await log.active_producers() == [ActiveProducer(P, 0, 0, cluster.clock.now_ms(), -1, 1)]
    await (await cluster.nodes[2].log()).write_marker(marker())
    assert await log.active_producers() == [ActiveProducer(P, 0, 0, cluster.clock.now_ms(), 4, -1)]
    cluster.delete_topic()
    elsewhere = RemoteLog(key(), 2, 1, cluster.router.context)
    assert await refusal(elsewhere.active_producers()) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@on_cluster()
async def test_a_log_that_has_moved_does_not_say_that_nothing_was_aborted(cluster: Cluster) -> None:
    """A read of the store may have begun before: its reader asks for what it has to leave out when it is through."""
    use_verifier(cluster)
    log = await opened(cluster)
    assert (await send(log)).error_code is ErrorCode.NONE
    await (await cluster.nodes[2].log()).write_marker(marker())
    await log.prove_ownership()
    end_offset = log.last_stable_offset
    assert log.aborted_transactions(0, end_offset) == [AbortedTransaction(P, 0)]
    log.retire()
    assert log.aborted_transactions(0, end_offset) is None
    assert await refusal(log.find_aborted_transactions(0, end_offset)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_batches_are_dropped_when_it_is_not_known_any_more_what_was_aborted_in_them() -> None:
    """The owner has to be asked for that, and its answer goes with its files, which may have been compacted since."""
    state = RemoteState(TailCache(10_000).partition())
    batch = encode_batch([Record(None, b"v")])
    for offset in range(4):
        rewrite(batch, 0, offset, 1)
        state.take(TailPart(log_start_offset=0, high_watermark=offset + 1, last_stable_offset=offset + 1,
                            log_end_offset=offset + 1, records=bytes(batch)))  # fmt: skip
    assert state.tail_read(0, 10_000, 4)
    state.learn_aborted(b"", 6)  # those with a marker below were too many to be told
    assert not state.tail_read(3, 10_000, 4)


@on_cluster()
async def test_the_owner_does_not_say_what_was_aborted_below_the_start_of_the_log(cluster: Cluster) -> None:
    """It has forgotten that, and whoever asks has read what is deleted by now."""
    use_verifier(cluster)
    owned = await cluster.nodes[2].log()
    await send(owned)
    await owned.write_marker(marker())
    log = await opened(cluster)
    await owned.delete_records(2)
    assert await refusal(log.find_aborted_transactions(0, 2)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert await log.find_aborted_transactions(2, 2) == []
    await log.prove_ownership()
    assert log.aborted_transactions(0, 2) is None


@on_cluster()
async def test_behind_a_compaction_a_follower_asks_the_owner_what_was_aborted(cluster: Cluster) -> None:
    """Compaction drops a marker when nothing of its transaction is left: who still told a reader of that transaction
    would hide what its producer committed since."""
    use_verifier(cluster)
    owned = await cluster.nodes[2].log()
    await send(owned)
    await owned.write_marker(marker())
    log = await opened(cluster)
    assert log.aborted_transactions(0, 2) == [AbortedTransaction(P, 0)]
    files = owned.inspect().files
    assert files is not None
    files.compacted_offset = 2  # as after a swap, which also forgets the transaction
    owned.aborted.remove(1)
    await log.locate(0)
    assert log.aborted_transactions(0, 2) is None
    assert await log.find_aborted_transactions(0, 2) == []
    assert log.aborted_transactions(2, 2) == []


@on_cluster()
async def test_a_compaction_is_heard_of_where_nobody_asks_for_a_position(cluster: Cluster) -> None:
    """By the tail stream alone: nothing moves, and who reads at the end asks for no file."""
    use_verifier(cluster)
    owned = await cluster.nodes[2].log()
    log = await opened(cluster)
    forget = log.on_advance(lambda: None)  # somebody waits at the end, so the log is followed
    await until(lambda: log.is_followed)
    await send(owned)
    await owned.write_marker(marker())
    await until(lambda: log.tail_read(0, 10_000, 2))
    assert log.compacted_offset == -1
    assert log.aborted_transactions(0, 2) == [AbortedTransaction(P, 0)]
    files = owned.inspect().files
    assert files is not None
    files.compacted_offset = 2  # as after a swap, which also forgets the transaction
    owned.aborted.remove(1)
    owned.inspect().changes.compacted_below(2)
    await until(lambda: log.compacted_offset == 2)
    assert not log.tail_read(0, 10_000, 2)
    assert log.aborted_transactions(0, 2) is None
    assert cluster.nodes[2].requests(ApiKey.LOCATE_OFFSET) == 0
    forget()
