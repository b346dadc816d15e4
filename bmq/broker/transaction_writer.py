"""Transactions at a partition's owner: holds batches until they are verified, writes markers, lists producers.

transaction_guard.py decides which batches wait and which error a client gets. At most one question per producer is
pending. By the time of its answer the partition may have moved, stopped or seen a marker, so each batch is checked
again.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

import structlog

from bmq.broker.acknowledgement import PendingBatch
from bmq.broker.transaction_guard import (
    Guard,
    HeldBatch,
    TransactionGuards,
    is_asked_again,
    known_answer,
    must_ask,
    overtaken,
    refusal_of,
)
from bmq.broker.unwritten_batches import UnwrittenBatches
from bmq.log.partition_log import AppendDone, AppendResult
from bmq.log.store import FencedWriter, StoreError
from bmq.log.transactions import ActiveProducer, TransactionClaim, TransactionMarker
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.record_batch import BatchHeader

_NO_SEQUENCE: Final = -1

_log = structlog.get_logger("bmq.broker")


class TransactionWriter(UnwrittenBatches):
    """Base of PartitionRuntime, which provides the attributes declared here."""

    topic_name: str
    _guards: TransactionGuards

    @abstractmethod
    def _closed_code(self) -> ErrorCode:
        """The error for appends while the partition takes none; NONE when it does."""

    @abstractmethod
    def _append_internal(self, batches: list[PendingBatch], size_bytes: int, done: AppendDone) -> None:
        """Give checked batches their offsets, if there is room for their bytes; else they are refused."""

    # --- batches that wait

    def _is_held(self, batch: PendingBatch, claim: TransactionClaim | None) -> bool:
        """Whether a client's transactional batch has to wait (or was answered); else append it. Raises BmqError."""
        surroundings, guards, header = self._surroundings, self._guards, batch.header
        if claim is None:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a transactional record batch without a transactional id",
            )
        if surroundings.transactions is None:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "no transaction of this producer is open here")
        if not guards or not guards.is_asking(header.producer_id):
            entry = self._producers.entry(header.producer_id)
            if not must_ask(entry, header.producer_epoch):
                return False
            if not self._check(batch):
                return True
            if claim.may_add:
                self._producers.check_first_sequence(header)
        if not surroundings.budget.take(batch.size_bytes):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too many bytes are on their way into the log")
        guard = guards.hold(HeldBatch(batch, claim))
        if guard is not None:
            try:
                self._spawn(self._verify(guard))
            except BaseException:  # without the task nothing would ever release the batch
                guards.end(guard)
                surroundings.budget.give_back(batch.size_bytes)
                raise
        return True

    async def _verify(self, guard: Guard) -> None:
        """Ask until there is a final answer, then release the batches that wait for it."""
        retry = self._surroundings.verification_retry
        pause_s = retry.backoff_ms / 1000
        until_s = self._loop.time() + retry.backoff_max_ms / 1000
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        while self._guards.renew(guard):
            entry = self._producers.entry(guard.producer_id)
            known = known_answer(entry, guard.producer_epoch, guard.claim)
            code = await self._ask(guard) if known is None else known
            if code is ErrorCode.NONE and not guard.is_valid:
                code = overtaken(guard.claim)
            if not is_asked_again(code, guard.claim) or self._loop.time() + pause_s > until_s:
                break
            await self._pause(guard, pause_s)
        self._release(guard, code)

    async def _pause(self, guard: Guard, pause_s: float) -> None:
        """Wait before asking again; ends early when a marker comes, nearly always the one that was missing."""
        if not guard.is_valid:
            return
        ended: asyncio.Future[None] = self._loop.create_future()

        def end() -> None:
            if not ended.done():
                ended.set_result(None)

        guard.on_marker = end
        try:
            await asyncio.wait({ended}, timeout=pause_s)
        finally:
            guard.on_marker = None

    async def _ask(self, guard: Guard) -> ErrorCode:
        verifier = self._surroundings.transactions
        assert verifier is not None
        number = self.topic_partition.partition
        try:
            async with asyncio.timeout(self._surroundings.settings.transaction_verification_wait_max_s):
                (code,) = await verifier.verify(
                    guard.claim, guard.producer_id, guard.producer_epoch, self.topic_name, (number,)
                )
        except TimeoutError:
            return ErrorCode.NETWORK_EXCEPTION
        except Exception as error:  # the verifier's bug: the batches are refused, the partition goes on
            _log.error("transaction_not_verified", **self._names(), reason=repr(error), exc_info=error)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return code

    def _release(self, guard: Guard, code: ErrorCode) -> None:
        for batch, claim in self._guards.end(guard):
            self._surroundings.budget.give_back(batch.size_bytes)
            is_about = (
                batch.header.producer_epoch == guard.producer_epoch
                and claim.transactional_id == guard.claim.transactional_id
            )
            verdict: ErrorCode | None = None
            if is_about:
                verdict = refusal_of(code, claim)
            self._append_again(batch, claim, verdict)

    def _append_again(self, batch: PendingBatch, claim: TransactionClaim, verdict: ErrorCode | None) -> None:
        """Append a batch that has waited. `verdict` None: the question was about another epoch or transaction."""
        assert batch.done is not None
        closed = self._closed_code()
        try:
            if closed is not ErrorCode.NONE:
                raise KafkaError(closed)
            if verdict is None:
                if self._is_held(batch, claim):
                    return
            elif verdict is not ErrorCode.NONE:
                self._producers.check_epoch(batch.header)
                raise KafkaError(verdict, "the batch is in no open transaction, or its coordinator was not reached")
            if not self._check(batch):
                return
            if claim.may_add:
                self._producers.check_first_sequence(batch.header)
        except Exception as error:
            self._refuse_for(error, batch.view, batch.done)
            return
        self._append_internal([batch], batch.size_bytes, batch.done)

    # --- what coordinators and operators ask for

    async def write_marker(self, marker: TransactionMarker) -> None:
        """End a producer's transaction in this partition; durable when this returns, and visible to readers.

        Raises KafkaError INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, and the errors of an append.
        """
        answer: asyncio.Future[AppendResult] = self._loop.create_future()

        def done(result: AppendResult) -> None:
            if not answer.done():  # else the caller was cancelled
                answer.set_result(result)

        self._begin_marker(marker, done)
        result = await answer
        if result.error_code is not ErrorCode.NONE:
            raise KafkaError(result.error_code, result.message or "")

    def _begin_marker(self, marker: TransactionMarker, done: AppendDone) -> None:
        end = EndTransactionMarker(
            ControlType.COMMIT if marker.is_commit else ControlType.ABORT, marker.coordinator_epoch
        )
        data = encode_end_transaction_marker(
            end,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=self._surroundings.clock.now_ms(),
        )
        view = memoryview(data)
        batch = PendingBatch(view, BatchHeader.parse(view), done, -1, True)
        try:
            closed = self._closed_code()
            if closed is not ErrorCode.NONE:
                raise KafkaError(closed)
            self._producers.check_marker(batch.header, end, marker.transaction_version)
        except BmqError as error:
            self._refuse_for(error, view, done)
            return
        if self._is_short():
            self._refuse_for_want_of_replicas(view, done)
        else:
            self._append_internal([batch], batch.size_bytes, done)

    async def active_producers(self) -> Sequence[ActiveProducer]:
        """As PartitionLog.active_producers."""
        self._own_files()
        try:
            await self.prove_ownership()
        except FencedWriter as error:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error)) from error
        except StoreError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        return [
            ActiveProducer(
                producer_id,
                entry.epoch,
                entry.batches[-1].last_sequence if entry.batches else _NO_SEQUENCE,
                entry.last_timestamp_ms,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
            for producer_id, entry in self._producers.entries()
        ]
