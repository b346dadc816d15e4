"""Which transactions are asked about and when, what an answer does, and how long a new instance of a producer waits."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bmq.coordinator.transactions.check_back import (
    ANSWERED_BYTES_MAX,
    ASK_AGAIN_MS,
    RESTART_ASK_MAX_MS,
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
    COMMITTED_BY_CHECK,
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
from bmq.server.check_bodies import ANSWER_BYTES_MAX

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
    assert write.client_transaction_version == (COMMITTED_BY_CHECK if is_commit else 2)
    assert write.partitions == OPEN.partitions
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


def test_behind_a_commit_that_bumps_the_epoch_a_client_that_keeps_it_is_fenced_as_by_kafka() -> None:
    bumping = replace(OPEN, client_transaction_version=2)
    by_client = end_transaction(bumping, False, CLIENT, True, 2, NOW_MS).write
    by_check = settled(bumping, True)
    assert by_client is not None
    for write in (by_client, by_check):
        for value in (write, completed(write, NOW_MS)):
            assert end_transaction(value, value is write, CLIENT, True, 0, NOW_MS).error is E.PRODUCER_FENCED
        told = end_transaction(completed(write, NOW_MS), False, CLIENT, True, 2, NOW_MS)
        assert told == Outcome(producer_id=PID, producer_epoch=EPOCH + 1)


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
    assert schedule.wait_ms(400) == 600 and schedule.take(999, 10, 300) == []
    assert schedule.take(1_000, 10, 300) == [DueCheck("a", 1)]
    assert schedule.wait_ms(1_000) == 300
    assert schedule.take(2_300, 10, 300) == [DueCheck("a", 2)] and schedule.wait_ms(2_300) == 200
    schedule.add("a", NAME._replace(start_ms=9), 7_000)  # the next transaction
    assert schedule.take(6_999, 10, 300) == [] and schedule.take(7_000, 10, 300) == [DueCheck("a", 1)]
    schedule.forget("a")
    assert schedule.wait_ms(9_999_999) is None and len(schedule) == 0


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


@pytest.mark.parametrize("letter", ["a", "\x01", "é", "€", "\N{PILE OF POO}"])
@pytest.mark.parametrize("length", [1, 40, 600, 9_000])
def test_one_answer_has_room_for_all_that_one_request_asks_about(letter: str, length: int) -> None:
    schedule = TransactionCheckSchedule()
    ids = [f"{number:03}{letter * (length // len(letter.encode()))}" for number in range(150)]
    for one in ids:
        schedule.add(one, NAME, WALL_MS)
        schedule.hold_back(one, 0.0)
    asked: list[str] = []
    while some := [one.transactional_id for one in schedule.take(WALL_MS, 100, INTERVAL_MS)]:
        asked += some
        assert len(json.dumps({"commit": some, "rollback": []}, indent=4)) <= ANSWER_BYTES_MAX
        assert len(some) == min(100, len(ids) - len(asked) + len(some)) or length > 40
    assert asked == ids, "each once, in order"
    assert ANSWERED_BYTES_MAX < ANSWER_BYTES_MAX


WALL_MS, INTERVAL_MS = 5_000_000, 5_000


def restarted(at_ms: float = 1_000.0) -> TransactionCheckSchedule:
    """A transaction "a" that is due much later, whose producer has a new instance since `at_ms` of the loop's clock."""
    schedule = TransactionCheckSchedule()
    schedule.add("a", NAME, WALL_MS + 500_000)
    assert schedule.hold_back("a", at_ms)
    return schedule


def is_held_at(schedule: TransactionCheckSchedule, start_ms: float, end_ms: float) -> bool:
    """What a client hears at the end that has asked each second since."""
    now_ms = start_ms
    while now_ms < end_ms:
        schedule.hold_back("a", now_ms)
        now_ms += 1_000
    return schedule.hold_back("a", end_ms)


