"""Takes appends at a partition's owner: validates a batch and gives it an offset. No task and no await unless it has to wait."""

from __future__ import annotations

import asyncio

from bmq.broker.append_checks import AppendChecks
from bmq.broker.append_queue import AppendQueue
from bmq.broker.batch_refusals import BatchRefusals
from bmq.broker.batch_validation import BatchValidator
from bmq.broker.half.half_appends import HalfAppends
from bmq.broker.lane_checks import check_lanes
from bmq.broker.offset_assignment import OffsetAssignment
from bmq.broker.opener import Opened
from bmq.broker.opening_room import TooMuchWork
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.partition_events import ProduceArrived
from bmq.broker.replica_guard import ReplicaGuard
from bmq.broker.transaction_verification import TransactionVerification
from bmq.log.config import LogConfig
from bmq.log.partition_log import AppendResult, ProducedBatch
from bmq.protocol.control_batch import parse_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import LENGTH_OVERHEAD_BYTES, TRANSACTIONAL, BatchHeader, write_times


class PartitionAppends:
    """Appends to one partition."""

    def __init__(
        self,
        partition: OwnedPartition,
        guard: ReplicaGuard,
        checks: AppendChecks,
        refusals: BatchRefusals,
        verification: TransactionVerification,
        offset_assignment: OffsetAssignment,
        holds: HalfAppends,
    ) -> None:
        self._partition = partition
        self._guard = guard
        self._checks = checks
        self._refusals = refusals
        self._verification = verification
        self._offset_assignment = offset_assignment
        self._holds = holds
        self._context = partition.context
        self._turns = partition.context.turns
        self._validator = self._validator_by(partition.config)
        self._holds_records = partition.config.holds_records
        self._queue = AppendQueue(asyncio.get_running_loop(), partition.context.budget, self._take_up)

    def append(self, batch: ProducedBatch) -> None:
        """As PartitionLog.append."""
        state = self._partition.state
        if self._partition.files is None or state.is_final or state.is_leaving:
            # Also while handing over, and before checking sequences: if the first of two batches is refused because the
            # partition moves, the second must not be refused as out of order.
            batch.complete(AppendResult(self._partition.closed_code()))
        elif self._queue.appends:
            if not self._queue.add(batch):
                self._refuse_over_append_budget(batch)
        else:
            self._append(batch)

    def config_changed(self, config: LogConfig) -> None:
        """Raises only before anything has changed."""
        self._validator = self._validator_by(config)
        self._holds_records = config.holds_records

    def refuse_waiting(self, code: ErrorCode) -> int:
        """Refuse the appends that wait to be opened, and those behind them. Returns their number."""
        return self._queue.refuse_all(code)

    def _validator_by(self, config: LogConfig) -> BatchValidator:
        return BatchValidator(config, f"{self._partition.topic_name}-{self._partition.topic_partition.partition}")

    def _append(self, batch: ProducedBatch) -> None:
        """As append, for the next append of this partition."""
        try:
            if self._guard.is_on and not self._checks.may_write(batch):
                return
            if batch.request.is_internal:
                self._offset_assignment.place(self._internal_batches(batch), batch)
                return
            now_ms = self._context.clock.now_ms()
            view, header = self._validator.validate(batch.records, batch.header, now_ms, self._context.turn_room)
        except TooMuchWork:
            if not self._queue.open(batch, self._context.opener, self._validator, now_ms):
                self._refuse_over_append_budget(batch)
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self._refuse(error, batch)
        else:
            self._place(batch, view, header, now_ms)

    def _refuse(self, error: Exception, batch: ProducedBatch) -> None:
        is_too_large = isinstance(error, KafkaError) and error.code is ErrorCode.MESSAGE_TOO_LARGE
        try:
            if is_too_large and not batch.request.is_internal and self._checks.is_repeated(batch):
                return
        except Exception as bug:  # noqa: BLE001 any bug is answered or logged
            error = bug
        self._refusals.for_error(error, batch)

    def _take_up(self, batch: ProducedBatch, opened: Opened | None, now_ms: int) -> None:
        """Go on with an append that has waited in the queue."""
        closed = self._partition.closed_code()
        if closed is not ErrorCode.NONE:
            batch.complete(AppendResult(closed))
        elif opened is None:
            self._append(batch)
        elif isinstance(opened, Exception):
            self._refuse(opened, batch)
        elif self._checks.may_write(batch):
            view, header = opened
            # Only here: while it was opened, the batch could be answered and sent on.
            write_times(view, 0, header)
            self._place(batch, view, header, now_ms)

    def _place(self, batch: ProducedBatch, view: memoryview, header: BatchHeader, now_ms: int) -> None:
        """Give a valid batch its offset, unless its producer, its transaction or a limit says otherwise."""
        partition = self._partition
        batch.view = view
        batch.header = header
        batch.offset_count = header[6] + 1  # of last_offset_delta and length: a name costs as much as the sum
        batch.size_bytes = size_bytes = header[1] + LENGTH_OVERHEAD_BYTES
        producer_id = header[9]
        try:
            if self._holds_records:
                self._holds.check(header)
            if partition.config.message_timestamp_type_is_append_time:
                batch.append_time_ms = now_ms
            if producer_id >= 0:
                if header.attributes & TRANSACTIONAL and self._verification.holds(batch, header):
                    return
                if not self._checks.is_new(batch, header, now_ms):
                    return
            if partition.backlog.refusal is not None and not self._checks.is_within_quota(batch):
                return
            if partition.config.has_lanes_validated:
                check_lanes(batch.view, header)
            if self._holds_records and self._holds.take(batch, header, now_ms):
                return
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self._refusals.for_error(error, batch)
            return
        if not self._context.budget.take(size_bytes):
            self._refuse_over_append_budget(batch)
            return
        self._turns.took(size_bytes)
        partition.machine.feed(ProduceArrived(batch))
        if producer_id >= 0 and batch.base_offset >= 0:
            try:
                partition.producers.place(header, batch.base_offset, now_ms)
            except Exception as error:  # noqa: BLE001 in the log but not in the producer state: a retry would be written twice
                partition.machine.fail(error)

    def _internal_batches(self, append: ProducedBatch) -> list[ProducedBatch]:
        """The checked batches of one internal append; only the last one answers it. Raises BmqError."""
        producers = self._partition.producers
        batches = []
        for view, header in self._validator.validate_internal(append.records):
            if header.producer_id >= 0:
                marker = parse_end_transaction_marker(view) if header.is_control else None
                if marker is not None:
                    producers.check_marker(header, marker)
                elif not header.is_control:
                    producers.check(header, is_client=False)
            batch = ProducedBatch(append.request, append.topic_partition, view, header)
            batch.offset_count, batch.size_bytes = header.last_offset_delta + 1, header.size_bytes
            batch.receiver = None
            batches.append(batch)
        batches[-1].receiver = append.receiver
        if len(batches) > 1:  # a batch that refers to itself keeps its callers' objects until the collector comes
            batches[-1].first = batches[0]
        return batches

    def _refuse_over_append_budget(self, batch: ProducedBatch) -> None:
        self._refusals.note(batch.records, ErrorCode.REQUEST_TIMED_OUT)
        self._refusals.over_append_budget(batch)
