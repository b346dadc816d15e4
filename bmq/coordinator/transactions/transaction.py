"""The state machine of one transactional id: from its durable state and a request to a record and an answer. Decisions only.

A function here gets the last durable record (`TransactionValue`; None: there is none), whether another record of the id
is in flight (`is_pending`), the request and the time, and returns an `Outcome`. It changes nothing: the state is the
last record, and the shard replays the outcome's record once it is durable.

Empty             the id has a producer id and epoch, but no transaction yet
Ongoing           a transaction with its partitions
PrepareCommit,    the outcome is settled; once markers are written into all partitions, the id becomes
PrepareAbort      CompleteCommit or CompleteAbort: for the client the same as Empty, but a repeated end is recognised

While an end is being completed the id counts as pending. The request's version determines one of two kinds of end:

transaction version 0  (EndTxn 0-4) keeps the producer epoch; the client adds partitions before it writes to them.
transaction version 2  (EndTxn 5, and every end of our own) bumps the epoch, so that nothing late gets into the next
                       transaction. The epoch after MAX_EPOCH is only used for markers; with it comes a new producer id,
                       at epoch 0 once the end is complete.

Sources: KIP-98, KIP-360, KIP-890; TransactionMetadata, TransactionCoordinator of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from bmq.dataclass import dataclass
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.transaction_records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartitions,
    TransactionStatus,
    TransactionValue,
)

MAX_EPOCH: Final = 2**15 - 2
"""The last producer epoch that a client gets; the next one is only for fencing. Functions take it as `last_epoch`."""
EPOCH_BUMPED_FROM: Final = 2
"""First transaction version in which the end of a transaction bumps the epoch."""
COMMITTED_BY_CHECK: Final = 3
"""The transaction version of a commit of ours, for a client that keeps its epoch. Markers and older nodes take it for the version before."""
NO_START_MS: Final = -1

Partition = tuple[str, int]
"""(topic, number)"""

_PREPARED: Final = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)
_COMPLETE: Final = (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
_COMPLETION: Final = {
    TransactionStatus.PREPARE_COMMIT: TransactionStatus.COMPLETE_COMMIT,
    TransactionStatus.PREPARE_ABORT: TransactionStatus.COMPLETE_ABORT,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """`error`, `producer_id` and `producer_epoch` are the answer, once `write` is durable (None: nothing to write).

    `needs_producer_id`: nothing is decided; call again with a fresh producer id.
    """

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    write: TransactionValue | None = None
    needs_producer_id: bool = False


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer that a request names."""

    producer_id: int
    producer_epoch: int


CONCURRENT: Final = Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
_FENCED: Final = Outcome(ErrorCode.PRODUCER_FENCED)
_OTHER_PRODUCER: Final = Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_INVALID_STATE: Final = Outcome(ErrorCode.INVALID_TXN_STATE)
_DONE: Final = Outcome()
_NEEDS_PRODUCER_ID: Final = Outcome(needs_producer_id=True)


# ---------------------------------------------------------------- InitProducerId


def init_producer_id(
    value: TransactionValue | None,
    is_pending: bool,
    given: Producer | None,
    timeout_ms: int,
    now_ms: int,
    fresh_producer_id: int = NO_PRODUCER_ID,
    last_epoch: int = MAX_EPOCH,
) -> Outcome:
    """A producer begins, or continues at a higher epoch (KIP-360). `given`: who it says it is; None: a new instance."""
    if is_pending:
        return CONCURRENT
    if value is None:
        if fresh_producer_id == NO_PRODUCER_ID:
            return _NEEDS_PRODUCER_ID
        return _initialized(
            TransactionValue(
                producer_id=fresh_producer_id,
                producer_epoch=0,
                timeout_ms=timeout_ms,
                status=TransactionStatus.EMPTY,
                last_update_ms=now_ms,
            )
        )
    if given is not None and not _may_be(value, given, last_epoch):
        return _FENCED
    if value.status in _PREPARED:
        return CONCURRENT
    if value.status == TransactionStatus.ONGOING:
        # The client retries until the abort is complete. Only the producer id is checked: an older instance aborts too.
        aborted = _aborted(value, now_ms, fresh_producer_id, last_epoch)
        return aborted if aborted.needs_producer_id else replace(aborted, error=ErrorCode.CONCURRENT_TRANSACTIONS)
    return _bumped(value, given, timeout_ms, now_ms, fresh_producer_id, last_epoch)


