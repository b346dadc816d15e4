"""Holds transactional batches at a partition's owner until their coordinator has verified the transaction (KIP-890).

transaction_guard.py decides which batches wait and which error a client gets. At most one question per producer is
pending. By the time of its answer the partition may have moved, stopped or seen a marker, so each batch is checked
again.
"""

from __future__ import annotations

import asyncio

import structlog

from bmq.broker.append_checks import AppendChecks
from bmq.broker.batch_refusals import BatchRefusals
from bmq.broker.offset_assignment import OffsetAssignment
from bmq.broker.owned_partition import OwnedPartition
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
from bmq.log.partition_log import ProducedBatch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import BatchHeader

_log = structlog.get_logger("bmq.broker")


class TransactionVerification:
    """Verifies the transactional batches of one partition."""

    def __init__(
        self,
        partition: OwnedPartition,
        guards: TransactionGuards,
        checks: AppendChecks,
        refusals: BatchRefusals,
        offset_assignment: OffsetAssignment,
    ) -> None:
        self._partition = partition
        self._guards = guards
        self._checks = checks
        self._refusals = refusals
        self._offset_assignment = offset_assignment
        self._loop = asyncio.get_running_loop()

    def holds(self, batch: ProducedBatch, header: BatchHeader) -> bool:
        """Whether a client's transactional batch has to wait (or was answered); else append it. Raises BmqError."""
        partition, guards, claim = self._partition, self._guards, batch.request.claim
        if claim is None:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a transactional record batch without a transactional id",
            )
        if partition.context.transactions is None:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "no transaction of this producer is open here")
        if not guards or not guards.is_asking(header.producer_id):
            entry = partition.producers.entry(header.producer_id)
            if not must_ask(entry, header.producer_epoch):
                return False
            if not self._checks.pass_again(batch, header):
                return True
            if claim.may_add:
                partition.producers.check_first_sequence(header)
        budget = partition.context.budget
        if not budget.take(batch.size_bytes):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too many bytes are on their way into the log")
        guard = guards.hold(HeldBatch(batch, header, claim))
        if guard is not None:
            try:
                partition.machine.spawn(self._verify(guard))
            except BaseException:  # without the task nothing would ever release the batch
                guards.end(guard)
                budget.give_back(batch.size_bytes)
                raise
        return True

    async def _verify(self, guard: Guard) -> None:
        """Ask until there is a final answer, then release the batches that wait for it."""
        retry = self._partition.context.verification_retry
        pause_s = retry.backoff_ms / 1000
        until_s = self._loop.time() + retry.backoff_max_ms / 1000
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        while self._guards.renew(guard):
            entry = self._partition.producers.entry(guard.producer_id)
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
        partition = self._partition
        verifier = partition.context.transactions
        assert verifier is not None
        number = partition.topic_partition.partition
        try:
            async with asyncio.timeout(partition.context.settings.transaction_verification_wait_max_s):
                (code,) = await verifier.verify(
                    guard.claim, guard.producer_id, guard.producer_epoch, partition.topic_name, (number,)
                )
        except TimeoutError:
            return ErrorCode.NETWORK_EXCEPTION
        except Exception as error:  # noqa: BLE001 the verifier's bug: the batches are refused, the partition goes on
            _log.error("transaction_not_verified", **partition.names(), reason=repr(error), exc_info=error)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return code

    def _release(self, guard: Guard, code: ErrorCode) -> None:
        for held in self._guards.end(guard):
            batch, header, claim = held
            self._partition.context.budget.give_back(batch.size_bytes)
            is_about = (
                header.producer_epoch == guard.producer_epoch and claim.transactional_id == guard.claim.transactional_id
            )
            verdict: ErrorCode | None = None
            if is_about:
                verdict = refusal_of(code, claim)
            self._append_again(held, verdict)

    def _append_again(self, held: HeldBatch, verdict: ErrorCode | None) -> None:
        """Append a batch that has waited. `verdict` None: the question was about another epoch or transaction."""
        batch, header, claim = held
        producers = self._partition.producers
        closed = self._partition.closed_code()
        try:
            if closed is not ErrorCode.NONE:
                raise KafkaError(closed)
            if verdict is None:
                if self.holds(batch, header):
                    return
            elif verdict is not ErrorCode.NONE:
                producers.check_epoch(header)
                raise KafkaError(verdict, "the batch is in no open transaction, or its coordinator was not reached")
            if not self._checks.pass_again(batch, header):
                return
            if claim.may_add:
                producers.check_first_sequence(header)
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self._refusals.for_error(error, batch)
            return
        self._offset_assignment.place([batch], batch)
