"""The tables of a transactional id: every request in every state, and where epochs run out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bmq.coordinator.transactions.transaction import (
    MAX_EPOCH,
    Outcome,
    Producer,
    abort_timed_out,
    add_partitions,
    completed,
    end_transaction,
    init_producer_id,
    is_expired,
    partitions_of,
    verify_partitions,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.transaction_records import TopicPartitions, TransactionStatus, TransactionValue

pytestmark = pytest.mark.unit

PID, OLD_PID, FRESH = 7, 6, 99
EPOCH = 4
NOW_MS, START_MS, TIMEOUT_MS = 1_000_000, 990_000, 60_000
PARTITIONS = (TopicPartitions(topic="t", partition_ids=(0, 1)),)
S = TransactionStatus
E = ErrorCode
CURRENT = Producer(PID, EPOCH)


def state(status: TransactionStatus, **fields: object) -> TransactionValue:
    value = TransactionValue(
        producer_id=PID,
        producer_epoch=EPOCH,
        timeout_ms=TIMEOUT_MS,
        status=status,
        partitions=None if status is S.EMPTY else PARTITIONS if status <= S.PREPARE_ABORT else (),
        last_update_ms=START_MS,
        start_ms=-1 if status is S.EMPTY else START_MS,
    )
    return replace(value, **fields)  # type: ignore[arg-type]


def after_bump(status: TransactionStatus) -> TransactionValue:
    """As a version 2 end at EPOCH - 1 leaves it."""
    return state(status, client_transaction_version=2, last_producer_epoch=EPOCH - 1)


ALL = tuple(state(status) for status in S if status <= S.COMPLETE_ABORT)
IDLE = tuple(state(status) for status in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT))
PREPARED = tuple(state(status) for status in (S.PREPARE_COMMIT, S.PREPARE_ABORT))


def init(value: TransactionValue | None, given: Producer | None = None, fresh: int = -1) -> Outcome:
    return init_producer_id(value, False, given, TIMEOUT_MS, NOW_MS, fresh)


def end(value: TransactionValue | None, producer: Producer, is_commit: bool, version: int, fresh: int = -1) -> Outcome:
    return end_transaction(value, False, producer, is_commit, version, NOW_MS, fresh)


def identity(value: TransactionValue | None) -> tuple[int, int, int]:
    """(producer id, epoch, last epoch)"""
    assert value is not None
    return value.producer_id, value.producer_epoch, value.last_producer_epoch


# ---------------------------------------------------------------- InitProducerId


@pytest.mark.parametrize("given", [None, Producer(55, 3)])
def test_a_new_id_gets_a_producer_id_of_its_own(given: Producer | None) -> None:
    assert init(None, given).needs_producer_id
    outcome = init(None, given, FRESH)
    assert (outcome.error, outcome.producer_id, outcome.producer_epoch) == (E.NONE, FRESH, 0)
    assert outcome.write == TransactionValue(
        producer_id=FRESH, producer_epoch=0, timeout_ms=TIMEOUT_MS, status=S.EMPTY, last_update_ms=NOW_MS
    )


@pytest.mark.parametrize("value", IDLE)
def test_init_bumps_the_epoch_of_an_idle_id(value: TransactionValue) -> None:
    new_instance, same_instance = init(value), init(value, CURRENT)
    assert identity(new_instance.write) == (PID, EPOCH + 1, -1)
    assert identity(same_instance.write) == (PID, EPOCH + 1, EPOCH)
    for outcome in (new_instance, same_instance):
        assert (outcome.error, outcome.producer_id, outcome.producer_epoch) == (E.NONE, PID, EPOCH + 1)
        assert outcome.write is not None
        assert (outcome.write.status, outcome.write.partitions, outcome.write.start_ms) == (S.EMPTY, None, -1)


@pytest.mark.parametrize("value", IDLE)
def test_a_repeated_init_gets_the_same_epoch_again(value: TransactionValue) -> None:
    bumped = init(value, CURRENT).write
    again = init(bumped, CURRENT)
    assert (again.error, again.producer_id, again.producer_epoch) == (E.NONE, PID, EPOCH + 1)
    assert identity(again.write) == identity(bumped)


@pytest.mark.parametrize("value", IDLE)
@pytest.mark.parametrize("given", [Producer(PID, EPOCH - 1), Producer(PID, EPOCH + 1), Producer(OLD_PID, EPOCH)])
def test_init_of_another_producer_is_fenced(value: TransactionValue, given: Producer) -> None:
    assert init(value, given) == Outcome(E.PRODUCER_FENCED)


def test_init_during_a_transaction_aborts_it_and_asks_to_come_again() -> None:
    value = state(S.ONGOING)
    for given in (None, CURRENT, Producer(PID, EPOCH - 2)):
        outcome = init(value, given)
        assert (outcome.error, outcome.producer_id) == (E.CONCURRENT_TRANSACTIONS, -1)
        assert outcome.write is not None and outcome.write.status == S.PREPARE_ABORT
        assert identity(outcome.write) == (PID, EPOCH + 1, EPOCH), "one bump fences whoever had the transaction"
        assert outcome.write.client_transaction_version == 2
        assert partitions_of(outcome.write) == partitions_of(value)
        assert init(completed(outcome.write, NOW_MS)).producer_epoch == EPOCH + 2
    assert init(value, Producer(OLD_PID, EPOCH)) == Outcome(E.PRODUCER_FENCED)


@pytest.mark.parametrize("value", PREPARED)
def test_init_waits_for_the_end(value: TransactionValue) -> None:
    assert init(value) == init(value, CURRENT) == Outcome(E.CONCURRENT_TRANSACTIONS)


@pytest.mark.parametrize("value", ALL)
def test_what_is_on_its_way_comes_first(value: TransactionValue) -> None:
    stranger = Producer(55, 1)
    concurrent = Outcome(E.CONCURRENT_TRANSACTIONS)
    assert init_producer_id(value, True, stranger, TIMEOUT_MS, NOW_MS) == concurrent
    assert add_partitions(value, True, stranger, [("t", 0)], 0, NOW_MS) == concurrent
    assert end_transaction(value, True, stranger, True, 2, NOW_MS) == concurrent


def test_init_at_the_last_epoch_takes_a_new_producer_id() -> None:
    value = state(S.COMPLETE_COMMIT, producer_epoch=MAX_EPOCH)
    for given, last in ((None, -1), (Producer(PID, MAX_EPOCH), MAX_EPOCH)):
        assert init(value, given).needs_producer_id
        outcome = init(value, given, FRESH)
        assert (outcome.producer_id, outcome.producer_epoch) == (FRESH, 0)
        assert identity(outcome.write) == (FRESH, 0, last)
        assert outcome.write is not None and outcome.write.previous_producer_id == PID
    again = init(outcome.write, Producer(PID, MAX_EPOCH))
    assert (again.error, again.producer_id, again.producer_epoch) == (E.NONE, FRESH, 0)
    stranger = init(init(value, None, FRESH).write, Producer(PID, MAX_EPOCH))
    assert stranger == Outcome(E.PRODUCER_FENCED), "a new instance has come since"


# ---------------------------------------------------------------- partitions


@pytest.mark.parametrize("value", IDLE)
def test_the_first_partitions_begin_a_transaction(value: TransactionValue) -> None:
    outcome = add_partitions(value, False, CURRENT, [("u", 2), ("t", 1), ("u", 0)], 2, NOW_MS)
    assert outcome.error is E.NONE and outcome.write is not None
    assert (outcome.write.status, outcome.write.start_ms) == (S.ONGOING, NOW_MS)
    assert outcome.write.client_transaction_version == 2
    assert outcome.write.partitions == (
        TopicPartitions(topic="u", partition_ids=(2, 0)),
        TopicPartitions(topic="t", partition_ids=(1,)),
    )


def test_more_partitions_join_it() -> None:
    value = state(S.ONGOING)
    assert add_partitions(value, False, CURRENT, [("t", 1)], 0, NOW_MS) == Outcome()
    outcome = add_partitions(value, False, CURRENT, [("t", 1), ("t", 5)], 0, NOW_MS)
    assert outcome.write is not None and outcome.write.start_ms == START_MS
    assert partitions_of(outcome.write) == {("t", 0), ("t", 1), ("t", 5)}


def test_adding_is_refused_to_others() -> None:
    for value in ALL:
        assert add_partitions(value, False, Producer(55, EPOCH), [("t", 0)], 0, NOW_MS).error == 49
        assert add_partitions(value, False, Producer(PID, EPOCH - 1), [("t", 0)], 0, NOW_MS).error == 90
        assert add_partitions(value, False, Producer(PID, EPOCH + 1), [("t", 0)], 0, NOW_MS).error == 90
    for value in PREPARED:
        assert add_partitions(value, False, CURRENT, [("t", 0)], 0, NOW_MS).error == 51
    assert add_partitions(None, False, CURRENT, [("t", 0)], 0, NOW_MS).error == 49


def test_verification() -> None:
    asked = [("t", 0), ("t", 9)]
    assert verify_partitions(state(S.ONGOING), CURRENT, asked) == [E.NONE, E.TRANSACTION_ABORTABLE]
    for value in IDLE:
        assert verify_partitions(value, CURRENT, asked) == [E.TRANSACTION_ABORTABLE] * 2
    for value in PREPARED:
        assert verify_partitions(value, CURRENT, asked) == [E.CONCURRENT_TRANSACTIONS] * 2
    for value in ALL:
        assert verify_partitions(value, Producer(55, EPOCH), asked) == [E.INVALID_PRODUCER_ID_MAPPING] * 2
        assert verify_partitions(value, Producer(PID, EPOCH - 1), asked) == [E.PRODUCER_FENCED] * 2
    assert verify_partitions(None, CURRENT, asked) == [E.INVALID_PRODUCER_ID_MAPPING] * 2


# ---------------------------------------------------------------- the end, at the same epoch


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_of_version_0(is_commit: bool) -> None:
    outcome = end(state(S.ONGOING), CURRENT, is_commit, 0)
    assert outcome.error is E.NONE and outcome.write is not None
    assert outcome.write.status == (S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT)
    assert identity(outcome.write) == (PID, EPOCH, -1) and outcome.write.start_ms == START_MS
    after = completed(outcome.write, NOW_MS)
    assert identity(after) == (PID, EPOCH, -1)
    assert after.status == (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
    assert end(outcome.write, CURRENT, is_commit, 0).error == 51
    assert end(outcome.write, CURRENT, not is_commit, 0).error == 48
    assert end(after, CURRENT, is_commit, 0) == Outcome()
    assert end(after, CURRENT, not is_commit, 0).error == 48
    assert end(state(S.EMPTY), CURRENT, is_commit, 0).error == 48


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_end_of_another_producer(version: int, is_commit: bool) -> None:
    for value in (*IDLE, state(S.ONGOING)):
        assert end(value, Producer(55, EPOCH), is_commit, version).error == 49
        assert end(value, Producer(PID, EPOCH + 1), is_commit, version).error == 90
        assert end(value, Producer(PID, EPOCH - 1), is_commit, version).error == 90
    assert end(None, CURRENT, is_commit, version).error == 49


def test_an_end_of_version_0_says_who_it_is_before_it_waits() -> None:
    value = state(S.ONGOING)
    assert end_transaction(value, True, Producer(55, EPOCH), True, 0, NOW_MS).error == 49
    assert end_transaction(value, True, Producer(PID, EPOCH - 1), True, 0, NOW_MS).error == 90
    assert end_transaction(value, True, CURRENT, True, 0, NOW_MS).error == 51


# ---------------------------------------------------------------- the end, at the next epoch


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_of_version_2(is_commit: bool) -> None:
    outcome = end(state(S.ONGOING), CURRENT, is_commit, 2)
    assert (outcome.error, outcome.producer_id, outcome.producer_epoch) == (E.NONE, PID, EPOCH + 1)
    assert identity(outcome.write) == (PID, EPOCH + 1, EPOCH)
    assert outcome.write is not None and outcome.write.client_transaction_version == 2
    after = completed(outcome.write, NOW_MS)
    assert identity(after) == (PID, EPOCH + 1, EPOCH) and after.partitions == ()
    again = end(after, CURRENT, is_commit, 2)
    assert again == Outcome(producer_id=PID, producer_epoch=EPOCH + 1), "a repeated end has the same answer"
    assert end(after, CURRENT, not is_commit, 2).error == (48 if is_commit else 90)
    assert end(outcome.write, CURRENT, is_commit, 2).error in (51, 90)


def test_a_commit_without_a_transaction_is_refused_and_an_abort_bumps() -> None:
    for value in (*IDLE, after_bump(S.COMPLETE_COMMIT), after_bump(S.COMPLETE_ABORT)):
        assert end(value, CURRENT, True, 2).error == 48
        outcome = end(value, CURRENT, False, 2)
        assert (outcome.error, outcome.producer_epoch) == (E.NONE, EPOCH + 1)
        assert outcome.write is not None and outcome.write.status == S.PREPARE_ABORT
        assert outcome.write.partitions == () and outcome.write.start_ms == NOW_MS


def test_an_end_one_epoch_back() -> None:
    before = Producer(PID, EPOCH - 1)
    for value in (state(S.EMPTY, last_producer_epoch=EPOCH - 1), after_bump(S.ONGOING)):
        assert end(value, before, True, 2).error == end(value, before, False, 2).error == 90
    assert end(after_bump(S.COMPLETE_COMMIT), before, True, 2) == Outcome(producer_id=PID, producer_epoch=EPOCH)
    assert end(after_bump(S.COMPLETE_ABORT), before, False, 2) == Outcome(producer_id=PID, producer_epoch=EPOCH)
    assert end(after_bump(S.COMPLETE_COMMIT), before, False, 2).error == 48
    assert end(after_bump(S.COMPLETE_ABORT), before, True, 2).error == 90, "its transaction timed out"
    # A version 0 end at this epoch says nothing of one at the epoch before.
    assert end(state(S.COMPLETE_COMMIT), before, True, 2).error == 90


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_end_at_the_last_epoch_brings_a_new_producer_id(is_commit: bool) -> None:
    value, last = state(S.ONGOING, producer_epoch=MAX_EPOCH), Producer(PID, MAX_EPOCH)
    assert end(value, last, is_commit, 2).needs_producer_id
    outcome = end(value, last, is_commit, 2, FRESH)
    assert (outcome.producer_id, outcome.producer_epoch) == (FRESH, 0)
    assert identity(outcome.write) == (PID, MAX_EPOCH + 1, MAX_EPOCH)
    assert outcome.write is not None and outcome.write.next_producer_id == FRESH
    after = completed(outcome.write, NOW_MS)
    assert identity(after) == (FRESH, 0, MAX_EPOCH)
    assert (after.previous_producer_id, after.next_producer_id) == (PID, -1)
    assert end(after, last, is_commit, 2) == Outcome(producer_id=FRESH, producer_epoch=0)
    assert end(after, last, not is_commit, 2).error in (48, 90)
    assert end(after, Producer(PID, MAX_EPOCH - 1), is_commit, 2).error == 49
    again = init(after, last)
    assert (again.error, again.producer_id, again.producer_epoch) == (E.NONE, FRESH, 0)


def test_a_lower_last_epoch_brings_a_new_producer_id_as_early() -> None:
    value, last = state(S.ONGOING, producer_epoch=3), Producer(PID, 3)
    assert end_transaction(value, False, last, True, 2, NOW_MS, last_epoch=3).needs_producer_id
    assert not end_transaction(value, False, last, True, 2, NOW_MS, last_epoch=4).needs_producer_id
    outcome = end_transaction(value, False, last, True, 2, NOW_MS, FRESH, last_epoch=3)
    assert (outcome.producer_id, outcome.producer_epoch) == (FRESH, 0)
    assert outcome.write is not None
    after = completed(outcome.write, NOW_MS)
    again = end_transaction(after, False, last, True, 2, NOW_MS, last_epoch=3)
    assert again == Outcome(producer_id=FRESH, producer_epoch=0)
    late = abort_timed_out(value, NOW_MS * 10, last_epoch=3)
    assert late is not None and late.needs_producer_id
    idle = state(S.COMPLETE_COMMIT, producer_epoch=3)
    assert init_producer_id(idle, False, None, TIMEOUT_MS, NOW_MS, last_epoch=3).needs_producer_id


# ---------------------------------------------------------------- time


def test_timeouts() -> None:
    value = state(S.ONGOING)
    assert abort_timed_out(value, START_MS + TIMEOUT_MS) is None
    outcome = abort_timed_out(value, START_MS + TIMEOUT_MS + 1)
    assert outcome is not None and outcome.write is not None
    assert outcome.write.status == S.PREPARE_ABORT and identity(outcome.write) == (PID, EPOCH + 1, EPOCH)
    for other in (*IDLE, *PREPARED):
        assert abort_timed_out(other, NOW_MS * 10) is None
    worn = replace(value, producer_epoch=MAX_EPOCH)
    asked = abort_timed_out(worn, NOW_MS * 10)
    assert asked is not None and asked.needs_producer_id
    aborted = abort_timed_out(worn, NOW_MS * 10, FRESH)
    assert aborted is not None and aborted.write is not None
    assert identity(completed(aborted.write, NOW_MS)) == (FRESH, 0, MAX_EPOCH)


def test_expiry() -> None:
    for value in IDLE:
        assert not is_expired(value, START_MS + 500, 500)
        assert is_expired(value, START_MS + 501, 500)
    for value in (*PREPARED, state(S.ONGOING)):
        assert not is_expired(value, NOW_MS * 10, 500)