def _may_be(value: TransactionValue, given: Producer, last_epoch: int) -> bool:
    """Also True for a retry whose first answer, with the next producer id, was lost."""
    return given.producer_id == value.producer_id or (
        given.producer_id == value.previous_producer_id and given.producer_epoch >= last_epoch
    )


def _bumped(
    value: TransactionValue,
    given: Producer | None,
    timeout_ms: int,
    now_ms: int,
    fresh_producer_id: int,
    last_epoch: int,
) -> Outcome:
    begun = replace(
        value,
        timeout_ms=timeout_ms,
        status=TransactionStatus.EMPTY,
        partitions=None,
        last_update_ms=now_ms,
        start_ms=NO_START_MS,
        next_producer_id=NO_PRODUCER_ID,
        client_transaction_version=0,
    )
    is_current = given is not None and given == Producer(value.producer_id, value.producer_epoch)
    if given is not None and not is_current:
        is_retry = given.producer_epoch == value.last_producer_epoch != NO_PRODUCER_EPOCH
        return _initialized(begun) if is_retry else _FENCED
    epoch_before = value.producer_epoch if is_current else NO_PRODUCER_EPOCH
    if value.producer_epoch < last_epoch:
        return _initialized(replace(begun, producer_epoch=value.producer_epoch + 1, last_producer_epoch=epoch_before))
    if fresh_producer_id == NO_PRODUCER_ID:
        return _NEEDS_PRODUCER_ID
    return _initialized(
        replace(
            begun,
            producer_id=fresh_producer_id,
            producer_epoch=0,
            previous_producer_id=value.producer_id,
            last_producer_epoch=epoch_before,
        )
    )


def _initialized(value: TransactionValue) -> Outcome:
    return Outcome(producer_id=value.producer_id, producer_epoch=value.producer_epoch, write=value)


# ---------------------------------------------------------------- partitions


def add_partitions(
    value: TransactionValue | None,
    is_pending: bool,
    producer: Producer,
    partitions: Collection[Partition],
    transaction_version: int,
    now_ms: int,
) -> Outcome:
    """Add partitions to the producer's transaction; the first ones begin it."""
    if value is None:
        return _OTHER_PRODUCER
    if is_pending:
        return CONCURRENT
    refused = _refusal(value, producer)
    if refused is not None:
        return refused
    if value.status in _PREPARED:
        return CONCURRENT
    known = partitions_of(value)
    is_ongoing = value.status == TransactionStatus.ONGOING
    if is_ongoing and known.issuperset(partitions):
        return _DONE
    return Outcome(
        write=replace(
            value,
            status=TransactionStatus.ONGOING,
            partitions=_by_topic({**dict.fromkeys(_in_order(value)), **dict.fromkeys(partitions)}),
            last_update_ms=now_ms,
            start_ms=value.start_ms if is_ongoing else now_ms,
            client_transaction_version=transaction_version,
        )
    )


def verify_partitions(
    value: TransactionValue | None, producer: Producer, partitions: Sequence[Partition]
) -> list[ErrorCode]:
    """Whether each partition is in the producer's open transaction. A record in flight does not count."""
    refused = _OTHER_PRODUCER if value is None else _refusal(value, producer)
    if refused is not None:
        return [refused.error] * len(partitions)
    assert value is not None
    if value.status in _PREPARED:
        return [ErrorCode.CONCURRENT_TRANSACTIONS] * len(partitions)
    known = partitions_of(value)
    return [ErrorCode.NONE if one in known else ErrorCode.TRANSACTION_ABORTABLE for one in partitions]


def _refusal(value: TransactionValue, producer: Producer) -> Outcome | None:
    if producer.producer_id != value.producer_id:
        return _OTHER_PRODUCER
    return None if producer.producer_epoch == value.producer_epoch else _FENCED


# ---------------------------------------------------------------- the end


