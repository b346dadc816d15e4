"""Places an announcement and the batch that it names in a partition's log: right behind each other, or not at all."""

from __future__ import annotations

from collections.abc import Callable

from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.partition_events import ProduceArrived
from bmq.log.partition_log import ProducedBatch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import BatchHeader


def place_pair(
    partition: OwnedPartition, announcement: bytearray, batch: ProducedBatch, placed: Callable[[int], None]
) -> ErrorCode:
    """NONE: the machine was given both, and answers `batch`. Else it has not been answered, and is not in the log.

    `placed` is called with the announcement's offset, which `batch` is to follow, before the machine is given that: a refusal,
    now or later, rolls back what it notes. The machine may have taken the announcement alone, which then is void: what is
    placed next is another batch.
    """
    view = memoryview(announcement)
    control = ProducedBatch(batch.request, batch.topic_partition, view, BatchHeader.parse(view))
    control.receiver = None
    control.offset_count, control.size_bytes = 1, len(view)
    budget = partition.context.budget
    if not budget.take(control.size_bytes + batch.size_bytes):
        return ErrorCode.REQUEST_TIMED_OUT
    machine = partition.machine
    machine.feed(ProduceArrived(control))
    log = partition.log
    if log is None or control.base_offset < 0 or log.log_end_offset != control.end_offset:
        budget.give_back(batch.size_bytes)
        closed = partition.closed_code()
        return ErrorCode.KAFKA_STORAGE_ERROR if closed is ErrorCode.NONE else closed
    placed(control.base_offset)
    machine.feed(ProduceArrived(batch))
    return ErrorCode.NONE
