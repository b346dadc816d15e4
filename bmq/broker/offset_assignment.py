"""Gives checked batches their offsets, and remembers what their producers have placed."""

from __future__ import annotations

from collections.abc import Sequence

from bmq.broker.batch_refusals import BatchRefusals
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.partition_events import ProduceArrived
from bmq.broker.transaction_guard import TransactionGuards
from bmq.log.partition_log import ProducedBatch
from bmq.protocol.control_batch import parse_end_transaction_marker
from bmq.protocol.record_batch import BatchHeader


class OffsetAssignment:
    """Places batches in one partition's log. `guards`: a marker ends the wait of its producer's batches."""

    def __init__(self, partition: OwnedPartition, guards: TransactionGuards, refusals: BatchRefusals) -> None:
        self._partition = partition
        self._guards = guards
        self._refusals = refusals

    def place(self, batches: Sequence[ProducedBatch], append: ProducedBatch) -> None:
        """Place all batches of one append; refuse it when there is no room for its bytes."""
        partition = self._partition
        if not partition.context.budget.take(sum(batch.size_bytes for batch in batches)):
            self._refusals.over_append_budget(append)
            return
        for batch in batches:
            partition.machine.feed(ProduceArrived(batch))
            if batch.header is not None and batch.header.producer_id >= 0 and batch.base_offset >= 0:
                try:
                    self._remember(batch, batch.header)
                except Exception as error:  # noqa: BLE001 in the log but not in the producer state: a retry would be written twice
                    partition.machine.fail(error)

    def _remember(self, batch: ProducedBatch, header: BatchHeader) -> None:
        producers = self._partition.producers
        marker = parse_end_transaction_marker(batch.view) if header.is_control else None
        now_ms = self._partition.context.clock.now_ms()
        if marker is not None:
            self._guards.drop(header.producer_id)
            producers.place_marker(header, batch.base_offset, marker, now_ms)
        elif not header.is_control:
            producers.place(header, batch.base_offset, now_ms)