def end_transaction(
    value: TransactionValue | None,
    is_pending: bool,
    producer: Producer,
    is_commit: bool,
    transaction_version: int,
    now_ms: int,
    fresh_producer_id: int = NO_PRODUCER_ID,
    last_epoch: int = MAX_EPOCH,
) -> Outcome:
    """Settle the producer's transaction. The answer of version 2 has the producer id and epoch for the next one."""
    if value is None:
        return _OTHER_PRODUCER
    if transaction_version < EPOCH_BUMPED_FROM:
        if _was_committed_for(value, producer, last_epoch):
            return _late_end(value, is_commit)
        return _end_at_same_epoch(value, is_pending, producer, is_commit, now_ms)
    if is_pending:
        return CONCURRENT
    if _is_answered_already(value, producer, last_epoch):
        return _repeated(value, is_commit)
    refused = _refusal(value, producer)
    if refused is not None:
        return refused
    status = value.status
    if status in _PREPARED:
        return CONCURRENT
    if is_commit and status != TransactionStatus.ONGOING:
        return _INVALID_STATE
    return _prepared_at_next_epoch(value, is_commit, now_ms, fresh_producer_id, last_epoch)


def _end_at_same_epoch(
    value: TransactionValue, is_pending: bool, producer: Producer, is_commit: bool, now_ms: int
) -> Outcome:
    refused = _refusal(value, producer)
    if refused is not None:
        return refused
    ends = (
        (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)
        if is_commit
        else (TransactionStatus.PREPARE_ABORT, TransactionStatus.COMPLETE_ABORT)
    )
    if value.status in _PREPARED:
        return CONCURRENT if value.status in ends else _INVALID_STATE
    if is_pending:
        return CONCURRENT
    if value.status in _COMPLETE:
        return _DONE if value.status in ends else _INVALID_STATE
    if value.status == TransactionStatus.EMPTY:
        return _INVALID_STATE
    return Outcome(write=replace(value, status=ends[0], last_update_ms=now_ms, client_transaction_version=0))


def _was_committed_for(value: TransactionValue, producer: Producer, last_epoch: int) -> bool:
    """Whether a check has committed the transaction of a producer that keeps its epoch, one bump behind.

    Behind a client's own commit that bumped the epoch it is fenced, as by Kafka.
    """
    if value.client_transaction_version != COMMITTED_BY_CHECK:
        return False
    if value.status == TransactionStatus.PREPARE_COMMIT:
        return producer == Producer(value.producer_id, value.producer_epoch - 1)
    return value.status == TransactionStatus.COMPLETE_COMMIT and _is_answered_already(value, producer, last_epoch)


def _late_end(value: TransactionValue, is_commit: bool) -> Outcome:
    """A client that keeps its epoch ends what is committed. It is told the truth, and is fenced by its next request.

    PRODUCER_FENCED, as after a time-out, is taken for an abort: the client would send it all again.
    """
    if not is_commit:
        return _INVALID_STATE
    return CONCURRENT if value.status in _PREPARED else _DONE


def _is_answered_already(value: TransactionValue, producer: Producer, last_epoch: int) -> bool:
    """Whether the producer is one bump behind: the client did not get the last end's answer."""
    if value.client_transaction_version < EPOCH_BUMPED_FROM or value.status not in _COMPLETE:
        return False
    if value.producer_epoch == 0:  # the last end switched to a new producer id
        return producer == Producer(value.previous_producer_id, last_epoch)
    return producer == Producer(value.producer_id, value.producer_epoch - 1)


def _repeated(value: TransactionValue, is_commit: bool) -> Outcome:
    is_committed = value.status == TransactionStatus.COMPLETE_COMMIT
    if is_commit == is_committed:
        return Outcome(producer_id=value.producer_id, producer_epoch=value.producer_epoch)
    # A late commit: its transaction was aborted when it timed out (KAFKA-20785).
    return _FENCED if is_commit else _INVALID_STATE


def _prepared_at_next_epoch(
    value: TransactionValue, is_commit: bool, now_ms: int, fresh_producer_id: int, last_epoch: int
) -> Outcome:
    is_last_epoch = value.producer_epoch >= last_epoch
    if is_last_epoch and fresh_producer_id == NO_PRODUCER_ID:
        return _NEEDS_PRODUCER_ID
    is_ongoing = value.status == TransactionStatus.ONGOING
    write = replace(
        value,
        producer_epoch=value.producer_epoch + 1,
        last_producer_epoch=value.producer_epoch,
        status=TransactionStatus.PREPARE_COMMIT if is_commit else TransactionStatus.PREPARE_ABORT,
        partitions=value.partitions or (),
        last_update_ms=now_ms,
        start_ms=value.start_ms if is_ongoing else now_ms,
        next_producer_id=fresh_producer_id if is_last_epoch else NO_PRODUCER_ID,
        client_transaction_version=EPOCH_BUMPED_FROM,
    )
    after = completed(write, now_ms)
    return Outcome(producer_id=after.producer_id, producer_epoch=after.producer_epoch, write=write)


