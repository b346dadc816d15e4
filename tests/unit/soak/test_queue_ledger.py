"""What a share group did wrong is found, each kind of it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from bmq.protocol.error_codes import ErrorCode
from tests.soak.queues.ledger import QueueLedger, Span
from tests.soak.queues.plan import Choice
from tests.soak.queues.record import REJECTED, DeadLetter, Delivery

pytestmark = pytest.mark.campaign("unit")

LIMIT = 3
LOCK_S = 6.0
PLACE = (0, 0)
ENDS = {0: 1}
WHERE = "group g: offset 0 of partition 0"
TIMED_OUT = -185  # librdkafka's own
TOO_OFTEN = "Delivery count limit reached."


class History:
    """A ledger of one record. Members answer a tenth of a second after they were given it, unless it is told otherwise."""

    def __init__(self) -> None:
        self.ledger = QueueLedger("g", LIMIT, LOCK_S)

    def given(self, member: str, at_s: float, number: int = 1, since_s: float | None = None) -> None:
        self.ledger.given(PLACE, Delivery(member, at_s - 0.1 if since_s is None else since_s, at_s, number))

    def says(self, member: str, at_s: float, choice: Choice) -> None:
        self.ledger.deciding(member, at_s, choice, [PLACE])

    def hears(self, member: str, at_s: float, error_code: int | None = None) -> None:
        self.ledger.answered(member, at_s, [PLACE], error_code)

    def settled(self, member: str, at_s: float, choice: Choice = Choice.ACCEPT, number: int = 1) -> None:
        self.given(member, at_s, number)
        self.says(member, at_s + 0.1, choice)
        self.hears(member, at_s + 0.2)

    def dead(self, at_s: float, reason: str = REJECTED, number: int = 1) -> None:
        self.ledger.dead(DeadLetter(PLACE, number, reason, at_s))

    def found(self, outages: Iterable[Span] = ()) -> list[str]:
        return self.ledger.judge(ENDS, tuple(outages))


@pytest.fixture
def history() -> History:
    return History()


def test_an_accepted_record_is_well(history: History) -> None:
    history.settled("a", 1)
    assert history.ledger.unsettled(ENDS) is None
    assert history.found() == []
    assert history.ledger.counts["accepted"] == 1


def test_a_record_that_was_never_delivered_is_lost(history: History) -> None:
    assert history.ledger.unsettled(ENDS) is not None
    assert history.found() == [f"{WHERE} was never delivered, and is not among the dead letters"]


def test_a_record_that_was_delivered_and_never_accepted_is_lost(history: History) -> None:
    history.settled("a", 1, Choice.RELEASE)
    assert history.ledger.unsettled(ENDS) is not None
    assert history.found() == [f"{WHERE} was delivered and never accepted, and is not among the dead letters"]


@pytest.mark.parametrize("error_code", [None, TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_an_accept_without_a_good_answer_is_unknown_and_counted(history: History, error_code: int | None) -> None:
    history.given("a", 1)
    history.says("a", 2, Choice.ACCEPT)
    if error_code is not None:
        history.hears("a", 3, error_code)
    assert history.found() == []
    assert history.ledger.counts["accepts_unknown"] == 1
    assert history.ledger.counts["accepted"] == 0


def test_a_record_whose_accept_was_refused_is_lost_unless_it_comes_again(history: History) -> None:
    history.given("a", 1)
    history.says("a", 8, Choice.ACCEPT)
    history.hears("a", 9, ErrorCode.INVALID_RECORD_STATE)
    assert history.ledger.unsettled(ENDS) is not None
    assert history.found() == [f"{WHERE} was delivered and never accepted, and is not among the dead letters"]


def test_a_record_whose_accept_was_refused_may_be_accepted_by_another(history: History) -> None:
    history.given("a", 1)
    history.settled("b", 8, number=2)
    history.says("a", 9, Choice.ACCEPT)
    history.hears("a", 10, ErrorCode.INVALID_RECORD_STATE)
    assert history.found() == []


def test_a_dead_letter_as_rejected_whose_reject_was_refused(history: History) -> None:
    history.given("a", 1)
    history.says("a", 8, Choice.REJECT)
    history.hears("a", 9, ErrorCode.INVALID_RECORD_STATE)
    history.dead(10)
    assert history.found() == [f"{WHERE} is a dead letter as rejected, and nobody rejected it"]


def test_after_an_unknown_accept_it_may_come_again_and_be_accepted_once(history: History) -> None:
    history.given("a", 1)
    history.says("a", 2, Choice.ACCEPT)
    history.hears("a", 3, TIMED_OUT)
    history.settled("b", 4, number=2)
    assert history.found() == []
    assert history.ledger.counts["accepted"] == 1


def test_a_record_that_is_given_after_its_accept_was_acknowledged(history: History) -> None:
    history.settled("a", 1)
    history.given("b", 9, 2)
    assert history.found() == [f"{WHERE} was given to b after accept of a was acknowledged"]


def test_the_same_is_found_when_the_other_member_tells_it_first(history: History) -> None:
    history.given("a", 1)
    history.says("a", 1.1, Choice.ACCEPT)
    history.given("b", 9, 2)
    history.hears("a", 1.2)
    assert history.found() == [f"{WHERE} was given to b after accept of a was acknowledged"]


def test_a_delivery_that_may_have_been_on_its_way_before_the_accept_is_well(history: History) -> None:
    history.settled("a", 20, number=2)
    history.given("b", 21, 1, since_s=3)
    assert history.found() == []


@pytest.mark.parametrize("first", [Choice.ACCEPT, Choice.REJECT])
def test_two_ends_acknowledged_while_the_record_was_locked(history: History, first: Choice) -> None:
    """The second member was given it before the first one had its answer, so that no other rule finds it."""
    history.given("a", 1)
    history.given("b", 1.2, 2)
    history.says("a", 1.1, first)
    history.says("b", 1.3, Choice.ACCEPT)
    history.hears("b", 1.4)
    history.hears("a", 1.5)
    if first is Choice.REJECT:
        history.dead(2, number=1)
    found = history.found()
    assert f"{WHERE}: {first} of a was acknowledged while it was locked, and then accept of b" in found
    assert history.ledger.counts["ends_certain"] == 2


def test_an_end_acknowledged_while_the_record_was_locked_and_a_later_delivery(history: History) -> None:
    history.given("a", 1)
    history.given("b", 1.2, 2)
    history.says("a", 1.1, Choice.ACCEPT)
    history.hears("a", 1.5)
    assert f"{WHERE}: accept of a was acknowledged while it was locked, and b had it as delivery 2" in history.found()


@pytest.mark.parametrize("late", [Choice.ACCEPT, Choice.REJECT])
def test_an_end_that_is_late_is_acknowledged_without_effect_once_another_has_accepted(
    history: History, late: Choice
) -> None:
    """Below the start offset any acknowledgement is taken. Whoever tells it first."""
    history.given("a", 1)
    history.says("a", 8.5, late)
    history.hears("a", 8.6)
    history.settled("b", 8, number=2)
    assert history.ledger.unsettled(ENDS) is None
    assert history.found() == []
    counts = history.ledger.counts
    assert (counts["ends_certain"], counts["ends_late"], counts["accepted"]) == (1, 1, 1)


def test_an_end_that_is_late_although_nothing_else_had_ended_the_record(history: History) -> None:
    history.given("a", 1)
    history.says("a", 8.5, Choice.ACCEPT)
    history.given("b", 8, 2)
    history.hears("a", 8.6)
    history.says("b", 8.7, Choice.ACCEPT)
    history.hears("b", 8.8)
    why = "b had it as delivery 2, and nothing else had ended it"
    assert history.found() == [f"{WHERE}: accept of a was acknowledged for delivery 1, and {why}"]


def test_a_late_accept_after_an_end_that_was_refused(history: History) -> None:
    history.given("a", 1)
    history.given("b", 8, 2)
    history.says("b", 8.1, Choice.ACCEPT)
    history.hears("b", 8.2, ErrorCode.INVALID_RECORD_STATE)
    history.says("a", 8.5, Choice.ACCEPT)
    history.hears("a", 8.6)
    found = history.found()
    assert len(found) == 2  # and it is lost
    assert "nothing else had ended it" in found[0]


def test_a_late_accept_of_one_that_had_it_again(history: History) -> None:
    """What a member says of an older delivery is taken for its newest one."""
    history.given("a", 1)
    history.given("a", 8, 2)
    history.says("a", 8.5, Choice.ACCEPT)
    history.hears("a", 8.6)
    assert history.found() == []


@pytest.mark.parametrize("trouble", ["connection", "outage"])
def test_an_accept_of_one_that_may_have_lost_its_locks_is_not_certain(history: History, trouble: str) -> None:
    history.settled("a", 1)
    history.given("b", 1.15, 2)
    history.says("b", 1.16, Choice.ACCEPT)
    history.hears("b", 1.18)
    if trouble == "connection":
        history.ledger.troubled("a", 1.1)
    assert history.found([Span(1.05, 1.1)] if trouble == "outage" else ()) == []
    assert history.ledger.counts["ends_late"] == 1


def test_an_accept_that_was_late_is_the_only_one(history: History) -> None:
    """Its lock had run out by the member's clock, and nobody else was given the record."""
    history.given("a", 1)
    history.says("a", 8.5, Choice.ACCEPT)
    history.hears("a", 8.6)
    assert history.ledger.unsettled(ENDS) is None
    assert history.found() == []
    assert history.ledger.counts["ends_certain"] == 0


