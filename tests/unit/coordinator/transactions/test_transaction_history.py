"""Whatever clients ask in whichever order, and whatever fails: epochs never go back, and a transaction has one outcome.

Method: one transactional id over the deciding functions alone. At most one record is on its way; it becomes durable, is
refused, or is lost together with the memory (a new coordinator, which has the log). The model is the list of transactions.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bmq.coordinator.transactions.check_back import TransactionName, decide, name_of
from bmq.coordinator.transactions.transaction import (
    MAX_EPOCH,
    Outcome,
    Producer,
    abort_timed_out,
    add_partitions,
    completed,
    end_transaction,
    init_producer_id,
    is_prepared,
    partitions_of,
    verify_partitions,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.transaction_records import TransactionStatus, TransactionValue, decode_value, encode_value

TIMEOUT_MS = 1_000
S = TransactionStatus


@dataclass
class Waiting:
    """A record on its way, and who is answered when it is durable."""

    outcome: Outcome
    kind: str
    producer: Producer | None
    is_commit: bool = False


class TransactionHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[bytes] = []
        self.value: TransactionValue | None = None
        self.waiting: Waiting | None = None
        self.now_ms = 0
        self.next_producer_id = 0
        self.clients: list[Producer] = []  # every identity that was ever handed out
        self.told: dict[tuple[Producer, bool], Producer] = {}  # version 2 ends answered with success
        self.outcomes: list[bool] = []  # of settled transactions, in order
        self.committed: dict[Producer, bool] = {}  # version 2: who ended -> what the log says became of it
        self.is_timed_out = False
        self.names: list[TransactionName] = []  # of open transactions, which may be asked about
        self.ended: dict[TransactionName, bool] = {}

    # --- what becomes durable

    def fresh(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    def apply(self, value: TransactionValue) -> None:
        before = self.value
        if before is not None:
            assert (value.producer_id, value.producer_epoch) >= (before.producer_id, before.producer_epoch)
            if is_prepared(before):
                assert value.status == (S.COMPLETE_COMMIT if before.status == S.PREPARE_COMMIT else S.COMPLETE_ABORT), (
                    "nothing comes between a settled end and its completion"
                )
        if is_prepared(value):
            assert before is not None
            self.outcomes.append(value.status == S.PREPARE_COMMIT)
            if before.status == S.ONGOING:
                assert name_of(before) not in self.ended, "one outcome for each transaction"
                self.ended[name_of(before)] = value.status == S.PREPARE_COMMIT
            if value.client_transaction_version >= 2:
                ended = Producer(before.producer_id, before.producer_epoch)
                assert ended not in self.committed, "one outcome for each epoch"
                self.committed[ended] = value.status == S.PREPARE_COMMIT
            if value.status == S.PREPARE_COMMIT:
                assert before.status == S.ONGOING and partitions_of(value) == partitions_of(before)
        if value.status == S.ONGOING:
            self.names.append(name_of(value))
        self.log.append(encode_value(value))
        self.value = value

    def ask(self, outcome: Outcome, kind: str, producer: Producer | None = None, is_commit: bool = False) -> None:
        assert not outcome.needs_producer_id
        if outcome.write is None:
            self.answer(outcome, kind, producer, is_commit)
        else:
            assert self.waiting is None, "one record at a time"
            self.waiting = Waiting(outcome, kind, producer, is_commit)

    def answer(self, outcome: Outcome, kind: str, producer: Producer | None, is_commit: bool) -> None:
        if outcome.error:
            return
        given = Producer(outcome.producer_id, outcome.producer_epoch)
        if kind in ("init", "end 2"):
            assert given.producer_epoch <= MAX_EPOCH, "the last epoch is nobody's"
            self.clients.append(given)
        if kind == "end 0":
            assert self.outcomes[-1] == is_commit, "success is what the log says"
        if kind == "end 2":
            assert producer is not None
            assert self.committed[producer] == is_commit, "success is what the log says"
            assert self.told.setdefault((producer, is_commit), given) == given, "a repeated end is answered the same"

    # --- what clients do

    @property
    def is_pending(self) -> bool:
        return self.waiting is not None or (self.value is not None and is_prepared(self.value))

    def somebody(self, data: st.DataObject) -> Producer:
        if self.clients and data.draw(st.booleans()):  # type: ignore[arg-type]
            return data.draw(st.sampled_from(self.clients[-3:]))
        if self.value is not None and data.draw(st.booleans()):
            return Producer(self.value.producer_id, self.value.producer_epoch)
        return Producer(data.draw(st.integers(0, 3)), data.draw(st.integers(0, MAX_EPOCH + 1)))

    @initialize(epoch=st.sampled_from([0, 5, MAX_EPOCH - 2, MAX_EPOCH - 1, MAX_EPOCH]))
    def some_epoch(self, epoch: int) -> None:
        self.apply(
            TransactionValue(
                producer_id=self.fresh(), producer_epoch=epoch, timeout_ms=TIMEOUT_MS, status=S.EMPTY, last_update_ms=0
            )
        )

    @rule(data=st.data(), is_new=st.booleans())
    def init(self, data: st.DataObject, is_new: bool) -> None:
        given = None if is_new else self.somebody(data)
        outcome = init_producer_id(self.value, self.is_pending, given, TIMEOUT_MS, self.now_ms)
        if outcome.needs_producer_id:
            outcome = init_producer_id(self.value, self.is_pending, given, TIMEOUT_MS, self.now_ms, self.fresh())
        self.ask(outcome, "init", given)

    @rule(data=st.data(), partition=st.integers(0, 3), version=st.sampled_from([0, 2]))
    def add(self, data: st.DataObject, partition: int, version: int) -> None:
        producer = self.somebody(data)
        self.now_ms += 1  # no two transactions of one epoch begin at the same time
        outcome = add_partitions(self.value, self.is_pending, producer, [("t", partition)], version, self.now_ms)
        self.ask(outcome, "add", producer)
        if not outcome.error and outcome.write is None:
            assert verify_partitions(self.value, producer, [("t", partition)]) == [ErrorCode.NONE]

    @rule(data=st.data(), is_commit=st.booleans(), version=st.sampled_from([0, 2, 2]))
    def end(self, data: st.DataObject, is_commit: bool, version: int) -> None:
        producer = self.somebody(data)
        arguments = (self.value, self.is_pending, producer, is_commit, version, self.now_ms)
        outcome = end_transaction(*arguments)
        if outcome.needs_producer_id:
            outcome = end_transaction(*arguments, self.fresh())
        self.ask(outcome, f"end {version}", producer, is_commit)

    @precondition(lambda self: self.names)
    @rule(data=st.data(), is_commit=st.booleans())
    def answer_a_check(self, data: st.DataObject, is_commit: bool) -> None:
        """About the open transaction, or one of those before."""
        name = data.draw(st.sampled_from(self.names[-3:]))
        outcome = decide(self.value, self.is_pending, name, is_commit, self.now_ms)
        if outcome.needs_producer_id:
            outcome = decide(self.value, self.is_pending, name, is_commit, self.now_ms, self.fresh())
        if outcome.write is None and not outcome.error:
            assert self.ended[name] == is_commit, "success is what the log says"
        if outcome.write is not None:
            assert self.value is not None and name_of(self.value) == name, "no other transaction is ended"
        if outcome.error == ErrorCode.INVALID_TXN_STATE:
            assert self.ended[name] != is_commit
        self.ask(outcome, "check")

    # --- what happens by itself

    @precondition(lambda self: not self.is_pending)
    @rule(wait_ms=st.sampled_from([10, TIMEOUT_MS + 1]))
    def time_passes(self, wait_ms: int) -> None:
        self.now_ms += wait_ms
        assert self.value is not None
        outcome = abort_timed_out(self.value, self.now_ms)
        if outcome is not None and outcome.needs_producer_id:
            outcome = abort_timed_out(self.value, self.now_ms, self.fresh())
        if outcome is not None:
            self.ask(outcome, "abort")

    @precondition(lambda self: self.waiting is not None)
    @rule(fate=st.sampled_from(["durable", "durable", "refused", "durable and unheard"]))
    def record_ends(self, fate: str) -> None:
        waiting, self.waiting = self.waiting, None
        assert waiting is not None and waiting.outcome.write is not None
        if fate == "refused":
            return
        self.apply(waiting.outcome.write)
        if fate == "durable":
            self.answer(waiting.outcome, waiting.kind, waiting.producer, waiting.is_commit)

    @precondition(lambda self: self.waiting is None and self.value is not None and is_prepared(self.value))
    @rule()
    def markers_are_written(self) -> None:
        assert self.value is not None
        self.apply(completed(self.value, self.now_ms))

    @rule()
    def fail_over(self) -> None:
        self.waiting = None
        self.value = decode_value(self.log[-1])

    @invariant()
    def the_log_has_the_state(self) -> None:
        if self.log:
            assert decode_value(self.log[-1]) == self.value


TransactionHistory.TestCase.settings = settings(stateful_step_count=40)
TestTransactionHistory = pytest.mark.unit(TransactionHistory.TestCase)
