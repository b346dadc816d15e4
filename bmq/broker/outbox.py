"""Answers of appends that wait until a step of the machine is complete: only then callbacks run, and may append again."""

from __future__ import annotations

from collections import deque

from bmq.broker.owned_partition import OwnedPartition
from bmq.log.partition_log import AppendResult, ProducedBatch
from bmq.protocol.error_codes import ErrorCode


class Outbox:
    """`is_wake_due`: the high watermark or the state has moved, so waiters have to be woken."""

    __slots__ = ("_is_sending", "_partition", "batches", "is_wake_due")

    def __init__(self, partition: OwnedPartition) -> None:
        self._partition = partition
        self._is_sending = False
        self.batches: deque[tuple[ProducedBatch, ErrorCode]] = deque()
        self.is_wake_due = False

    def refuse(self, batch: ProducedBatch, code: ErrorCode) -> None:
        self._partition.context.counts.refused_batches += 1
        self.batches.append((batch, code))

    def send(self) -> None:
        """Run the callbacks, wake the waiters, and give the batches' bytes back to the budget."""
        if self._is_sending:
            return
        self._is_sending = True
        batches, budget = self.batches, self._partition.context.budget
        freed_bytes = 0
        try:
            while batches or self.is_wake_due:
                log_start_offset = self._partition.log_start_offset
                while batches:
                    batch, error_code = batches.popleft()
                    freed_bytes += batch.size_bytes
                    if batch.receiver is None:
                        continue
                    if error_code is ErrorCode.NONE or error_code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                        first = batch.first or batch
                        result = AppendResult(error_code, first.base_offset, batch.append_time_ms, log_start_offset)
                    else:
                        result = AppendResult(error_code)
                    batch.complete(result)
                if self.is_wake_due:
                    self.is_wake_due = False
                    self._partition.waiters.wake_all()
                if freed_bytes:
                    freed, freed_bytes = freed_bytes, 0
                    budget.give_back(freed)
        finally:
            self._is_sending = False
            if freed_bytes:
                budget.give_back(freed_bytes)