def test_an_accept_of_an_older_delivery_does_not_settle_a_record(history: History) -> None:
    history.given("a", 1)
    history.says("a", 2, Choice.ACCEPT)
    history.hears("a", 3, TIMED_OUT)
    history.settled("b", 8, Choice.RELEASE, number=2)
    assert history.ledger.unsettled(ENDS) is not None
    assert history.found() == [f"{WHERE} was delivered and never accepted, and is not among the dead letters"]


def test_a_delivery_count_that_comes_twice(history: History) -> None:
    history.settled("a", 1, Choice.RELEASE)
    history.settled("b", 3, number=1)
    assert history.found() == [f"{WHERE} has delivery 1 twice, the second at b"]


def test_a_delivery_count_that_falls(history: History) -> None:
    history.settled("a", 1, Choice.RELEASE, number=3)
    history.settled("b", 3, number=2)
    assert f"{WHERE} has delivery 2 behind 3" in history.found()


def test_counts_of_deliveries_that_overlapped_may_be_told_in_any_order(history: History) -> None:
    history.settled("a", 20, Choice.RELEASE, number=2)
    history.given("b", 21, 1, since_s=3)
    history.settled("a", 30, number=3)
    assert history.found() == []


@pytest.mark.parametrize("number", [0, LIMIT + 1])
def test_a_delivery_count_out_of_its_range(history: History, number: int) -> None:
    history.settled("a", 1, number=number)
    assert history.found() == [f"{WHERE} has delivery {number}; {LIMIT} are allowed"]


