"""Appends decisions about half messages that no producer sent: from a check's answer, or because a message is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bmq.broker.half.half_appends import Announced
from bmq.broker.half.partition_half import PartitionHalf
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.replica_guard import ReplicaGuard
from bmq.broker.timers.announced_batches import place_announced
from bmq.broker.timers.partition_timers import PartitionTimers
from bmq.log.half.half_announcement import PlacedDecision
from bmq.log.half.half_headers import AskedDecision, HalfRefused
from bmq.log.half.half_split import empty_batch
from bmq.log.partition_log import AppendResult, internal_batch
from bmq.log.timers.announcements import NamedBatch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import BatchHeader


class HalfDecisions:
    """Appends decisions to one partition."""

    def __init__(
        self, partition: OwnedPartition, timers: PartitionTimers, half: PartitionHalf, guard: ReplicaGuard
    ) -> None:
        self._partition = partition
        self._timers = timers
        self._half = half
        self._guard = guard

    async def append(self, asked: Sequence[AskedDecision]) -> str | None:
        """Append the decisions that still change something, with an empty batch. Returns None once durable, else the reason."""
        partition, due_order = self._partition, self._timers.order
        closed = partition.closed_code()
        if closed is not ErrorCode.NONE or due_order is None:
            return f"the log answers {closed.name}"
        if self._guard.is_short():
            return f"the log answers {ErrorCode.NOT_ENOUGH_REPLICAS.name}"
        now_ms = partition.context.clock.now_ms()
        due_ms = max(now_ms, due_order.floor_ms)
        wanted = [one for one in asked if self._changes(one)]
        if not wanted and not any(self._half.order.is_deciding(one.offset) for one in asked):
            return None
        decisions = [PlacedDecision(one.offset, due_ms, place, one.outcome) for place, one in enumerate(wanted)]
        announced = Announced((), decisions, self._half.order, due_order, now_ms)
        answer: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()

        def done(result: AppendResult) -> None:
            if not answer.done():  # it is done already when this task was cancelled
                answer.set_result(result)

        view = memoryview(empty_batch(max(1, len(decisions))))
        header = BatchHeader.parse(view)
        batch = internal_batch(partition.topic_partition, view, done)
        batch.header, batch.offset_count, batch.size_bytes = header, header.last_offset_delta + 1, len(view)

        def placed(start_offset: int) -> None:
            announced.placed(start_offset, start_offset + 1, start_offset + 1 + batch.offset_count)

        # Without new decisions, the empty batch is durable no earlier than those in flight: so wait for it alone.
        announcements = [announced.announcement(NamedBatch.of(header), 1)] if decisions else []
        code = place_announced(partition, announcements, batch, placed)
        if code is not ErrorCode.NONE:
            return f"the log answers {code.name}"
        result = await answer
        is_in_log = result.error_code in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return None if is_in_log else f"the log answers {result.error_code.name}"

    def _changes(self, asked: AskedDecision) -> bool:
        try:
            return self._half.order.check(asked)
        except HalfRefused:
            return False  # a contrary decision came first
