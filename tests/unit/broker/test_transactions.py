"""Transactions at a partition's owner: verification, markers and what is visible, over the fake store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from bmq.broker.runtime import PartitionRuntime
from bmq.log.partition_log import AppendResult
from bmq.log.transactions import ActiveProducer, TransactionClaim, TransactionMarker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.fakes.clock import FakeClock
from tests.fakes.transaction_verifier import FakeVerifier
from tests.unit.broker.world import CONFIG, Owner, World, append, batch_of, produce, read_all, read_from_store, virtual

pytestmark = pytest.mark.unit

OLD = TransactionClaim("tx")
TOLD = TransactionClaim("tx", is_abortable_told=True)
ADDING = TransactionClaim("tx", may_add=True, is_abortable_told=True)
NONE = ErrorCode.NONE
P = 9


def batch(sequence: int = 0, value: bytes = b"v", *, producer_id: int = P, epoch: int = 0) -> bytearray:
    return batch_of(value, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)


def send(
    log: PartitionRuntime, sequence: int = 0, *, claim: TransactionClaim | None = ADDING, **options: Any
) -> asyncio.Future[AppendResult]:
    return append(log, batch(sequence, b"%d" % sequence, **options), claim=claim)


def marker(
    epoch: int = 0, *, producer_id: int = P, is_commit: bool = True, version: int = 0, coordinator_epoch: int = 0
) -> TransactionMarker:
    return TransactionMarker(producer_id, epoch, coordinator_epoch, is_commit, version)


def aborted(log: PartitionRuntime, start: int, end: int) -> list[tuple[int, int]]:
    return [(one.producer_id, one.first_offset) for one in log.aborted_transactions(start, end)]


async def refusal(work: Coroutine[Any, Any, Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await work
    return caught.value.code


Test = Callable[[World, Owner, PartitionRuntime, FakeVerifier], Coroutine[Any, Any, None]]


def on_owner(**settings: Any) -> Callable[[Test], Callable[[], None]]:
    """The test runs on an owner whose coordinators' answers it chooses."""

    def decorate(test: Test) -> Callable[[], None]:
        def run() -> None:
            async def main() -> None:
                world = World(**settings)
                owner = world.owner()
                verifier = FakeVerifier()
                owner.manager.use_transactions(verifier)
                await test(world, owner, await owner.log(), verifier)
                await owner.manager.close()
                assert owner.manager.budget.bytes_used == 0

            virtual(main)

        run.__name__ = test.__name__
        run.__doc__ = test.__doc__
        return run

    return decorate


# --- who is asked about


