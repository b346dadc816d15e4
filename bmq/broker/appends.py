"""The way of an append at a partition's owner, from its bytes to an offset. No task and no await unless it has to wait."""

from __future__ import annotations

import asyncio

from bmq.broker.acknowledgement import PendingBatch, call
from bmq.broker.admission import Admission
from bmq.broker.append_queue import Append, AppendQueue
from bmq.broker.batch_refusals import BatchRefusals
from bmq.broker.opener import Opened
from bmq.broker.opening_room import TooMuchWork
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.partition_events import ProduceArrived
from bmq.broker.placement import Placement
from bmq.broker.placement_checks import PlacementChecks
from bmq.broker.transaction_verification import TransactionVerification
from bmq.log.config import LogConfig
from bmq.log.partition_log import AppendDone, AppendResult
from bmq.log.transactions import TransactionClaim
from bmq.protocol.control_batch import parse_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import TRANSACTIONAL, BatchHeader, write_times


class PartitionAppends:
    """Appends to one partition."""

    def __init__(
        self,
        partition: OwnedPartition,
        checks: PlacementChecks,
        refusals: BatchRefusals,
        verification: TransactionVerification,
        placement: Placement,
    ) -> None:
        self._partition = partition
        self._checks = checks
        self._refusals = refusals
        self._verification = verification
        self._placement = placement
        self._surroundings = partition.surroundings
        self._turns = partition.surroundings.turns
        self._admission = self._admission_by(partition.config)
        self._queue = AppendQueue(asyncio.get_running_loop(), partition.surroundings.budget, self._take_up)

    def append(
        self,
        records: memoryview,
        done: AppendDone,
        is_internal: bool,
        is_acks_all: bool,
        claim: TransactionClaim | None,
    ) -> None:
        """As PartitionLog.append."""
        state = self._partition.state
        if self._partition.files is None or state.is_final or state.is_leaving:
            # Also while handing over, and before checking sequences: if the first of two batches is refused because the
            # partition moves, the second must not be refused as out of order.
            call(done, AppendResult(self._partition.closed_code()))
        elif self._queue.appends:
            if not self._queue.add(Append(records, done, is_internal, is_acks_all, claim)):
                self._refuse_for_want_of_room(records, done)
        else:
            self._append(records, done, is_internal, is_acks_all, claim)

    def config_changed(self, config: LogConfig) -> None:
        """Raises only before anything has changed."""
        self._admission = self._admission_by(config)

    def refuse_waiting(self, code: ErrorCode) -> int:
        """Answer all that wait to be opened, and behind those. How many."""
        return self._queue.refuse_all(code)

    def _admission_by(self, config: LogConfig) -> Admission:
        return Admission(config, f"{self._partition.topic_name}-{self._partition.topic_partition.partition}")

    def _append(
        self,
        records: memoryview,
        done: AppendDone,
        is_internal: bool,
        is_acks_all: bool,
        claim: TransactionClaim | None,
    ) -> None:
        """As append, for the next append of this partition."""
        try:
            if not self._checks.may_write(records, done, is_acks_all):
                return
            if is_internal:
                self._placement.place(self._internal_batches(records, done), len(records), done)
                return
            now_ms = self._surroundings.clock.now_ms()
            view, header = self._admission.admit(records, now_ms, self._surroundings.turn_room)
        except TooMuchWork:
            append = Append(records, done, is_internal, is_acks_all, claim)
            if not self._queue.open(append, self._surroundings.opener, self._admission, now_ms):
                self._refuse_for_want_of_room(records, done)
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self._refusals.for_error(error, records, done)
        else:
            self._place(view, header, now_ms, done, is_acks_all, claim)

    def _take_up(self, append: Append, opened: Opened | None, now_ms: int) -> None:
        """Go on with an append that has waited in the queue."""
        records, done = append.records, append.done
        closed = self._partition.closed_code()
        if closed is not ErrorCode.NONE:
            call(done, AppendResult(closed))
        elif opened is None:
            self._append(*append)
        elif isinstance(opened, Exception):
            self._refusals.for_error(opened, records, done)
        elif self._checks.may_write(records, done, append.is_acks_all):
            write_times(
                opened[0], 0, opened[1]
            )  # only here: while it was opened, the batch could be answered and sent on
            self._place(*opened, now_ms, done, append.is_acks_all, append.claim)

    def _place(
        self,
        view: memoryview,
        header: BatchHeader,
        now_ms: int,
        done: AppendDone,
        is_acks_all: bool,
        claim: TransactionClaim | None,
    ) -> None:
        """Give an admitted batch its offset, unless its producer, its transaction or a limit says otherwise."""
        partition = self._partition
        try:
            append_time_ms = now_ms if partition.config.message_timestamp_type_is_append_time else -1
            batch = PendingBatch(view, header, done, append_time_ms, is_acks_all)
            if header.producer_id >= 0:
                if header.attributes & TRANSACTIONAL and self._verification.holds(batch, claim):
                    return
                if not self._checks.is_new(batch, done, now_ms):
                    return
            if not self._checks.is_within_quota(view, done):
                return
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self._refusals.for_error(error, view, done)
            return
        if not self._surroundings.budget.take(batch.size_bytes):
            self._refuse_for_want_of_room(view, done)
            return
        self._turns.took(batch.size_bytes)
        partition.machine.feed(ProduceArrived(batch))
        if header.producer_id >= 0 and batch.base_offset >= 0:
            try:
                partition.producers.place(header, batch.base_offset, now_ms)
            except Exception as error:  # noqa: BLE001 in the log but not in the producer state: a retry would be written twice
                partition.machine.fail(error)

    def _internal_batches(self, records: memoryview, done: AppendDone) -> list[PendingBatch]:
        """The checked batches of one internal append; only the last one answers it. Raises BmqError."""
        producers = self._partition.producers
        admitted = self._admission.admit_internal(records)
        for view, header in admitted:
            if header.producer_id >= 0:
                marker = parse_end_transaction_marker(view) if header.is_control else None
                if marker is not None:
                    producers.check_marker(header, marker)
                elif not header.is_control:
                    producers.check(header, is_client=False)
        batches = [PendingBatch(view, header, None, -1, True) for view, header in admitted]
        batches[-1].done = done
        if len(batches) > 1:  # a batch that refers to itself keeps its callers' objects until the collector comes
            batches[-1].first = batches[0]
        return batches

    def _refuse_for_want_of_room(self, records: memoryview, done: AppendDone) -> None:
        self._refusals.note(records, ErrorCode.REQUEST_TIMED_OUT)
        self._refusals.for_want_of_room(done)
