"""Which transactions are asked about and when, what an answer does, and how long a new instance of a producer waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bmq.coordinator.transactions.check_back import (
    RESTART_WAIT_MS,
    CheckPolicy,
    DueCheck,
    TransactionCheckSchedule,
    TransactionName,
    decide,
    first_check_ms,
    id_partitions,
    is_asked_about,
    name_of,
)
from bmq.coordinator.transactions.transaction import (
    MAX_EPOCH,
    Outcome,
    Producer,
    completed,
    end_transaction,
    init_producer_id,
    is_timed_out,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.transaction_records import TopicPartitions, TransactionStatus, TransactionValue

pytestmark = pytest.mark.unit

PID, EPOCH, START_MS, TIMEOUT_MS = 7, 4, 1_000_000, 60_000
NOW_MS = START_MS + 31_000
OPEN = TransactionValue(
    producer_id=PID,
    producer_epoch=EPOCH,
    timeout_ms=TIMEOUT_MS,
    status=TransactionStatus.ONGOING,
    partitions=(TopicPartitions(topic="t", partition_ids=(0, 1)), TopicPartitions(topic="ids", partition_ids=(3,))),
    last_update_ms=START_MS,
    start_ms=START_MS,
)
NAME = TransactionName(PID, EPOCH, START_MS)
CLIENT = Producer(PID, EPOCH)
POLICY = CheckPolicy(("pay-", "order."), url="http://checks/")
E = ErrorCode
S = TransactionStatus


def settled(value: TransactionValue, is_commit: bool, fresh: int = -1, last_epoch: int = MAX_EPOCH) -> TransactionValue:
    outcome = decide(value, False, name_of(value), is_commit, NOW_MS, fresh, last_epoch)
    assert outcome.error is E.NONE and outcome.write is not None
    return outcome.write


# ---------------------------------------------------------------- who, and when


def test_only_ids_that_opted_in_are_asked_about() -> None:
    assert is_asked_about(POLICY, "pay-1", OPEN) and is_asked_about(POLICY, "order.", OPEN)
    assert not is_asked_about(POLICY, "pay", OPEN) and not is_asked_about(POLICY, "prepay-1", OPEN)
    assert not is_asked_about(replace(POLICY, url=""), "pay-1", OPEN), "nobody to ask"
    assert is_asked_about(replace(POLICY, url="", topic="checks"), "pay-1", OPEN)
    assert not is_asked_about(CheckPolicy((), url="http://checks/"), "pay-1", OPEN), "no prefix is not every id"
    for status in (S.EMPTY, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
        assert not is_asked_about(POLICY, "pay-1", replace(OPEN, status=status))


def test_where_check_ids_are_asked_for_only_transactions_that_have_one_are_asked_about() -> None:
    policy = replace(POLICY, id_topic="ids")
    assert is_asked_about(policy, "pay-1", OPEN) and id_partitions(policy, OPEN) == (3,)
    assert not is_asked_about(policy, "pay-1", replace(OPEN, partitions=OPEN.partitions[:1]))  # type: ignore[index]
    assert not is_asked_about(policy, "pay-1", replace(OPEN, partitions=None))


def test_the_first_check_is_before_the_time_out_and_not_in_the_first_half() -> None:
    assert first_check_ms(replace(POLICY, before_ms=10_000), OPEN) == START_MS + 50_000
    assert first_check_ms(replace(POLICY, before_ms=50_000), OPEN) == START_MS + 30_000
    assert first_check_ms(replace(POLICY, before_ms=3_600_000), OPEN) == START_MS + 30_000


def test_extra_time_is_bounded() -> None:
    end_ms = START_MS + TIMEOUT_MS
    assert not is_timed_out(OPEN, end_ms) and is_timed_out(OPEN, end_ms + 1)
    assert not is_timed_out(OPEN, end_ms + 5_000, 5_000) and is_timed_out(OPEN, end_ms + 5_001, 5_000)


# ---------------------------------------------------------------- what an answer does


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_answer_ends_the_transaction_and_fences_its_producer(is_commit: bool) -> None:
    write = settled(OPEN, is_commit)
    assert write.status == (S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT)
    assert (write.producer_epoch, write.last_producer_epoch) == (EPOCH + 1, EPOCH)
    assert write.client_transaction_version == 2 and write.partitions == OPEN.partitions
    for value in (write, completed(write, NOW_MS)):
        assert decide(value, True, NAME, is_commit, NOW_MS) == Outcome(), "again"
        assert decide(value, False, NAME, not is_commit, NOW_MS).error is E.INVALID_TXN_STATE


def test_an_answer_is_about_one_transaction() -> None:
    for wrong in (
        NAME._replace(producer_id=8),
        NAME._replace(producer_epoch=EPOCH - 1),
        NAME._replace(start_ms=START_MS - 1),
    ):
        assert decide(OPEN, False, wrong, True, NOW_MS).error is E.INVALID_PRODUCER_ID_MAPPING
    assert decide(None, False, NAME, True, NOW_MS).error is E.INVALID_PRODUCER_ID_MAPPING
    assert decide(OPEN, True, NAME, True, NOW_MS).error is E.CONCURRENT_TRANSACTIONS, "something of it is in flight"


def test_an_answer_that_comes_after_the_clients_own_end() -> None:
    for version in (0, 2):
        for is_commit in (True, False):
            ended = end_transaction(OPEN, False, CLIENT, is_commit, version, NOW_MS).write
            assert ended is not None
            for value in (ended, completed(ended, NOW_MS)):
                assert decide(value, False, NAME, is_commit, NOW_MS) == Outcome()
                assert decide(value, False, NAME, not is_commit, NOW_MS).error is E.INVALID_TXN_STATE
            begun = replace(completed(ended, NOW_MS), status=S.ONGOING, start_ms=NOW_MS, partitions=OPEN.partitions)
            assert decide(begun, False, NAME, is_commit, NOW_MS).error is E.INVALID_PRODUCER_ID_MAPPING, "a later one"


def test_an_answer_at_the_last_epoch_brings_a_new_producer_id() -> None:
    value = replace(OPEN, producer_epoch=3)
    name = name_of(value)
    assert decide(value, False, name, True, NOW_MS, last_epoch=3).needs_producer_id
    write = settled(value, True, 99, 3)
    after = completed(write, NOW_MS)
    assert (after.producer_id, after.producer_epoch, after.previous_producer_id) == (99, 0, PID)
    for one in (write, after):
        assert decide(one, False, name, True, NOW_MS, last_epoch=3) == Outcome()
        assert decide(one, False, name, False, NOW_MS, last_epoch=3).error is E.INVALID_TXN_STATE
    assert end_transaction(after, False, Producer(PID, 3), True, 0, NOW_MS, last_epoch=3) == Outcome()
    assert end_transaction(after, False, Producer(PID, 3), False, 0, NOW_MS, last_epoch=3).error is E.INVALID_TXN_STATE


# ---------------------------------------------------------------- the client's own end, afterwards


def test_a_client_is_told_that_its_transaction_is_committed() -> None:
    write = settled(OPEN, True)
    after = completed(write, NOW_MS)
    assert end_transaction(write, True, CLIENT, True, 2, NOW_MS).error is E.CONCURRENT_TRANSACTIONS
    told = end_transaction(after, False, CLIENT, True, 2, NOW_MS)
    assert told == Outcome(producer_id=PID, producer_epoch=EPOCH + 1), "and goes on with the next epoch"
    assert end_transaction(after, False, CLIENT, False, 2, NOW_MS).error is E.INVALID_TXN_STATE
    # A client that keeps its epoch hears the same, and is fenced by what it asks for next.
    assert end_transaction(write, True, CLIENT, True, 0, NOW_MS).error is E.CONCURRENT_TRANSACTIONS
    assert end_transaction(after, False, CLIENT, True, 0, NOW_MS) == Outcome()
    for value in (write, after):
        assert end_transaction(value, value is write, CLIENT, False, 0, NOW_MS).error is E.INVALID_TXN_STATE
    older = Producer(PID, EPOCH - 1)
    assert end_transaction(after, False, older, True, 0, NOW_MS).error is E.PRODUCER_FENCED


def test_a_client_is_never_told_that_an_aborted_transaction_is_committed() -> None:
    write = settled(OPEN, False)
    for value in (write, completed(write, NOW_MS)):
        assert end_transaction(value, False, CLIENT, True, 0, NOW_MS).error is E.PRODUCER_FENCED
        assert end_transaction(value, False, CLIENT, False, 0, NOW_MS).error is E.PRODUCER_FENCED
    assert end_transaction(completed(write, NOW_MS), False, CLIENT, True, 2, NOW_MS).error is E.PRODUCER_FENCED


def test_a_new_instance_goes_on_behind_a_commit() -> None:
    after = completed(settled(OPEN, True), NOW_MS)
    begun = init_producer_id(after, False, None, TIMEOUT_MS, NOW_MS)
    assert (begun.error, begun.producer_epoch) == (E.NONE, EPOCH + 2)


# ---------------------------------------------------------------- the schedule


def test_checks_follow_each_other_and_missed_ones_are_not_made_up_for() -> None:
    schedule = TransactionCheckSchedule()
    schedule.add("a", NAME, 1_000)
    schedule.add("a", NAME, 5_000)  # it got another partition
    assert schedule.next_ms == 1_000 and schedule.take(999, 10, 300) == []
    assert schedule.take(1_000, 10, 300) == [DueCheck("a", 1)]
    assert schedule.next_ms == 1_300
    assert schedule.take(2_300, 10, 300) == [DueCheck("a", 2)] and schedule.next_ms == 2_500
    schedule.add("a", NAME._replace(start_ms=9), 7_000)  # the next transaction
    assert schedule.take(6_999, 10, 300) == [] and schedule.take(7_000, 10, 300) == [DueCheck("a", 1)]
    schedule.forget("a")
    assert schedule.next_ms is None and len(schedule) == 0


def test_no_more_than_asked_for_are_taken_and_what_has_ended_takes_no_room() -> None:
    schedule = TransactionCheckSchedule()
    for number in range(5_000):
        schedule.add(f"id{number}", NAME, 1_000 + number)
    taken = schedule.take(100_000, 7, 300)
    assert [one.transactional_id for one in taken] == [f"id{number}" for number in range(7)]
    for number in range(4_990):
        schedule.forget(f"id{number}")
    assert len(schedule) == 10 and len(schedule._times._heap) < 2_000
    assert len(schedule.take(100_000, 100, 300)) == 10


def test_a_new_instance_waits_for_one_answer_and_not_for_ever() -> None:
    schedule = TransactionCheckSchedule()
    assert not schedule.hold_back("a", 0), "nobody is asked about it"
    schedule.add("a", NAME, 50_000)
    assert schedule.hold_back("a", 10_000) and schedule.next_ms == 10_000, "asked about at once"
    assert schedule.take(10_000, 10, 5_000) == [DueCheck("a", 1)]
    assert schedule.hold_back("a", 10_000 + RESTART_WAIT_MS - 1)
    assert not schedule.hold_back("a", 10_000 + RESTART_WAIT_MS)

    schedule.add("b", NAME, 50_000)
    schedule.take(50_000, 10, 5_000)
    schedule.left_undecided("b", NAME)
    assert schedule.hold_back("b", 51_000), "that was said before the restart"
    schedule.take(51_000, 10, 5_000)
    schedule.left_undecided("b", NAME._replace(start_ms=1))
    assert schedule.hold_back("b", 51_001), "of another transaction"
    schedule.left_undecided("b", NAME)
    assert not schedule.hold_back("b", 51_001)