@on_owner()
async def test_one_question_for_a_transaction(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    answers = [send(log, number) for number in range(5)]
    assert [(await answer).base_offset for answer in answers] == list(range(5))
    assert (await send(log, 5)).base_offset == 5
    (question,) = verifier.asked
    assert (question.claim, question.producer_id, question.producer_epoch) == (ADDING, P, 0)
    assert (question.topic, question.partitions) == ("topic", (0,))
    await log.write_marker(marker(1, version=2))
    assert (await send(log, 0, epoch=1)).base_offset == 7
    assert len(verifier.asked) == 2


@on_owner()
async def test_nobody_else_is_asked_about(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    await produce(log, b"plain")
    idempotent = batch_of(b"i", producer_id=4, producer_epoch=0, base_sequence=0)
    assert (await append(log, idempotent, claim=ADDING)).error_code is NONE
    assert verifier.asked == []


@on_owner()
async def test_without_an_id_or_a_coordinator_transactions_are_refused(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    assert (await send(log, claim=None)).error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    owner.manager.context.transactions = None
    assert (await send(log)).error_code is ErrorCode.INVALID_TXN_STATE
    assert log.log_end_offset == 0


@on_owner()
async def test_an_unknown_producer_starts_at_0_where_epochs_are_bumped(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    assert (await send(log, 5)).error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert verifier.asked == []
    assert (await send(log, 5, claim=TOLD)).error_code is NONE
    assert (await send(log, 6)).error_code is NONE


# --- order


@on_owner()
async def test_batches_wait_in_order_behind_the_question(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    verifier.is_holding = True
    answers = [send(log, number) for number in range(4)]
    others = [produce(log, b"other"), asyncio.ensure_future(send(log, 0, producer_id=10))]
    assert await others[0] == 0
    assert not any(answer.done() for answer in answers) and log.log_end_offset == 1
    assert owner.manager.budget.bytes_used > 0 and len(verifier.asked) == 2
    verifier.asked[0].answer.set_result(NONE)
    assert [(await answer).base_offset for answer in answers] == [1, 2, 3, 4]
    verifier.asked[1].answer.set_result(NONE)
    result: Any = await others[1]
    assert result.base_offset == 5
    assert [value for _, value in await read_all(log)] == [b"other", b"0", b"1", b"2", b"3", b"0"]


@on_owner(append_bytes_max=200)
async def test_what_waits_counts_as_on_its_way(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    verifier.is_holding = True
    answers = [send(log, number) for number in range(20)]
    refused = [answer for answer in answers if answer.done()]
    assert 0 < len(refused) < 20
    assert {answer.result().error_code for answer in refused} == {ErrorCode.REQUEST_TIMED_OUT}
    await asyncio.sleep(0)
    verifier.asked[0].answer.set_result(NONE)
    taken = [await answer for answer in answers[: 20 - len(refused)]]
    assert {answer.error_code for answer in taken} == {NONE}


@on_owner()
async def test_a_batch_sent_again_while_it_waits_is_written_once(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    verifier.is_holding = True
    first, again, second = send(log, 0), send(log, 0), send(log, 1)
    await asyncio.sleep(0)
    verifier.asked[0].answer.set_result(NONE)
    assert [(await one).base_offset for one in (first, again, second)] == [0, 0, 1]
    assert log.log_end_offset == 2


@on_owner()
async def test_a_newer_epoch_waits_behind_and_is_asked_about_by_itself(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    verifier.is_holding = True
    old, new, newest = send(log, 0, claim=OLD), send(log, 0, epoch=1, claim=OLD), send(log, 1, epoch=1, claim=OLD)
    await asyncio.sleep(0)
    verifier.asked[0].answer.set_result(ErrorCode.TRANSACTION_ABORTABLE)
    assert (await old).error_code is ErrorCode.INVALID_TXN_STATE
    await asyncio.sleep(0)
    assert [question.producer_epoch for question in verifier.asked] == [0, 1]
    verifier.asked[1].answer.set_result(NONE)
    assert [(await one).base_offset for one in (new, newest)] == [0, 1]


# --- refusals


@pytest.mark.parametrize(
    ("code", "claim", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, OLD, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, TOLD, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.NOT_COORDINATOR, ADDING, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, TOLD, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.PRODUCER_FENCED, ADDING, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ADDING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_everything_that_waited_hears_the_refusal(code: ErrorCode, claim: TransactionClaim, told: ErrorCode) -> None:
    @on_owner()
    async def run(world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier) -> None:
        verifier.codes.append(code)
        answers = [send(log, number, claim=claim) for number in range(3)]
        assert {(await answer).error_code for answer in answers} == {told}
        assert len(verifier.asked) == 1 and log.log_end_offset == 0
        # Sent again, in order, it is asked about anew.
        assert (await send(log, 0, claim=claim)).base_offset == 0

    run()


@on_owner()
async def test_a_batch_behind_a_refused_one_does_not_begin_the_transaction(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    verifier.codes.append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert (await send(log, 0, claim=TOLD)).error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await send(log, 1, claim=TOLD)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(verifier.asked) == 1
    assert [(await send(log, number, claim=TOLD)).base_offset for number in (0, 1)] == [0, 1]


@on_owner()
async def test_an_ending_transaction_is_waited_for_a_little(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    loop = asyncio.get_running_loop()
    verifier.codes.extend([ErrorCode.CONCURRENT_TRANSACTIONS] * 3)
    begun_s = loop.time()
    assert (await send(log)).error_code is NONE
    assert len(verifier.asked) == 4 and 0.06 <= loop.time() - begun_s < 0.1
    verifier.codes.extend([ErrorCode.CONCURRENT_TRANSACTIONS] * 100)
    begun_s = loop.time()
    assert (await send(log, producer_id=10)).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert 0.08 <= loop.time() - begun_s < 0.12 and 5 <= len(verifier.asked) - 4 <= 6


@on_owner(transaction_verification_wait_max_s=2.0)
async def test_a_coordinator_that_never_answers(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    verifier.is_holding = True
    begun_s = asyncio.get_running_loop().time()
    answers = [send(log, 0), send(log, 1)]
    assert {(await answer).error_code for answer in answers} == {ErrorCode.NOT_ENOUGH_REPLICAS}
    assert 2.0 <= asyncio.get_running_loop().time() - begun_s < 2.1
    verifier.is_holding = False
    verifier.fails_with = RuntimeError("a bug")
    assert (await send(log, 0)).error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    verifier.fails_with = None
    assert (await send(log, 0)).error_code is NONE


@on_owner()
async def test_an_old_epoch_is_told_before_everything_else(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    """After a timeout's abort the producer hears that it is fenced, not that its transaction is in a wrong state."""
    assert (await send(log, 0)).error_code is NONE
    await log.write_marker(marker(1, is_commit=False, version=2))
    assert (await send(log, 1)).error_code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(verifier.asked) == 1
    verifier.is_holding = True
    late = send(log, 0, producer_id=10)
    await asyncio.sleep(0)
    await log.write_marker(marker(1, producer_id=10, version=2))
    verifier.asked[1].answer.set_result(ErrorCode.INVALID_TXN_STATE)
    assert (await late).error_code is ErrorCode.INVALID_PRODUCER_EPOCH


# --- guards


@pytest.mark.parametrize(
    ("claim", "told"), [(OLD, ErrorCode.INVALID_TXN_STATE), (TOLD, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_an_answer_that_a_marker_overtook_places_nothing(claim: TransactionClaim, told: ErrorCode) -> None:
    @on_owner()
    async def run(world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier) -> None:
        verifier.is_holding = True
        answers = [send(log, number, claim=claim) for number in range(2)]
        await asyncio.sleep(0)
        await log.write_marker(marker(is_commit=False))
        verifier.asked[0].answer.set_result(NONE)
        assert {(await answer).error_code for answer in answers} == {told}
        assert log.log_end_offset == 1 and log.last_stable_offset == 1

    run()


@on_owner()
async def test_the_next_transaction_may_begin_while_the_markers_of_the_last_one_fly(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    assert (await send(log, 0)).error_code is NONE
    verifier.is_holding = True
    following = send(log, 0, epoch=1)
    await asyncio.sleep(0.03)
    assert not following.done() and len(verifier.asked) == 1  # the marker would overtake the answer
    await log.write_marker(marker(1, version=2))
    await asyncio.sleep(0.03)
    # A coordinator that took over sends the marker again, and the answer is overtaken after all.
    await log.write_marker(marker(1, version=2, coordinator_epoch=1))
    verifier.asked[1].answer.set_result(NONE)
    await asyncio.sleep(0.03)
    verifier.asked[2].answer.set_result(NONE)
    assert (await following).base_offset == 3
    assert (log.last_stable_offset, log.high_watermark) == (3, 4)


@on_owner()
async def test_the_next_transaction_begins_as_soon_as_the_marker_is_there(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    loop = asyncio.get_running_loop()
    assert (await send(log, 0)).error_code is NONE
    following = send(log, 0, epoch=1)
    await asyncio.sleep(0.015)
    begun_s = loop.time()
    await log.write_marker(marker(1, version=2))
    assert (await following).error_code is NONE
    assert loop.time() - begun_s < 0.004


@on_owner()
async def test_a_marker_that_does_not_come_is_not_waited_for_long(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    assert (await send(log, 0)).error_code is NONE
    assert (await send(log, 0, epoch=1)).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(verifier.asked) == 1
    await log.write_marker(marker(1, version=2))
    assert (await send(log, 0, epoch=1)).error_code is NONE


@on_owner()
async def test_a_transaction_that_ends_while_its_first_batch_here_waits_takes_nothing_more(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    """Aborted by its timeout, say."""
    verifier.is_holding = True
    late = [send(log, 0), send(log, 1)]
    await asyncio.sleep(0)
    await log.write_marker(marker(1, is_commit=False, version=2))
    verifier.asked[0].answer.set_result(NONE)
    assert {(await answer).error_code for answer in late} == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert log.log_end_offset == 1 and len(verifier.asked) == 1


# --- stopping


@pytest.mark.parametrize("way", ["stop", "give up", "fenced", "offline"])
def test_nothing_is_left_waiting_when_the_partition_ends(way: str) -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        verifier = FakeVerifier()
        owner.manager.use_transactions(verifier)
        log = await owner.log()
        await produce(log, b"a")
        verifier.is_holding = True
        answers = [send(log, number) for number in range(3)]
        await asyncio.sleep(0)
        if way == "stop":
            log.stop()
        elif way == "give up":
            log.give_up()
        elif way == "fenced":
            successor = world.owner()
            await successor.log()
            lost = append(log, batch_of(b"b"))
            assert (await lost).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            log.fail(RuntimeError("a bug"))
        assert {(await answer).error_code for answer in answers} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
        verifier.asked[0].answer.set_result(NONE)
        await asyncio.sleep(1)
        closed = ErrorCode.KAFKA_STORAGE_ERROR if way == "offline" else ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await send(log, 0)).error_code is closed
        assert await refusal(log.write_marker(marker())) is closed
        assert await refusal(log.active_producers()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert owner.manager.budget.bytes_used == 0
        for one in world.owners:
            await one.manager.close()

    virtual(main)


@on_owner()
async def test_closing_the_manager_ends_a_question_that_is_out(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    verifier.is_holding = True
    answer = send(log)
    await asyncio.sleep(0)
    await owner.manager.close()
    assert (await answer).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert verifier.asked[0].answer.cancelled()


# --- markers


@on_owner()
async def test_a_marker_ends_the_transaction_before_it_returns(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    await send(log, 0)
    await produce(log, b"other")
    assert (log.last_stable_offset, log.high_watermark) == (0, 2)
    await log.write_marker(marker(is_commit=False, coordinator_epoch=3))
    assert (log.last_stable_offset, log.high_watermark) == (3, 3)
    assert aborted(log, 0, 3) == [(P, 0)]
    await log.write_marker(marker(coordinator_epoch=3))  # without an open transaction it is written all the same
    assert (log.last_stable_offset, log.high_watermark) == (4, 4)
    assert len(aborted(log, 0, 4)) == 1


EPOCH, FENCED = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize(
    ("version", "epoch", "coordinator_epoch", "is_open", "code"),
    [
        (0, 4, 7, True, EPOCH),
        (1, 5, 7, True, NONE),
        (1, 6, 7, True, NONE),
        (1, 5, 7, False, NONE),
        (2, 4, 7, True, EPOCH),
        (2, 5, 7, True, EPOCH),
        (2, 6, 7, True, NONE),
        (2, 5, 7, False, NONE),
        (2, 4, 7, False, EPOCH),
        (0, 5, 6, True, FENCED),
        (2, 6, 6, True, FENCED),
        (2, 5, 8, False, NONE),
    ],
)
def test_epochs_of_markers(version: int, epoch: int, coordinator_epoch: int, is_open: bool, code: ErrorCode) -> None:
    """The producer's last epoch is 5, its coordinator's 7."""

    @on_owner()
    async def run(world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier) -> None:
        await log.write_marker(marker(5, coordinator_epoch=7))  # of an unknown producer: written
        assert log.log_end_offset == 1
        if is_open:
            assert (await send(log, 0, epoch=5)).error_code is NONE
        end_offset = log.log_end_offset
        work = log.write_marker(marker(epoch, version=version, coordinator_epoch=coordinator_epoch))
        if code is NONE:
            await work
            assert log.log_end_offset == log.last_stable_offset == end_offset + 1
        else:
            assert await refusal(work) is code
            assert log.log_end_offset == end_offset

    run()


@on_owner()
async def test_a_marker_with_a_new_epoch_lets_the_producer_begin_at_0(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    await send(log, 0)
    await send(log, 1)
    await log.write_marker(marker(1, version=2))
    assert (await send(log, 2, epoch=1)).error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await send(log, 0, epoch=1)).error_code is NONE
    assert await refusal(log.write_marker(marker(1, version=2))) is EPOCH  # late: of the transaction before


@on_owner()
async def test_a_batch_outside_its_producers_transaction_is_refused(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    await send(log, 0)
    plain = batch_of(b"p", producer_id=P, producer_epoch=0, base_sequence=1)
    assert (await append(log, plain)).error_code is ErrorCode.INVALID_TXN_STATE


@on_owner()
async def test_markers_are_refused_for_want_of_replicas(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    log.update_config(replace(CONFIG, min_insync_replicas=3))
    await send(log, 0)
    world.lose_nodes(1)
    await append(log, batch_of(b"x"), is_acks_all=False)
    assert await refusal(log.write_marker(marker())) in (
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    )
    world.return_nodes()
    code = NONE
    for _ in range(100):
        try:
            await log.write_marker(marker())
            break
        except KafkaError as error:
            code = error.code
            await asyncio.sleep(0.5)
    else:
        raise AssertionError(code)
    assert log.last_stable_offset == log.high_watermark


@on_owner()
async def test_producers_are_listed(world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier) -> None:
    now_ms = world.clock.now_ms()
    assert await log.active_producers() == []
    await produce(log, b"plain")
    await send(log, 0)
    await send(log, 1)
    await append(log, batch_of(b"i", producer_id=4, producer_epoch=2, base_sequence=8))
    assert await log.active_producers() == [
        ActiveProducer(P, 0, 1, now_ms, -1, 1),
        ActiveProducer(4, 2, 8, now_ms, -1, -1),
    ]
    await log.write_marker(marker(1, version=2, coordinator_epoch=5))
    assert (await log.active_producers())[-1] == ActiveProducer(P, 1, -1, now_ms, 5, -1)


# --- what must survive


def test_an_open_transaction_survives_rolls_idling_and_new_owners() -> None:
    """It begins segments and an epoch below where it ends."""

    async def main() -> None:
        world = World()
        config = replace(CONFIG, segment_bytes=300, segment_idle_close_ms=5_000)
        verifier = FakeVerifier()
        owner = world.owner(config)
        owner.manager.use_transactions(verifier)
        log = await owner.log()
        await produce(log, b"before")
        sequence = 0
        for _ in range(3):
            for _ in range(8):
                assert (await send(log, sequence, claim=OLD)).error_code is NONE
                sequence += 1
            await asyncio.sleep(20)  # idle: its segments are closed
            assert log.last_stable_offset == 1
            if log.leader_epoch % 2:
                owner.kill()
            else:
                await owner.manager.close()
            owner = world.owner(config)
            owner.manager.use_transactions(verifier)
            log = await owner.log()
            assert (log.last_stable_offset, log.high_watermark) == (1, 1 + sequence)
        assert len(verifier.asked) == 1
        files = log.inspect().files
        assert files is not None and len(files.extents) > 4
        await log.write_marker(marker(is_commit=False, coordinator_epoch=2))
        await send(log, sequence, claim=OLD)
        end_offset = 2 + sequence
        for _ in range(2):
            assert (log.last_stable_offset, log.high_watermark) == (end_offset, end_offset + 1)
            for offset in (0, 1, 9, end_offset - 1):
                assert aborted(log, offset, end_offset) == [(P, 1)]
            assert aborted(log, end_offset, end_offset + 1) == []
            owner.kill()
            owner = world.owner(config)
            log = await owner.log()
        assert len(await read_from_store(owner)) == 3 + sequence
        await owner.manager.close()

    virtual(main)


@on_owner()
async def test_retention_may_delete_the_beginning_of_an_open_transaction(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    for number in range(5):
        await send(log, number, claim=OLD)
    await log.delete_records(3)
    assert (log.log_start_offset, log.last_stable_offset, log.high_watermark) == (3, 3, 5)
    await log.delete_records(-1)
    assert (log.log_start_offset, log.last_stable_offset, log.high_watermark) == (5, 5, 5)
    await send(log, 5, claim=OLD)
    assert log.last_stable_offset == 5
    await log.write_marker(marker(is_commit=False))
    assert log.last_stable_offset == 7
    assert aborted(log, 5, 7) == [(P, 0)]


@on_owner(producer_id_expiration_ms=1_000)
async def test_a_producer_with_an_open_transaction_is_never_forgotten(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    await send(log, 0)
    await append(log, batch_of(b"i", producer_id=4, producer_epoch=0, base_sequence=0))
    world.clock.advance(2_000)
    log.retention.expire_producers(world.clock.now_ms())
    assert [one.producer_id for one in await log.active_producers()] == [P]
    await log.write_marker(marker(1, version=2))
    log.retention.expire_producers(world.clock.now_ms())
    assert [one.producer_epoch for one in await log.active_producers()] == [1]
    world.clock.advance(2_000)
    log.retention.expire_producers(world.clock.now_ms())
    assert await log.active_producers() == []


@on_owner(producer_id_expiration_ms=60_000)
async def test_a_retry_of_old_records_is_no_second_copy(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    """A backfill's answer was lost; retention looked meanwhile, and another owner took over."""
    past = FakeClock(world.clock.now_ms() - 3 * 86_400_000)
    data = batch_of(b"old", clock=past, producer_id=4, producer_epoch=0, base_sequence=0)
    assert (await append(log, data)).base_offset == 0
    world.clock.advance(30_000)
    log.retention.expire_producers(world.clock.now_ms())
    assert (await append(log, data)).base_offset == 0
    owner.kill()
    next_log = await (second := world.owner()).log()
    world.clock.advance(59_999)  # since the start that found it in a batch without a snapshot
    next_log.retention.expire_producers(world.clock.now_ms())
    assert (await append(next_log, data)).base_offset == 0 and next_log.log_end_offset == 1
    await second.manager.close()
    third = world.owner()
    third_log = await third.log()
    third_log.retention.expire_producers(world.clock.now_ms())
    assert (await append(third_log, data)).base_offset == 0
    world.clock.advance(1)
    third_log.retention.expire_producers(world.clock.now_ms())
    assert await third_log.active_producers() == [], "the snapshot has the time at which it was placed"
    await third.manager.close()