def _aborted(value: TransactionValue, now_ms: int, fresh_producer_id: int, last_epoch: int) -> Outcome:
    """An abort of our own: its bump fences the producer. If it fails, the next attempt is the same."""
    outcome = _prepared_at_next_epoch(value, False, now_ms, fresh_producer_id, last_epoch)
    return outcome if outcome.needs_producer_id else Outcome(write=outcome.write)


def settle_by_check(
    value: TransactionValue,
    is_commit: bool,
    now_ms: int,
    fresh_producer_id: int = NO_PRODUCER_ID,
    last_epoch: int = MAX_EPOCH,
) -> Outcome:
    """End an open transaction as the answer to a check says. Its bump fences the producer, as that of an abort of our own."""
    assert value.status == TransactionStatus.ONGOING
    if not is_commit:
        return _aborted(value, now_ms, fresh_producer_id, last_epoch)
    outcome = _prepared_at_next_epoch(value, True, now_ms, fresh_producer_id, last_epoch)
    write = outcome.write
    if write is None:
        return outcome
    if value.client_transaction_version < EPOCH_BUMPED_FROM:
        write = replace(write, client_transaction_version=COMMITTED_BY_CHECK)
    return Outcome(write=write)


def ended_as(value: TransactionValue, producer: Producer, start_ms: int, last_epoch: int = MAX_EPOCH) -> bool | None:
    """Whether the last transaction, if it is this one of this producer, was committed; None: it is open, or another one."""
    if value.status not in _PREPARED + _COMPLETE or value.start_ms != start_ms:
        return None
    held = Producer(value.producer_id, value.producer_epoch)
    is_bumped = value.client_transaction_version >= EPOCH_BUMPED_FROM
    if is_bumped:
        held = Producer(value.producer_id, value.producer_epoch - 1)
        if value.status in _COMPLETE and value.producer_epoch == 0:  # the end switched to a new producer id
            held = Producer(value.previous_producer_id, last_epoch)
    if producer != held:
        return None
    return value.status in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)


def completed(value: TransactionValue, now_ms: int) -> TransactionValue:
    """The state that follows a prepared end once every partition has its marker."""
    after = replace(
        value,
        status=_COMPLETION[TransactionStatus(value.status)],
        partitions=(),
        last_update_ms=now_ms,
        next_producer_id=NO_PRODUCER_ID,
    )
    if value.next_producer_id == NO_PRODUCER_ID:
        return after
    return replace(after, producer_id=value.next_producer_id, producer_epoch=0, previous_producer_id=value.producer_id)


# ---------------------------------------------------------------- time


def abort_timed_out(
    value: TransactionValue,
    now_ms: int,
    fresh_producer_id: int = NO_PRODUCER_ID,
    last_epoch: int = MAX_EPOCH,
    extra_ms: int = 0,
) -> Outcome | None:
    """The abort of a timed out transaction; None: it has time left, or there is none."""
    return _aborted(value, now_ms, fresh_producer_id, last_epoch) if is_timed_out(value, now_ms, extra_ms) else None


def is_timed_out(value: TransactionValue, now_ms: int, extra_ms: int = 0) -> bool:
    """`extra_ms`: time that it has beyond its time-out."""
    return value.status == TransactionStatus.ONGOING and value.start_ms + value.timeout_ms + extra_ms < now_ms


def is_expired(value: TransactionValue, now_ms: int, expiration_ms: int) -> bool:
    """Whether the id was idle for so long that it may be deleted."""
    is_idle = value.status == TransactionStatus.EMPTY or value.status in _COMPLETE
    return is_idle and value.last_update_ms + expiration_ms < now_ms


# ---------------------------------------------------------------- what a state says


def is_prepared(value: TransactionValue) -> bool:
    """Whether its markers have to be written."""
    return value.status in _PREPARED


def partitions_of(value: TransactionValue) -> frozenset[Partition]:
    return frozenset(_in_order(value))


def _in_order(value: TransactionValue) -> Iterable[Partition]:
    return ((topic.topic, number) for topic in value.partitions or () for number in topic.partition_ids)


def _by_topic(partitions: Iterable[Partition]) -> tuple[TopicPartitions, ...]:
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return tuple(TopicPartitions(topic=topic, partition_ids=tuple(those)) for topic, those in numbers.items())
