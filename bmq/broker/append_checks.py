"""Checks whether a validated batch may get an offset now: the log does not have it yet, and no limit forbids it."""

from __future__ import annotations

from typing import Final, cast

from bmq.broker.batch_refusals import BatchRefusals
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.producer_limit import ProducerLimit
from bmq.broker.replica_guard import ReplicaGuard
from bmq.log.partition_log import AppendResult, ProducedBatch
from bmq.log.producer_state import PlacedBatch
from bmq.log.refused_sequences import BEHIND_A_REFUSED_ONE
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import TRANSACTIONAL, BatchHeader, parsed_header, validate_client_batch, verify_crc

COUNTED_BATCHES_MAX: Final = 64  # repeated batches whose replicas are being counted


class AppendChecks:
    """Checks batches before they are placed in one partition. A batch that may not be placed has been answered."""

    def __init__(self, partition: OwnedPartition, refusals: BatchRefusals, guard: ReplicaGuard) -> None:
        self._partition = partition
        self._refusals = refusals
        self._guard = guard
        context = partition.context
        self._producer_limit = ProducerLimit(context.settings.producers_max, context.counts, partition.names)

    def may_write(self, batch: ProducedBatch) -> bool:
        """Whether enough nodes hold what acks=all writes."""
        if self._guard.is_on and batch.is_acks_all and self._guard.refuses(batch.view):
            self._refusals.for_want_of_replicas(batch)
            return False
        return True

    def is_new(self, batch: ProducedBatch, header: BatchHeader, now_ms: int) -> bool:
        """Whether a producer's batch is its next one, and the partition has room for its producer.

        Raises BmqError.
        """
        partition = self._partition
        repeated = partition.producers.check(header)
        if repeated is not None:
            self._answer_repeated(batch, header, repeated)
            return False
        if self._refusals.has_passed(batch.view):
            self._refusals.refuse(BEHIND_A_REFUSED_ONE, batch)
            return False
        too_many = self._producer_limit.refusal_of(partition.producers, header.producer_id, now_ms)
        if too_many is not None:
            self._refusals.remembered(too_many, batch)
            return False
        return True

    def is_repeated(self, batch: ProducedBatch) -> bool:
        """Whether a batch that is refused by its size is in the log already, with these sequences. Then it is answered so.

        It was smaller than the limit of its time, and its first answer was lost. Its size is refused before its checksum is looked at.
        """
        header = parsed_header(batch.records)
        if header is None or header.producer_id < 0 or header.attributes & TRANSACTIONAL:
            return False
        try:
            validate_client_batch(header)
            repeated = self._partition.producers.check(header)
            if repeated is not None:
                verify_crc(batch.records, 0, header)
        except BmqError:
            return False
        if repeated is not None:
            self._answer_repeated(batch, header, repeated)
        return repeated is not None

    def is_within_quota(self, batch: ProducedBatch) -> bool:
        refusal = self._partition.backlog.refusal
        if refusal is not None:
            self._refusals.over_quota(refusal, batch)
            return False
        return True

    def pass_again(self, batch: ProducedBatch, header: BatchHeader) -> bool:
        """Repeat all checks for a batch that had to wait. Raises BmqError."""
        return (
            self.may_write(batch)
            and self.is_new(batch, header, self._partition.context.clock.now_ms())
            and self.is_within_quota(batch)
        )

    def _answer_repeated(self, batch: ProducedBatch, header: BatchHeader, repeated: PlacedBatch) -> None:
        """Answer a duplicate with the original's offset, once that is durable (rule 11)."""
        partition = self._partition
        partition.context.counts.duplicates += 1
        log = partition.log
        assert log is not None
        if repeated.last_offset >= log.high_watermark:
            for original in (*log.written, *log.waiting):
                if original.base_offset == repeated.base_offset:
                    cast(ProducedBatch, original).follow(batch)
                    return
        append_time_ms = repeated.timestamp_ms if partition.config.message_timestamp_type_is_append_time else -1
        answer = AppendResult(ErrorCode.NONE, repeated.base_offset, append_time_ms, partition.log_start_offset)
        minimum, tracker = partition.state.limits.replicas_min, self._guard.tracker
        if not batch.is_acks_all or minimum == 1 or repeated.base_offset >= tracker.assured_offset:
            batch.complete(answer)
            return
        # The original was never acknowledged, or by another owner: it may be on too few nodes.
        assert partition.files is not None
        self._guard.note_unconfirmed(header, repeated.base_offset)
        if tracker.looks >= COUNTED_BATCHES_MAX:
            batch.complete(answer._replace(error_code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
            return
        partition.machine.spawn(tracker.answer(partition.files, batch, header, answer, minimum))
