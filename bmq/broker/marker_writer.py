"""Writes transaction markers into a partition's log at its owner, and lists its producers for operators (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from bmq.aio.answers import awaited_answer
from bmq.broker.batch_refusals import BatchRefusals
from bmq.broker.offset_assignment import OffsetAssignment
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.ownership import Ownership
from bmq.broker.replica_guard import ReplicaGuard
from bmq.log.partition_log import AppendDone, AppendResult, internal_batch
from bmq.log.store import FencedWriter, StoreError
from bmq.log.transactions import ActiveProducer, TransactionMarker
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.record_batch import BatchHeader

_NO_SEQUENCE: Final = -1


class MarkerWriter:
    """Writes the markers of one partition."""

    def __init__(
        self,
        partition: OwnedPartition,
        ownership: Ownership,
        guard: ReplicaGuard,
        refusals: BatchRefusals,
        offset_assignment: OffsetAssignment,
    ) -> None:
        self._partition = partition
        self._ownership = ownership
        self._guard = guard
        self._refusals = refusals
        self._offset_assignment = offset_assignment

    async def write(self, marker: TransactionMarker) -> None:
        """End a producer's transaction in this partition; durable when this returns, and visible to readers.

        Raises KafkaError INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, and the errors of an append.
        """
        answer: asyncio.Future[AppendResult]
        answer, done = awaited_answer()
        self._begin(marker, done)
        result = await answer
        if result.error_code is not ErrorCode.NONE:
            raise KafkaError(result.error_code, result.message or "")

    def _begin(self, marker: TransactionMarker, done: AppendDone) -> None:
        partition = self._partition
        end = EndTransactionMarker(
            ControlType.COMMIT if marker.is_commit else ControlType.ABORT, marker.coordinator_epoch
        )
        data = encode_end_transaction_marker(
            end,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=partition.context.clock.now_ms(),
        )
        view = memoryview(data)
        batch, header = internal_batch(partition.topic_partition, view, done), BatchHeader.parse(view)
        batch.header, batch.offset_count, batch.size_bytes = header, header.last_offset_delta + 1, header.size_bytes
        try:
            closed = partition.closed_code()
            if closed is not ErrorCode.NONE:
                raise KafkaError(closed)
            partition.producers.check_marker(header, end, marker.transaction_version)
        except BmqError as error:
            self._refusals.for_error(error, batch)
            return
        if self._guard.is_short():
            self._refusals.for_want_of_replicas(batch)
        else:
            self._offset_assignment.place([batch], batch)

    async def active_producers(self) -> Sequence[ActiveProducer]:
        """As PartitionLog.active_producers."""
        self._partition.own_files()
        try:
            await self._ownership.prove()
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
            for producer_id, entry in self._partition.producers.entries()
        ]
