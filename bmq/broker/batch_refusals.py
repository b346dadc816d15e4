"""Refuses produced batches: with Kafka's error code, and a memory of it where a later batch would be mistaken otherwise."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from bmq.broker.batch_validation import NotOneBatch
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.ownership import Ownership
from bmq.broker.record_errors import RecordsRefused
from bmq.broker.replica_guard import ReplicaGuard
from bmq.log.partition_log import AppendResult, ProducedBatch
from bmq.log.refused_sequences import RefusedSequences
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import UnsupportedMagic, producer_of

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


class BatchRefusals:
    """Refuses batches of one partition. Each refusal answers the produce and counts it."""

    def __init__(self, partition: OwnedPartition, ownership: Ownership, guard: ReplicaGuard) -> None:
        self._partition = partition
        self._ownership = ownership
        self._guard = guard
        self._counts = partition.context.counts
        self._loop = asyncio.get_running_loop()
        self._refused = RefusedSequences()

    def refuse(self, refusal: AppendResult, batch: ProducedBatch) -> None:
        self._counts.refused_batches += 1
        batch.complete(refusal)

    def for_error(self, error: Exception, batch: ProducedBatch) -> None:
        """Refuse a batch because a check raised: a BmqError is the client's fault, any other error is ours."""
        if not isinstance(error, BmqError):
            # A check failed in a way no client can cause. Nothing was placed, so only this produce is refused.
            reason = f"{type(error).__name__}: {error}"
            _log.error("append_not_checked", **self._partition.names(), reason=reason, exc_info=error)
            self.refuse(AppendResult(ErrorCode.UNKNOWN_SERVER_ERROR), batch)
            return
        refusal = AppendResult(error.code, message=str(error))
        if error.code in _RAISED_BY_LOG and not isinstance(error, NotOneBatch | UnsupportedMagic):
            refusal = refusal._replace(log_start_offset=self._partition.log_start_offset)
        if isinstance(error, RecordsRefused):
            refusal = refusal._replace(record_errors=error.record_errors)
        if error.code in _KNOWN_FROM_MEMORY:
            self._partition.machine.spawn(self._as_owner(refusal, batch))
        else:
            self.remembered(refusal, batch)

    async def _as_owner(self, refusal: AppendResult, batch: ProducedBatch) -> None:
        """Prove ownership before a refusal that is fatal to the producer: the next owner may know better (rule 15)."""
        answer = AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            async with asyncio.timeout(self._partition.context.settings.storage_wait_max_s):
                await self._ownership.prove()
            answer = refusal
        except (BmqError, TimeoutError) as error:
            answer = answer._replace(message=str(error))
        finally:
            self.refuse(answer, batch)

    def over_append_budget(self, batch: ProducedBatch) -> None:
        message = "too many bytes are on their way into the log"
        self.refuse(AppendResult(ErrorCode.REQUEST_TIMED_OUT, message=message), batch)

    def for_want_of_replicas(self, batch: ProducedBatch) -> None:
        """Refuse a batch because too few nodes hold the segment. Nothing was written; new segments are tried until there are nodes."""
        self._guard.tracker.has_refused = True
        self.remembered(AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS, message=TOO_FEW_REPLICAS), batch)

    def over_quota(self, refusal: AppendResult, batch: ProducedBatch) -> None:
        self._counts.backlog_refused_batches += 1
        self.remembered(refusal, batch)

    def remembered(self, refusal: AppendResult, batch: ProducedBatch) -> None:
        self.note(batch.view, refusal.error_code)
        self.refuse(refusal, batch)

    def note(self, records: memoryview, code: ErrorCode) -> None:
        """Remember the refusal, so that an unknown producer's next batch is not mistaken for its first."""
        producer = producer_of(records)
        if producer is not None and self._partition.producers.entry(producer[0]) is None:
            self._refused.add(self._partition.topic_partition, records, self._loop.time(), code)

    def has_passed(self, records: memoryview) -> bool:
        """Whether a batch is behind a refused one. Only for unknown producers: a known one's last sequence number shows
        which batch comes next."""
        if not self._refused.entries:
            return False
        producer = producer_of(records)
        if producer is None or self._partition.producers.entry(producer[0]) is not None:
            return False
        return self._refused.is_passed_by(self._partition.topic_partition, records, self._loop.time())