def test_a_new_instance_is_asked_about_at_once_whatever_the_wall_clock_says() -> None:
    assert not TransactionCheckSchedule().hold_back("a", 0), "nobody is asked about it"
    schedule = restarted()
    assert schedule.wait_ms(WALL_MS) == 0
    assert schedule.wait_ms(WALL_MS - 3_600_000) == 0, "the clock was set back"
    assert schedule.take(WALL_MS - 3_600_000, 10, INTERVAL_MS) == [DueCheck("a", 1)]
    assert schedule.wait_ms(WALL_MS - 3_600_000) == INTERVAL_MS


def test_a_question_that_was_not_asked_is_tried_each_second_whatever_the_wall_clock_says() -> None:
    schedule = restarted(0.0)
    for number, wall_ms in enumerate((WALL_MS, WALL_MS - 3_600_000, WALL_MS - 7_200_000), 1):
        assert schedule.take(wall_ms, 10, INTERVAL_MS) == [DueCheck("a", number)]
        assert schedule.hold_back("a", number * ASK_AGAIN_MS - 1.0) and schedule.wait_ms(wall_ms) == INTERVAL_MS
        assert schedule.hold_back("a", number * ASK_AGAIN_MS) and schedule.wait_ms(wall_ms) == 0
    schedule.asked("a", NAME, 3, 3.0 * ASK_AGAIN_MS)
    assert schedule.take(wall_ms, 10, INTERVAL_MS) == [], "it is asked meanwhile"
    assert schedule.hold_back("a", 5.0 * ASK_AGAIN_MS) and schedule.take(wall_ms, 10, INTERVAL_MS) == []


def test_a_question_for_an_instance_that_has_gone_is_not_tried_each_second() -> None:
    schedule = restarted(0.0)
    assert schedule.take(WALL_MS, 10, INTERVAL_MS) == [DueCheck("a", 1)]
    assert schedule.take(WALL_MS + INTERVAL_MS - 1, 10, INTERVAL_MS) == []
    assert schedule.take(WALL_MS + INTERVAL_MS, 10, INTERVAL_MS) == [DueCheck("a", 2)]
    assert schedule.take(WALL_MS + 2 * INTERVAL_MS - 1, 10, INTERVAL_MS) == []


@pytest.mark.parametrize("padding", ["", "x" * 6_000])
def test_producers_that_are_started_again_and_again_leave_others_their_checks(padding: str) -> None:
    """`padding`: so long that one answer has room for one id alone."""
    schedule = TransactionCheckSchedule()
    count = 50 if not padding else 3
    others = [f"other{number}{padding}" for number in range(count)]
    restarting = [f"restarting{number}{padding}" for number in range(3 * count)]
    for one in restarting:
        schedule.add(one, NAME, WALL_MS + 10_000_000)
    for one in others:
        schedule.add(one, NAME, WALL_MS)
    taken: list[str] = []
    for round_number in range(1 if not padding else 6):
        for one in restarting:
            schedule.hold_back(one, round_number * 11_000.0)
        taken += [one.transactional_id for one in schedule.take(WALL_MS, 100, INTERVAL_MS)]
    assert sorted(one for one in taken if one in others) == sorted(others)
    assert sum(one in restarting for one in taken) == len(others), "half of it is theirs"


def test_a_check_that_is_due_at_once_and_by_its_time_is_taken_once() -> None:
    schedule = TransactionCheckSchedule()
    for one in ("a", "b"):
        schedule.add(one, NAME, WALL_MS)
    schedule.hold_back("b", 0.0)
    schedule.hold_back("a", 0.0)
    assert sorted(schedule.take(WALL_MS, 10, INTERVAL_MS)) == [DueCheck("a", 1), DueCheck("b", 1)]
    assert schedule.wait_ms(WALL_MS) == INTERVAL_MS