def test_a_lock_of_a_living_member_that_is_given_away(history: History) -> None:
    history.given("a", 1)
    history.settled("b", 4, number=2)
    assert history.found() == [
        f"{WHERE} was locked for a, and given to b 3.10 s later at most; a lock lasts {LOCK_S:g} s"
    ]


def test_what_its_member_gives_back_is_given_on_in_whichever_order_it_is_told(history: History) -> None:
    history.given("a", 1)
    history.given("b", 4, 2)
    history.says("a", 3, Choice.RELEASE)
    history.says("b", 5, Choice.ACCEPT)
    history.hears("b", 5)
    assert history.found() == []


def test_what_its_member_gives_back_too_late_excuses_nothing(history: History) -> None:
    history.given("a", 1)
    history.given("b", 4, 2)
    history.says("a", 4.5, Choice.RELEASE)
    history.says("b", 5, Choice.ACCEPT)
    history.hears("b", 5)
    assert len(history.found()) == 1


def test_a_lock_that_ran_out_is_counted(history: History) -> None:
    history.given("a", 1)
    history.settled("b", 1 + LOCK_S, number=2)
    assert history.found() == []
    assert history.ledger.counts["locks_run_out"] == 1


def test_a_member_that_ended_has_no_locks(history: History) -> None:
    history.given("a", 1)
    history.settled("b", 4, number=2)
    history.ledger.troubled("a", 3)
    assert history.found() == []


def test_a_member_that_had_trouble_long_before_has(history: History) -> None:
    history.ledger.troubled("a", 0.5)
    history.given("a", 1)
    history.settled("b", 4, number=2)
    assert len(history.found()) == 1


def test_locks_end_while_the_server_is_away(history: History) -> None:
    history.given("a", 1)
    history.settled("b", 4, number=2)
    assert history.found([Span(2, 3)]) == []


def test_other_outages_excuse_nothing(history: History) -> None:
    history.given("a", 101)
    history.settled("b", 104, number=2)
    assert len(history.found([Span(2, 3), Span(200, 210)])) == 1


def test_a_rejected_record_is_a_dead_letter(history: History) -> None:
    history.settled("a", 1, Choice.REJECT)
    assert history.ledger.unsettled(ENDS) is not None
    history.dead(2)
    assert history.ledger.unsettled(ENDS) is None
    assert history.found() == []
    assert history.ledger.counts["letters_of_rejected"] == 1


def test_a_rejected_record_that_is_no_dead_letter(history: History) -> None:
    history.settled("a", 1, Choice.REJECT)
    assert history.found() == [f"{WHERE} was rejected and is not among the dead letters"]


def test_a_rejected_record_that_is_given_again(history: History) -> None:
    history.settled("a", 1, Choice.REJECT)
    history.given("b", 5, 2)
    history.dead(6, number=2)
    assert history.found() == [f"{WHERE} was given to b after reject of a was acknowledged"]


def test_a_dead_letter_that_is_given_again(history: History) -> None:
    history.given("a", 1)
    history.says("a", 2, Choice.REJECT)
    history.dead(3)
    history.given("b", 5, 2)
    assert history.found() == [f"{WHERE} was given to b after it was a dead letter"]


