"""The rules for transactions find what they are there for: each broken once by hand."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bmq.coordinator.transactions.check_back import TransactionName
from bmq.coordinator.transactions.transaction import MAX_EPOCH
from bmq.protocol.error_codes import ErrorCode
from tests.simulation.check_answers import Application, Database, Entry, Question
from tests.simulation.deserted import Deserted, DesertedIds
from tests.simulation.history import Violation
from tests.simulation.outcome import Outcome
from tests.simulation.producer_epochs import TransactionalId
from tests.simulation.transaction_history import (
    CommittedRead,
    Place,
    Transaction,
    TransactionHistory,
    copied_from,
    new_value,
    producer_and_count,
)

pytestmark = pytest.mark.simulation

FIRST: Place = ("events", 0)
SECOND: Place = ("events", 1)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def sent(history: TransactionHistory, name: str = "w.1", *, count: int = 2) -> tuple[Transaction, list[bytes]]:
    """A transaction with a record in each of both partitions."""
    transaction = history.begin(f"{name}.1")
    values = [new_value(name, number) for number in range(1, count + 1)]
    for value, place in zip(values, (FIRST, SECOND), strict=False):
        history.send(transaction, place, [value])
    return transaction, values


def saw(place: Place, offset: int, value: bytes) -> CommittedRead:
    return CommittedRead(place, offset, offset + 1, [(offset, value)], [])


def left_out(place: Place, offset: int, value: bytes) -> CommittedRead:
    return CommittedRead(place, offset, offset + 1, [], [(offset, value)])


def test_values_say_who_sent_them_and_what_they_copy() -> None:
    assert producer_and_count(new_value("w0.3", 17)) == ("w0.3", 17)
    assert copied_from(new_value("m", 1, (2, 40))) == (2, 40)


def test_nobody_sees_what_nobody_committed() -> None:
    history = TransactionHistory()
    transaction, values = sent(history)
    with pytest.raises(Violation, match="which is open"):
        history.read_committed(saw(FIRST, 0, values[0]))
    transaction.ask()
    history.read_committed(saw(FIRST, 0, values[0]))
    with pytest.raises(Violation, match="was read as committed before"):
        history.aborted(transaction)


def test_what_was_aborted_is_never_seen_and_what_was_committed_never_left_out() -> None:
    history = TransactionHistory()
    aborted, values = sent(history)
    history.aborted(aborted)
    with pytest.raises(Violation, match="which is aborted"):
        history.read_committed(saw(FIRST, 0, values[0]))
    committed, values = sent(history, "w.2")
    committed.ask()
    history.committed(committed)
    with pytest.raises(Violation, match="is committed"):
        history.read_committed(left_out(SECOND, 1, values[1]))


@pytest.mark.parametrize("is_seen_first", [True, False])
def test_an_unknown_outcome_is_the_same_everywhere(is_seen_first: bool) -> None:
    history = TransactionHistory()
    transaction, values = sent(history)
    transaction.ask()
    reads = [saw(FIRST, 0, values[0]), left_out(SECOND, 0, values[1])]
    first, second = reads if is_seen_first else reads[::-1]
    history.read_committed(first)
    with pytest.raises(Violation, match="torn"):
        history.read_committed(second)


def test_at_the_end_all_of_it_is_there_or_nothing() -> None:
    history = TransactionHistory()
    transaction, values = sent(history)
    transaction.ask()
    everything = {FIRST: [(0, values[0])], SECOND: [(0, values[1])]}
    history.check_final(everything, {})
    history.check_final(everything, everything)
    with pytest.raises(Violation, match="torn"):
        history.check_final(everything, {FIRST: [(0, values[0])]})
    history.committed(transaction)
    with pytest.raises(Violation, match="torn"):
        history.check_final(everything, {})


def test_what_was_acknowledged_stays_where_it_is() -> None:
    history = TransactionHistory()
    _, values = sent(history)
    history.acknowledge(FIRST, 3, values[:1])
    with pytest.raises(Violation, match="is there twice"):
        history.read(FIRST, 4, values[0])
    with pytest.raises(Violation, match="is now None"):
        history.check_final({}, {})


def test_the_order_of_sending_is_kept() -> None:
    history = TransactionHistory()
    transaction = history.begin("w.1.1")
    values = [new_value("w.1", number) for number in (1, 2)]
    history.send(transaction, FIRST, values)
    transaction.ask()
    log = {FIRST: [(0, values[1]), (1, values[0])]}
    with pytest.raises(Violation, match=r"record 1 of w.1 follows record 2"):
        history.check_final(log, log)


def test_the_stable_end_lies_in_front_of_the_end_and_never_goes_back() -> None:
    history = TransactionHistory()
    with pytest.raises(Violation, match="stable up to 5, and to end at 4"):
        history.hear_stable_end(FIRST, 5, 4)
    history.hear_stable_end(FIRST, 4, 4)
    with pytest.raises(Violation, match="stable up to 3, and up to 4 before"):
        history.ask_stable_end(FIRST, 3, history.stable_end(FIRST))


def test_markers_of_one_epoch_say_the_same() -> None:
    history = TransactionHistory()
    history.keeps_its_epoch(7, 3)
    for is_commit in (True, False):
        history.read_marker(7, 3, is_commit)
    history.read_marker(7, 4, True)
    with pytest.raises(Violation, match="both kinds"):
        history.read_marker(7, 4, False)


def test_offsets_of_a_commit_are_stable_at_once_and_those_of_an_abort_never_there() -> None:
    history = TransactionHistory()
    transaction, _ = sent(history)
    history.send_offset(transaction, 0, 9)
    transaction.ask()
    history.committed(transaction)
    with pytest.raises(Violation, match="stable offset of 0 went back from 9 to 0"):
        history.fetched_offset(0, 0, history.stable_offsets[0], is_stable=True)
    other, _ = sent(history, "w.2")
    history.send_offset(other, 0, 12)
    history.aborted(other)
    with pytest.raises(Violation, match="is 12, which no transaction committed"):
        history.fetched_offset(0, 12, 9, is_stable=True)


def test_copies_are_those_of_what_lies_below_the_offset_each_once() -> None:
    history = TransactionHistory()
    source = {0: [(0, b"a"), (2, b"b"), (5, b"c")]}
    copies = [new_value("m", number, (0, offset)) for number, offset in enumerate((0, 2), 1)]
    assert history.check_copies(source, copies, {0: 3}) == 2
    with pytest.raises(Violation, match="was not copied"):
        history.check_copies(source, copies[:1], {0: 3})
    with pytest.raises(Violation, match="copied twice"):
        history.check_copies(source, [*copies, new_value("m", 3, (0, 2))], {0: 3})
    with pytest.raises(Violation, match="only 2 is committed"):
        history.check_copies(source, copies, {0: 2})


def test_epochs_go_up_and_belong_to_one_client() -> None:
    identity = TransactionalId("w", Clock(), MAX_EPOCH)
    first, second = identity.ask("w.1"), identity.ask("w.2")
    claim = identity.told(second, 7, 4)
    with pytest.raises(Violation, match=r"both w.2 and w.1 were given epoch 4 of producer 7"):
        identity.told(first, 7, 4)
    assert not identity.is_fenced(claim)
    with pytest.raises(Violation, match="was given epoch 3 of producer 7 of w after 4"):
        identity.told(identity.ask("w.3"), 7, 3)
    with pytest.raises(Violation, match="the producer ids 7 and 8"):
        identity.told(identity.ask("w.3"), 8, 5)


def test_a_producer_id_whose_epochs_are_used_up_does_not_come_back() -> None:
    identity = TransactionalId("w", Clock(), last_epoch=1)
    early = identity.ask("w.0")
    claim = identity.told(identity.ask("w.1"), 7, 1)
    known = identity.known()
    with pytest.raises(Violation, match="was given epoch 2 of producer 7"):
        identity.bumped(claim, 7, 2, known)
    identity.told(identity.ask("w.2"), 8, 0)
    assert identity.rotations == 1
    assert identity.is_fenced(claim)
    assert not identity.is_fenced(identity.told(identity.ask("w.2"), 8, 1))
    with pytest.raises(Violation, match="which had another producer id by then"):
        identity.told(identity.ask("w.3"), 7, 1)
    identity.told(early, 7, 0)  # it was asked for before anybody knew


def test_a_client_whose_own_end_gave_it_another_producer_id_is_not_fenced() -> None:
    identity = TransactionalId("w", Clock(), last_epoch=1)
    claim = identity.told(identity.ask("w.1"), 7, 1)
    identity.bumped(claim, 8, 0, identity.known())
    assert (claim.producer_id, claim.epoch) == (8, 0)
    assert not identity.is_fenced(claim)


def test_records_of_a_passing_topic_are_not_followed() -> None:
    history = TransactionHistory(("passing",))
    transaction = history.begin("w.1")
    for values in ([b"w-1:"], [b"w-2:"]):
        history.send(transaction, ("passing", 0), values)
        history.acknowledge(("passing", 0), 0, values)
    history.committed(transaction)
    history.check_final({}, {})
    assert history.acknowledged_batches == 2


def test_what_is_sent_after_the_fencing_does_not_pass() -> None:
    identity = TransactionalId("w", Clock(), MAX_EPOCH)
    claim = identity.told(identity.ask("w.1"), 7, 0)
    identity.passed(claim, identity.is_fenced(claim), "EndTxn")
    identity.told(identity.ask("w.2"), 7, 1)
    with pytest.raises(Violation, match=r"EndTxn of w.1 at epoch 0 of producer 7 passed"):
        identity.passed(claim, identity.is_fenced(claim), "EndTxn")


def test_a_refusal_has_a_reason() -> None:
    clock = Clock()
    identity = TransactionalId("w", clock, MAX_EPOCH)
    claim = identity.told(identity.ask("w.1"), 7, 0)
    clock.now_s = 1.0
    for started_s in (None, 0.5):
        with pytest.raises(Violation, match="nobody else had asked"):
            identity.refused(claim, ErrorCode.PRODUCER_FENCED, started_s, timeout_s=1.0)
    identity.refused(claim, ErrorCode.PRODUCER_FENCED, 0.0, timeout_s=1.0)
    identity.ask("w.2")
    identity.refused(claim, ErrorCode.PRODUCER_FENCED, None, timeout_s=1.0)


def test_what_was_given_up_may_refuse_its_own_client() -> None:
    identity = TransactionalId("w", Clock(), MAX_EPOCH)
    identity.lost(identity.ask("w.1"))
    claim = identity.told(identity.ask("w.1"), 7, 1)
    identity.refused(claim, ErrorCode.INVALID_PRODUCER_EPOCH, None, timeout_s=1.0)


# ---------------------------------------------------------------- applications that are asked


class Asked:
    """A database whose transaction "w.1.1" was begun with epoch 3 of producer 7."""

    def __init__(self, *, has_check_ids: bool = True) -> None:
        self.clock = Clock()
        self.history = TransactionHistory()
        self.database = Database(self.history, self.clock, has_check_ids)
        self.transaction = self.history.begin("w.1.1")
        identity = TransactionalId("w", self.clock, MAX_EPOCH)
        claim = identity.told(identity.ask("w.1"), 7, 3)
        self.database.begin(identity, claim, self.transaction)

    @property
    def entry(self) -> Entry:
        return self.database.entry_of(self.transaction)

    def ask(
        self, check_id: str | None = "w.1.1", *, id: str = "w", epoch: int = 3, since_s: float = 0.0
    ) -> Entry | None:
        return self.database.asked(Question(id, TransactionName(7, epoch, 1), check_id), since_s)


def test_a_question_names_an_open_transaction_as_its_client_has() -> None:
    asked = Asked()
    assert asked.ask() is asked.entry and asked.entry.asked_s == [0.0]
    with pytest.raises(Violation, match="has not opted in"):
        asked.ask(id="stranger")
    with pytest.raises(Violation, match="named otherwise"):
        asked.ask(None)
    with pytest.raises(Violation, match="that nobody wrote"):
        asked.ask("w.1.2")
    with pytest.raises(Violation, match="has the check id of w at"):
        asked.ask(epoch=4)
    assert Asked(has_check_ids=False).ask(None) is not None
    assert Asked(has_check_ids=False).ask(None, epoch=4) is None, "nothing was begun with it yet"


def test_what_had_ended_is_not_asked_about() -> None:
    asked = Asked()
    asked.clock.now_s = 5.0
    asked.transaction.ask()
    asked.history.committed(asked.transaction)
    asked.clock.now_s = 6.0
    assert asked.ask(since_s=4.9) is asked.entry, "the question was on its way"
    with pytest.raises(Violation, match=r"w\.1\.1 had ended at 5\.000 s"):
        asked.ask(since_s=5.1)
    asked.entry.may_come_again = True
    assert asked.ask(since_s=5.1) is asked.entry


def deserted(**times: Any) -> tuple[DesertedIds, Asked, Deserted]:
    """A transaction of 30 s that began at 0 s and is in the database."""
    asked = Asked()
    asked.database.commit(asked.transaction)
    application = Application(asked.database, Random(1))
    one = Deserted(asked.entry, b"value", 0.0, 30.0, **times)
    ids = DesertedIds(cast(Any, SimpleNamespace()), (FIRST,), application, Random(1), cast(Any, None))
    ids.deserted.append(one)
    return ids, asked, one


def judged(ids: DesertedIds, *values: bytes) -> tuple[int, int, int]:
    """(committed, aborted after a question, aborted without one)"""
    outcome = Outcome(0)
    ids.check({FIRST: list(enumerate(values))}, outcome)
    return outcome.deserted_committed, outcome.deserted_asked, outcome.deserted_not_askable


def test_what_is_deserted_is_asked_about_before_its_time_out() -> None:
    ids, asked, _ = deserted()
    with pytest.raises(Violation, match="by its time-out, and nobody was asked"):
        judged(ids)
    assert judged(ids, b"value") == (1, 0, 0)
    asked.entry.asked_s = [20.0]
    assert judged(ids) == (0, 1, 0)


def test_a_new_instance_waits_for_the_question_and_for_the_application() -> None:
    ids, asked, one = deserted(restarted_s=5.0, let_in_s=15.1)
    asked.entry.asked_s = [4.0]
    with pytest.raises(Violation, match=r"10\.100 s after its new instance came, and nobody was asked"):
        judged(ids)
    asked.entry.asked_s = [4.0, 6.0]
    with pytest.raises(Violation, match=r"is in the database, and was aborted 9\.100 s after the question"):
        judged(ids)
    assert judged(ids, b"value") == (1, 0, 0)
    one.let_in_s = 16.1
    assert judged(ids) == (0, 1, 0)
    one.timeout_s, one.let_in_s, asked.entry.asked_s = 60.0, 36.0, []
    assert judged(ids) == (0, 0, 1), "the question found no way out"