def test_the_application_has_its_time_from_the_question_on() -> None:
    schedule = restarted(0.0)
    schedule.take(WALL_MS, 10, INTERVAL_MS)
    assert is_held_at(schedule, 0.0, 25_000.0), "nobody was asked yet"
    schedule.asked("a", NAME, 1, 25_000.0)
    assert is_held_at(schedule, 25_000.0, 25_000.0 + RESTART_WAIT_MS - 1)
    assert not schedule.hold_back("a", 25_000.0 + RESTART_WAIT_MS)
    assert not schedule.hold_back("a", 25_001.0 + RESTART_WAIT_MS), "its abort was not written: it asks again"
    schedule.asked("a", NAME, 2, 36_000.0)
    assert not schedule.hold_back("a", 36_001.0), "the first question counts"


def test_a_question_that_finds_no_way_out_is_not_waited_for_for_ever() -> None:
    schedule = restarted(0.0)
    assert is_held_at(schedule, 0.0, RESTART_ASK_MAX_MS - 1)
    assert not schedule.hold_back("a", RESTART_ASK_MAX_MS)


def test_an_answer_that_says_nothing_ends_the_wait_for_that_question_alone() -> None:
    schedule = TransactionCheckSchedule()
    schedule.add("a", NAME, WALL_MS)
    assert schedule.take(WALL_MS, 10, INTERVAL_MS) == [DueCheck("a", 1)]
    assert schedule.hold_back("a", 0.0)
    schedule.asked("a", NAME, 1, 1.0)
    schedule.left_undecided("a", NAME, 1)
    assert is_held_at(schedule, 0.0, RESTART_WAIT_MS + 1), "the question was taken before the restart"
    assert schedule.take(WALL_MS, 10, INTERVAL_MS) == [DueCheck("a", 2)]
    schedule.left_undecided("a", NAME._replace(start_ms=1), 2)
    assert schedule.hold_back("a", RESTART_WAIT_MS + 2), "of another transaction"
    schedule.left_undecided("a", NAME, 2)
    assert not schedule.hold_back("a", RESTART_WAIT_MS + 3)


def test_a_later_instance_waits_anew() -> None:
    schedule = restarted(0.0)
    schedule.take(WALL_MS, 10, INTERVAL_MS)
    schedule.asked("a", NAME, 1, 100.0)
    assert is_held_at(schedule, 0.0, 5_000.0) and not schedule.hold_back("a", RESTART_WAIT_MS + 100)
    schedule.left_undecided("a", NAME, 1)
    hour_ms = 3_600_000.0
    assert schedule.hold_back("a", hour_ms) and schedule.wait_ms(WALL_MS) == 0, "it is asked about again"
    schedule.left_undecided("a", NAME, 1)
    assert schedule.hold_back("a", hour_ms + 1), "the answer to the question that the former instance waited for"
    assert schedule.take(WALL_MS, 10, INTERVAL_MS) == [DueCheck("a", 2)]
    schedule.asked("a", NAME, 2, hour_ms + 1)
    assert is_held_at(schedule, hour_ms + 1, hour_ms + RESTART_WAIT_MS)
    assert not schedule.hold_back("a", hour_ms + RESTART_WAIT_MS + 1)


def test_what_has_ended_is_not_asked_about_at_once() -> None:
    schedule = restarted()
    schedule.forget("a")
    assert schedule.wait_ms(WALL_MS) is None and schedule.take(WALL_MS, 10, INTERVAL_MS) == []
    schedule.add("a", NAME, WALL_MS + 1)
    schedule.hold_back("a", 1_000.0)
    schedule.add("a", NAME._replace(start_ms=9), WALL_MS + 2)
    assert schedule.take(WALL_MS + 1, 10, INTERVAL_MS) == [], "the next transaction"
    for number in range(5):
        schedule.add(f"b{number}", NAME, WALL_MS)
        schedule.hold_back(f"b{number}", 1_000.0)
    assert [one.transactional_id for one in schedule.take(WALL_MS, 3, INTERVAL_MS)] == ["b0", "b1", "b2"]
    assert [one.transactional_id for one in schedule.take(WALL_MS, 3, INTERVAL_MS)] == ["b3", "b4"]
