"""Who waits for a coordinator's word, and what clients of each age hear of it (KIP-890)."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.broker.transaction_guard import (
    HeldBatch,
    TransactionGuards,
    is_asked_again,
    known_answer,
    must_ask,
    overtaken,
    refusal_of,
)
from bmq.log.partition_log import LoneAppend, ProducedBatch, TopicPartition
from bmq.log.producer_state import ProducerEntry
from bmq.log.transactions import TransactionClaim
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import TRANSACTIONAL, BatchHeader

pytestmark = pytest.mark.unit

OLD = TransactionClaim("tx")  # Produce 10 and older
TOLD = TransactionClaim("tx", is_abortable_told=True)  # Produce 11
ADDING = TransactionClaim("tx", may_add=True, is_abortable_told=True)  # Produce 12 and later


def held(producer_id: int = 7, producer_epoch: int = 0, claim: TransactionClaim = OLD) -> HeldBatch:
    data = encode_batch(
        [Record(None, b"v")],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )
    view = memoryview(data)
    header = BatchHeader.parse(view)
    request = LoneAppend(lambda result: None, claim=claim)
    return HeldBatch(ProducedBatch(request, TopicPartition(UUID(int=1), 0), view, header), header, claim)


NOT_REACHED = [
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
]


@pytest.mark.parametrize(
    ("code", "claim", "told"),
    [
        *((code, claim, ErrorCode.NOT_ENOUGH_REPLICAS) for code in NOT_REACHED for claim in (OLD, TOLD, ADDING)),
        (ErrorCode.CONCURRENT_TRANSACTIONS, OLD, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, TOLD, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ADDING, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.TRANSACTION_ABORTABLE, OLD, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, TOLD, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_TXN_STATE, OLD, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_TXN_STATE, TOLD, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_TXN_STATE, ADDING, ErrorCode.TRANSACTION_ABORTABLE),
        *((ErrorCode.PRODUCER_FENCED, claim, ErrorCode.INVALID_PRODUCER_EPOCH) for claim in (OLD, TOLD, ADDING)),
        *((ErrorCode.INVALID_PRODUCER_EPOCH, claim, ErrorCode.INVALID_PRODUCER_EPOCH) for claim in (OLD, ADDING)),
        *(
            (ErrorCode.INVALID_PRODUCER_ID_MAPPING, claim, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            for claim in (OLD, ADDING)
        ),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ADDING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.INVALID_REQUEST, OLD, ErrorCode.INVALID_REQUEST),
        (ErrorCode.NONE, OLD, ErrorCode.NONE),
    ],
)
def test_what_a_client_hears(code: ErrorCode, claim: TransactionClaim, told: ErrorCode) -> None:
    assert refusal_of(code, claim) is told


def test_an_answer_that_a_marker_overtook_is_told_by_what_the_client_knows() -> None:
    assert refusal_of(overtaken(OLD), OLD) is ErrorCode.INVALID_TXN_STATE
    assert refusal_of(overtaken(TOLD), TOLD) is ErrorCode.TRANSACTION_ABORTABLE
    assert is_asked_again(overtaken(ADDING), ADDING)


@pytest.mark.parametrize(
    ("epoch", "first_offset", "adding", "other"),
    [
        (2, 10, ErrorCode.CONCURRENT_TRANSACTIONS, None),
        (2, -1, None, None),
        (3, 10, None, None),
        (3, -1, None, None),
        (4, -1, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_what_is_known_here_is_not_asked(
    epoch: int, first_offset: int, adding: ErrorCode | None, other: ErrorCode | None
) -> None:
    """While the last transaction ends here it is too early to ask; once a later epoch was seen it is too late."""
    entry = ProducerEntry(epoch, 0, 0, first_offset, ())
    assert known_answer(entry, 3, ADDING) is adding
    assert known_answer(entry, 3, TOLD) is other
    assert known_answer(None, 3, ADDING) is None


def test_only_a_transaction_that_is_ending_is_asked_about_again() -> None:
    assert is_asked_again(ErrorCode.CONCURRENT_TRANSACTIONS, ADDING)
    assert not is_asked_again(ErrorCode.CONCURRENT_TRANSACTIONS, TOLD)
    assert not is_asked_again(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ADDING)
    assert not is_asked_again(ErrorCode.NONE, ADDING)


@pytest.mark.parametrize(("epoch", "first_offset", "is_open"), [(3, 10, True), (3, -1, False), (2, 10, False)])
def test_the_coordinator_is_asked_unless_a_transaction_of_this_epoch_is_open(
    epoch: int, first_offset: int, is_open: bool
) -> None:
    entry = ProducerEntry(epoch, 0, 0, first_offset, ())
    assert must_ask(entry, 3) is not is_open
    assert must_ask(None, 3)


def test_batches_wait_in_order_and_by_producer() -> None:
    guards = TransactionGuards()
    first, second, other, newer = held(), held(), held(8), held(producer_epoch=1)
    guard = guards.hold(first)
    assert guard is not None and guards.hold(second) is None and guards.hold(newer) is None
    assert guards.is_asking(7) and not guards.is_asking(8) and len(guards) == 1
    assert guards.hold(other) is not None
    assert guards.end(guard) == (first, second, newer) and guards.end(guard) == ()
    assert guards.end_all() == (other,) and not guards


def test_a_marker_drops_the_guard_until_the_question_is_asked_again() -> None:
    guards = TransactionGuards()
    guard = guards.hold(held())
    assert guard is not None and guards.renew(guard) and guard.is_valid
    guards.drop(8)
    assert guard.is_valid
    guards.drop(7)
    assert not guard.is_valid
    assert guards.renew(guard) and guard.is_valid
    guards.end_all()
    assert not guards.renew(guard)
