"""Decides which transactional batches of a partition wait until the coordinator has verified their transaction. Pure.

The first batch of a producer's transaction in a partition waits while the coordinator is asked, and everything that
producer sends meanwhile waits behind it, in order. A guard is made before each question; a marker invalidates it. An
answer whose guard is invalid proves nothing: it may be about the transaction that the marker ended, and a batch placed
on its strength would be in no transaction, or in the next one. If each end of a transaction has a new epoch, the epoch
decides: a batch with the new epoch means that the marker ended an earlier transaction, so ask again; else it is stale.

Source: KIP-890, Kafka's VerificationStateEntry, AddPartitionsToTxnManager and ReplicaManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from bmq.log.partition_log import ProducedBatch
from bmq.log.producer_state import NO_OFFSET, ProducerEntry
from bmq.log.transactions import TransactionClaim
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import BatchHeader

_NOT_REACHED: Final = frozenset(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
_NOT_IN_TRANSACTION: Final = frozenset((ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE))


class HeldBatch(NamedTuple):
    """A checked batch that waits, its header, and its request's claim about its transaction."""

    batch: ProducedBatch
    header: BatchHeader
    claim: TransactionClaim


class Guard:
    """A pending question about one producer at one epoch. `is_valid`: no marker came since it was asked. `held`: in
    order.

    `on_marker`: called when a marker comes.
    """

    __slots__ = ("claim", "held", "is_valid", "on_marker", "producer_epoch", "producer_id")

    def __init__(self, first: HeldBatch) -> None:
        self.producer_id = first.header.producer_id
        self.producer_epoch = first.header.producer_epoch
        self.claim = first.claim
        self.held = deque((first,))
        self.is_valid = True
        self.on_marker: Callable[[], None] | None = None


class TransactionGuards:
    """The guards of one partition, by producer id. False while no question is pending."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, Guard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def hold(self, held: HeldBatch) -> Guard | None:
        """Let a batch wait behind its producer's guard; if there is none, make one and return it."""
        producer_id = held.header.producer_id
        guard = self._guards.get(producer_id)
        if guard is not None:
            guard.held.append(held)
            return None
        guard = self._guards[producer_id] = Guard(held)
        return guard

    def is_asking(self, producer_id: int) -> bool:
        """Whether batches of this producer have to wait."""
        return producer_id in self._guards

    def renew(self, guard: Guard) -> bool:
        """Called before each question: makes the guard valid again. False: no batch waits for it any more."""
        guard.is_valid = True
        return self._guards.get(guard.producer_id) is guard

    def drop(self, producer_id: int) -> None:
        """A marker of this producer is placed: an answer that is on its way no longer counts."""
        guard = self._guards.get(producer_id)
        if guard is not None:
            guard.is_valid = False
            if guard.on_marker is not None:
                guard.on_marker()

    def end(self, guard: Guard) -> tuple[HeldBatch, ...]:
        """Remove the guard and return its batches; none if it was given up meanwhile."""
        if self._guards.get(guard.producer_id) is not guard:
            return ()
        del self._guards[guard.producer_id]
        return tuple(guard.held)

    def end_all(self) -> tuple[HeldBatch, ...]:
        """Remove all guards and return their batches."""
        guards, self._guards = self._guards, {}
        return tuple(held for guard in guards.values() for held in guard.held)


def must_ask(entry: ProducerEntry | None, producer_epoch: int) -> bool:
    """Whether the coordinator has to verify a batch: the producer has no transaction open here at this epoch."""
    return entry is None or entry.transaction_first_offset == NO_OFFSET or entry.epoch != producer_epoch


def known_answer(entry: ProducerEntry | None, producer_epoch: int, claim: TransactionClaim) -> ErrorCode | None:
    """The answer if it is already known without asking the coordinator; None: ask.

    While the marker of the producer's last transaction is still due it is too early to ask: the marker would overtake
    the answer (KAFKA-18575).
    """
    if entry is None or entry.epoch == producer_epoch:
        return None
    if entry.epoch > producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    is_ending = entry.transaction_first_offset != NO_OFFSET and claim.may_add
    return ErrorCode.CONCURRENT_TRANSACTIONS if is_ending else None


def overtaken(claim: TransactionClaim) -> ErrorCode:
    """The error to use for an answer that a marker has overtaken."""
    return ErrorCode.CONCURRENT_TRANSACTIONS if claim.may_add else ErrorCode.TRANSACTION_ABORTABLE


def is_asked_again(code: ErrorCode, claim: TransactionClaim) -> bool:
    """Whether to ask again, since markers of the producer's last transaction are on their way. Only with `may_add`:
    other clients add the partition themselves before they produce, and wait for the markers then."""
    return code is ErrorCode.CONCURRENT_TRANSACTIONS and claim.may_add


def refusal_of(code: ErrorCode, claim: TransactionClaim) -> ErrorCode:
    """The error code for the client in place of the coordinator's."""
    if code in _NOT_REACHED:
        # Older clients do not retry these codes as they should, but they wait and retry after this one.
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.CONCURRENT_TRANSACTIONS:
        return code if claim.may_add else ErrorCode.NOT_ENOUGH_REPLICAS
    if code in _NOT_IN_TRANSACTION:
        # The batch belongs to no open transaction: the client has to abort, if it knows that code.
        return ErrorCode.TRANSACTION_ABORTABLE if claim.is_abortable_told else ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
