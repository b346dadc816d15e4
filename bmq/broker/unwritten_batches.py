"""Batches that are answered without being written: repeated ones, and refused ones.

`append` comes here only for the few unusual batches; a batch that waited for its transaction is checked again here.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Coroutine
from typing import Any, Final, cast

import structlog

from bmq.broker.acknowledgement import PendingBatch, call
from bmq.broker.admission import NotOneBatch
from bmq.broker.min_insync_tracker import MinInsyncTracker
from bmq.broker.partition_states import InFlightBatches, State, Writing
from bmq.broker.producer_limit import ProducerLimit
from bmq.broker.reading import LogReader
from bmq.broker.record_checks import RecordsRefused
from bmq.log.partition_log import AppendDone, AppendResult, TopicPartition
from bmq.log.producer_state import PlacedBatch
from bmq.log.refused_sequences import BEHIND_A_REFUSED_ONE, RefusedSequences
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import BatchHeader, UnsupportedMagic, producer_of

LOOKS_MAX: Final = 64  # repeated batches whose replicas are being counted
TOO_FEW_REPLICAS: Final = "the open segment lies on fewer nodes than min.insync.replicas asks for"

_KNOWN_FROM_MEMORY: Final = frozenset(
    (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    )
)
# Kafka adds its log's start to what its log refuses, not to what was refused before.
_RAISED_BY_LOG: Final = frozenset(
    (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )
)
_log = structlog.get_logger("bmq.broker")


class UnwrittenBatches(LogReader):
    """Base of PartitionRuntime, which provides the attributes declared here.

    `_is_guarded`: acks=all may have to be refused for lack of replicas.
    """

    topic_partition: TopicPartition
    _loop: asyncio.AbstractEventLoop
    _state: State
    _log: InFlightBatches | None
    _refused: RefusedSequences
    _min_insync: MinInsyncTracker
    _is_guarded: bool
    _producer_limit: ProducerLimit

    @abstractmethod
    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...

    def _check(self, batch: PendingBatch) -> bool:
        """Whether the batch may be placed now; if not, it has been answered. Raises BmqError."""
        done, header, records = batch.done, batch.header, batch.view
        assert done is not None
        if self._is_guarded and batch.is_acks_all and self._has_too_few_replicas(records):
            self._refuse_for_want_of_replicas(records, done)
            return False
        repeated = self._producers.check(header)
        if repeated is not None:
            self._answer_repeated(header, repeated, done, batch.is_acks_all)
            return False
        if self._refused.entries and self._is_behind_a_refused_one(records):
            self._refuse(BEHIND_A_REFUSED_ONE, done)
            return False
        now_ms = self._surroundings.clock.now_ms()
        too_many = self._producer_limit.refusal_of(self._producers, header.producer_id, now_ms)
        if too_many is not None:
            self._refuse_new_producer(too_many, records, done)
            return False
        if self.backlog.refusal is not None:
            self._refuse_over_quota(self.backlog.refusal, records, done)
            return False
        return True

    def _answer_repeated(self, header: BatchHeader, repeated: PlacedBatch, done: AppendDone, is_acks_all: bool) -> None:
        """Answer a duplicate with the original's offset, once that is durable (rule 11)."""
        self._surroundings.counts.duplicates += 1
        log = self._log
        assert log is not None
        if repeated.last_offset >= log.high_watermark:
            for batch in (*log.written, *log.waiting):
                if batch.base_offset == repeated.base_offset:
                    cast(PendingBatch, batch).follow(done)
                    return
        append_time_ms = repeated.timestamp_ms if self.config.message_timestamp_type_is_append_time else -1
        answer = AppendResult(ErrorCode.NONE, repeated.base_offset, append_time_ms, self.log_start_offset)
        minimum = self._state.limits.replicas_min
        if not is_acks_all or minimum == 1 or repeated.base_offset >= self._min_insync.assured_offset:
            call(done, answer)
            return
        # The original was never acknowledged, or by another owner: it may be on too few nodes.
        assert self._files is not None
        self._min_insync.note_unconfirmed(header, repeated.base_offset, self._loop.time())
        self._is_guarded = True
        if self._min_insync.looks >= LOOKS_MAX:
            call(done, answer._replace(error_code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
            return
        self._spawn(self._min_insync.answer(self._files, header, answer, done, minimum))

    # --- refusals

    def _refuse_for(self, error: Exception, records: memoryview, done: AppendDone) -> None:
        if not isinstance(error, BmqError):
            self._refuse_for_our_fault(error, done)
            return
        refusal = AppendResult(error.code, message=str(error))
        if error.code in _RAISED_BY_LOG and not isinstance(error, NotOneBatch | UnsupportedMagic):
            refusal = refusal._replace(log_start_offset=self.log_start_offset)
        if isinstance(error, RecordsRefused):
            refusal = refusal._replace(record_errors=error.record_errors)
        if error.code in _KNOWN_FROM_MEMORY:
            self._spawn(self._refuse_as_owner(refusal, done))
        else:
            self._note_refused(records, error.code)
            self._refuse(refusal, done)

    def _refuse(self, refusal: AppendResult, done: AppendDone) -> None:
        self._surroundings.counts.refused_batches += 1
        call(done, refusal)

    def _refuse_for_our_fault(self, error: Exception, done: AppendDone) -> None:
        """A check failed in a way no client can cause. Nothing was placed, so only this produce is refused."""
        _log.error("append_not_checked", **self._names(), reason=f"{type(error).__name__}: {error}", exc_info=error)
        self._refuse(AppendResult(ErrorCode.UNKNOWN_SERVER_ERROR), done)

    async def _refuse_as_owner(self, refusal: AppendResult, done: AppendDone) -> None:
        """Prove ownership before a refusal that is fatal to the producer: the next owner may know better (rule 15)."""
        answer = AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            async with asyncio.timeout(self._surroundings.settings.storage_wait_max_s):
                await self.prove_ownership()
            answer = refusal
        except (BmqError, TimeoutError) as error:
            answer = answer._replace(message=str(error))
        finally:
            self._refuse(answer, done)

    def _refuse_for_want_of_room(self, done: AppendDone) -> None:
        self._surroundings.counts.refused_batches += 1
        message = "too many bytes are on their way into the log"
        call(done, AppendResult(ErrorCode.REQUEST_TIMED_OUT, message=message))

    def _refuse_new_producer(self, refusal: AppendResult, records: memoryview, done: AppendDone) -> None:
        self._note_refused(records, refusal.error_code)
        self._refuse(refusal, done)

    def _refuse_over_quota(self, refusal: AppendResult, records: memoryview, done: AppendDone) -> None:
        self._surroundings.counts.backlog_refused_batches += 1
        self._note_refused(records, refusal.error_code)
        self._refuse(refusal, done)

    def _note_refused(self, records: memoryview, code: ErrorCode) -> None:
        """Remember the refusal, so that an unknown producer's next batch is not mistaken for its first."""
        producer = producer_of(records)
        if producer is not None and self._producers.entry(producer[0]) is None:
            self._refused.add(self.topic_partition, records, self._loop.time(), code)

    def _is_behind_a_refused_one(self, records: memoryview) -> bool:
        """Only for unknown producers: a known one's last sequence number shows which batch comes next."""
        producer = producer_of(records)
        if producer is None or self._producers.entry(producer[0]) is not None:
            return False
        return self._refused.is_passed_by(self.topic_partition, records, self._loop.time())

    # --- too few replicas

    def _is_short(self) -> bool:
        """Whether the open segment is on too few nodes for acks=all."""
        return isinstance(self._state, Writing) and self._state.is_short

    def _has_too_few_replicas(self, records: memoryview) -> bool:
        """Whether the open segment is on too few nodes, or an earlier batch of the same producer is unconfirmed.

        Only a producer's last few batches are remembered. If more were written after an unconfirmed one, the next retry
        of that one could no longer be told from a batch that is out of order.
        """
        if isinstance(self._state, Writing) and self._state.is_short:
            return True
        if not self._min_insync.unconfirmed:
            self._is_guarded = False
            return False
        try:
            header = BatchHeader.parse(records)
        except BmqError:
            return False  # the usual checks will refuse it with the right error
        if not self._min_insync.is_unconfirmed(header, self._loop.time()):
            return False
        try:
            return self._producers.check(header) is None
        except BmqError:
            return True  # out of order, because the one before it was refused

    def _refuse_for_want_of_replicas(self, records: memoryview, done: AppendDone) -> None:
        """Nothing was written. A new segment is tried until there are nodes again."""
        self._note_refused(records, ErrorCode.NOT_ENOUGH_REPLICAS)
        self._surroundings.counts.refused_batches += 1
        self._min_insync.has_refused = True
        call(done, AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS, message=TOO_FEW_REPLICAS))