def test_an_accepted_record_that_is_a_dead_letter(history: History) -> None:
    history.settled("a", 1)
    history.dead(2)
    assert history.found() == [f"{WHERE} was accepted, and is among the dead letters"]


def test_a_late_accept_of_a_record_that_another_has_rejected(history: History) -> None:
    history.given("a", 1)
    history.settled("b", 8, Choice.REJECT, number=2)
    history.says("a", 8.5, Choice.ACCEPT)
    history.hears("a", 8.6)
    history.dead(9, number=2)
    assert history.found() == []


def test_an_accept_that_was_answered_before_the_reject_that_made_a_dead_letter(history: History) -> None:
    history.given("a", 1)
    history.given("b", 8, 2)
    history.says("a", 8.5, Choice.ACCEPT)
    history.hears("a", 8.6)
    history.says("b", 9, Choice.REJECT)
    history.hears("b", 9.1)
    history.dead(10, number=2)
    assert f"{WHERE} was accepted, and is among the dead letters" in history.found()


def test_a_late_accept_of_a_record_that_was_given_up(history: History) -> None:
    """Of its last delivery, whose lock ran out."""
    history.settled("a", 1, Choice.RELEASE)
    history.settled("b", 2, Choice.RELEASE, number=2)
    history.given("c", 3, LIMIT)
    history.says("c", 10, Choice.ACCEPT)
    history.hears("c", 10.1)
    history.dead(10.2, TOO_OFTEN, LIMIT)
    assert history.found() == []


def test_an_accept_within_its_lock_of_a_record_that_was_given_up(history: History) -> None:
    history.settled("a", 1, Choice.RELEASE)
    history.settled("b", 2, Choice.RELEASE, number=2)
    history.settled("c", 3, number=LIMIT)
    history.dead(10, TOO_OFTEN, LIMIT)
    assert history.found() == [f"{WHERE} was accepted, and is among the dead letters"]


def test_a_dead_letter_of_fewer_deliveries_than_there_were(history: History) -> None:
    history.settled("a", 1, Choice.REJECT)
    history.given("b", 1.1, 2)
    history.dead(2, number=1)
    assert f"{WHERE} was delivered 2 times, and its dead letter says 1" in history.found()


def test_a_dead_letter_as_rejected_that_nobody_rejected(history: History) -> None:
    history.settled("a", 1, Choice.RELEASE)
    history.dead(2)
    assert history.found() == [f"{WHERE} is a dead letter as rejected, and nobody rejected it"]


def test_a_dead_letter_of_too_many_deliveries(history: History) -> None:
    for number in range(1, LIMIT + 1):
        history.settled("a", number, Choice.RELEASE, number)
    history.dead(9, TOO_OFTEN, LIMIT)
    assert history.found() == []


def test_a_dead_letter_of_too_few_deliveries(history: History) -> None:
    history.settled("a", 1, Choice.RELEASE)
    history.dead(9, TOO_OFTEN, LIMIT - 1)
    assert history.found() == [f"{WHERE} is a dead letter after {LIMIT - 1} deliveries"]


def test_a_dead_letter_may_come_twice_and_is_counted(history: History) -> None:
    history.settled("a", 1, Choice.REJECT)
    history.dead(2)
    history.dead(3)
    assert history.found() == []
    assert (history.ledger.counts["letters"], history.ledger.counts["letters_again"]) == (1, 1)


def test_an_answer_to_nothing(history: History) -> None:
    history.settled("a", 1)
    history.hears("b", 2)
    assert history.found() == [f"{WHERE} was answered to b, who had said nothing of it"]


def test_a_late_answer_to_one_of_two_things_that_a_member_said_is_unclear(history: History) -> None:
    history.given("a", 1)
    history.says("a", 2, Choice.RELEASE)
    history.given("a", 40, 2)
    history.says("a", 41, Choice.ACCEPT)
    history.hears("a", 42)
    assert history.found() == []
    assert (history.ledger.counts["answers_unclear"], history.ledger.counts["accepts_unknown"]) == (1, 1)


def test_a_record_that_nobody_sent(history: History) -> None:
    history.settled("a", 1)
    history.ledger.given((0, 7), Delivery("a", 2, 3, 1))
    assert history.found() == ["group g: offset 7 of partition 0 is behind the end of its partition"]


def test_damage_is_told(history: History) -> None:
    history.settled("a", 1)
    history.ledger.damaged("offset 0: other bytes")
    assert history.found() == ["group g: offset 0: other bytes"]


def test_many_of_a_kind_are_told_by_examples() -> None:
    found = QueueLedger("g", LIMIT, LOCK_S).judge({0: 100, 1: 0})
    assert (len(found), found[-1]) == (6, "… and 95 more like the last")
