"""Places announcements and the batch that they name in a partition's log: next to each other, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bmq.broker.batch_refusals import BatchRefusals
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.partition_events import ProduceArrived
from bmq.log.partition_log import AppendResult, ProducedBatch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import BatchHeader


def place_pair(
    partition: OwnedPartition, announcement: bytearray, batch: ProducedBatch, placed: Callable[[int], None]
) -> ErrorCode:
    """Do as `place_announced` does, with one announcement."""
    return place_announced(partition, (announcement,), batch, placed)


def place_announced(
    partition: OwnedPartition,
    announcements: Sequence[bytearray],
    batch: ProducedBatch,
    placed: Callable[[int], None],
) -> ErrorCode:
    """Give the announcements, and then `batch`, to the partition's machine.

    NONE: all were given, and the machine answers `batch`. Any other code: `batch` is not in the log, and the caller has to answer
    it. Announcements may be in the log then, and are void, because another batch follows them.
    `placed` is called with the first announcement's offset (the others and `batch` follow without a gap), before the machine gets
    `batch`: so a refusal, now or later, rolls back what `placed` notes.
    """
    controls = [_control(batch, announcement) for announcement in announcements]
    budget = partition.context.budget
    left_bytes = batch.size_bytes + sum(control.size_bytes for control in controls)
    if not budget.take(left_bytes):
        return ErrorCode.REQUEST_TIMED_OUT
    machine = partition.machine
    next_offset = -1
    for control in controls:
        machine.feed(ProduceArrived(control))
        left_bytes -= control.size_bytes
        log = partition.log
        is_behind = next_offset in (-1, control.base_offset)
        if log is None or control.base_offset < 0 or log.log_end_offset != control.end_offset or not is_behind:
            budget.give_back(left_bytes)
            closed = partition.closed_code()
            return ErrorCode.KAFKA_STORAGE_ERROR if closed is ErrorCode.NONE else closed
        next_offset = control.end_offset
    if controls:
        placed(controls[0].base_offset)
    machine.feed(ProduceArrived(batch))
    return ErrorCode.NONE


def place_produced(
    partition: OwnedPartition,
    announcements: Sequence[bytearray],
    batch: ProducedBatch,
    placed: Callable[[int], None],
    refusals: BatchRefusals,
    now_ms: int,
) -> None:
    """Place a producer's batch behind its announcements. If that fails, refuse it; else add it to the producer state."""
    partition.context.turns.took(sum(map(len, announcements)) + batch.size_bytes)
    code = place_announced(partition, announcements, batch, placed)
    if code is not ErrorCode.NONE:
        refusals.note(batch.view, code)
        refusals.refuse(AppendResult(code), batch)
        return
    header = batch.header
    if header is not None and header.producer_id >= 0 and batch.base_offset >= 0:
        try:
            partition.producers.place(header, batch.base_offset, now_ms)
        except Exception as error:  # noqa: BLE001 in the log but not in the producer state: a retry would be written twice
            partition.machine.fail(error)


def _control(batch: ProducedBatch, announcement: bytearray) -> ProducedBatch:
    view = memoryview(announcement)
    control = ProducedBatch(batch.request, batch.topic_partition, view, BatchHeader.parse(view))
    control.receiver = None
    control.offset_count, control.size_bytes = 1, len(view)
    return control
