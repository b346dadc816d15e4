"""Appends delayed records to the log when they are due: one batch at a time, each announced with the position it leads to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from bmq.aio.answers import awaited_answer
from bmq.broker.log_reads import LogReads
from bmq.broker.manifest_changes import ManifestChanges
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.replica_guard import ReplicaGuard
from bmq.broker.timers.announced_batches import place_pair
from bmq.broker.timers.dead_retries import DeadRetries
from bmq.broker.timers.hold_reader import AHEAD_MS, HoldReader
from bmq.broker.timers.partition_timers import HeldRecordSource, PartitionTimers
from bmq.broker.timers.pending_runs import PendingRuns
from bmq.log.partition_log import AppendResult, ProducedBatch, internal_batch
from bmq.log.store import CorruptFile, StoreError
from bmq.log.timers.announcements import Delivery, NamedBatch, encode_delivery
from bmq.log.timers.delivering import DeliveryDraft, delivered_batch
from bmq.log.timers.due_order import DueOrder
from bmq.log.timers.waiting_records import Pending
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import BatchHeader

RECORDS_MAX: Final = 500
"""Most records in one delivery: they take some 2 ms of the event loop."""
BYTES_MAX: Final = 1024 * 1024
"""A delivery takes no further record once its bodies have this many bytes."""
OVERDUE_MS: Final = 250
"""Records that are later than this are a backlog, and producers come before them."""
OPENED_RECORDS_MAX: Final = 1_000
"""Held records that are sorted in one turn of the event loop; it takes some 1 ms."""

_log = structlog.get_logger("bmq.broker")


class Deliveries:
    """Delivers the due records of one partition, in order, one batch in flight at a time.

    If a million records are due in one second, their batches follow each other over a longer time.
    """

    def __init__(
        self,
        partition: OwnedPartition,
        changes: ManifestChanges,
        reads: LogReads,
        guard: ReplicaGuard,
        dead: DeadRetries,
        half_messages: HeldRecordSource,
    ) -> None:
        self._partition = partition
        self._dead = dead
        self._guard = guard
        self._reads = reads
        self._half_messages = half_messages
        self._is_running = False
        self._is_waiting = False  # for its turn among overdue ones: nothing is taken
        self.timers = PartitionTimers(
            partition, changes, reads, self._begin, lambda: self._is_running and not self._is_waiting, half_messages
        )

    def _begin(self) -> None:
        if not self._is_running:
            self._is_running = True
            self._partition.machine.spawn(self._run())

    async def _run(self) -> None:
        partition, order, lifecycle = self._partition, self.timers.order, self.timers.lifecycle
        assert order is not None and lifecycle is not None
        backoff, turns = partition.context.backoff(), partition.context.due_turns
        runs = lifecycle.runs
        holds = HoldReader(self._reads.read, order, runs.bodies, turns)
        pace, is_overdue = partition.context.overdue_pace, False
        try:
            while self._is_open():
                lifecycle.settle()
                self._is_waiting = True
                async with pace.turn(is_overdue=is_overdue):
                    self._is_waiting = False
                    if not self._is_open():
                        return
                    now_ms = partition.context.clock.now_ms()
                    not_loaded = await self._load(runs, now_ms)
                    await turns.next()
                    while order.open_due(now_ms + AHEAD_MS, OPENED_RECORDS_MAX):
                        await turns.next()
                    due = order.take(now_ms, RECORDS_MAX)
                    if not due and not_loaded is None:
                        return
                    reason = await self._deliver(order, holds, due) if due else not_loaded
                    if reason is None:
                        pace.delivered()
                next_ms = order.next_due_ms
                is_overdue = reason is None and next_ms is not None and next_ms + OVERDUE_MS <= now_ms
                if reason is None:
                    runs.bodies.drop_passed(order.position)
                    backoff.reset()
                    continue
                if not backoff.failures:
                    _log.warning("delivery_waits", **partition.names(), reason=reason)
                await backoff.pause()
        finally:
            self._is_running = self._is_waiting = False
            lifecycle.settle()
            self.timers.schedule_wake_up()

    def _is_open(self) -> bool:
        return not self._partition.state.is_final and self._partition.closed_code() is ErrorCode.NONE

    async def _load(self, runs: PendingRuns, now_ms: int) -> str | None:
        """Read the due records of runs into memory. Returns why some were not read; None: all were."""
        try:
            await runs.load(now_ms)
        except (BmqError, StoreError) as error:
            return str(error) or type(error).__name__
        return None

    async def _deliver(self, order: DueOrder, holds: HoldReader, due: list[Pending]) -> str | None:
        """Append the first of the `due` records, as many as fit. Returns why none was appended, None for success.

        Records that were not appended are pending again.
        """
        try:
            count, batch = await self._delivery_batch(order, holds, due)
        except (BmqError, StoreError) as error:
            order.give_back(due)
            return str(error) or type(error).__name__
        except BaseException:
            order.give_back(due)
            raise
        order.give_back(due[count:])
        return await self._append(order, due[:count], batch)

    async def _delivery_batch(self, order: DueOrder, holds: HoldReader, due: list[Pending]) -> tuple[int, bytearray]:
        """(how many of the `due` records this delivery covers, the batch that consumers get). Raises BmqError, StoreError."""
        clock = self._partition.context.clock
        await holds.gather(due, clock.now_ms())
        draft = await self._draft(order, due)
        if not self._partition.config.retry_levels_ms:
            return len(draft), draft.batch(clock.now_ms())
        living = await self._dead.living(draft.records())
        return len(draft), delivered_batch(living, clock.now_ms())

    async def _draft(self, order: DueOrder, due: list[Pending]) -> DeliveryDraft:
        """The first of the `due` records, up to BYTES_MAX and at least one. Raises CorruptFile if the first was not found."""
        draft = DeliveryDraft()
        assert self.timers.lifecycle is not None
        bodies = self.timers.lifecycle.runs.bodies
        if order.has_kept:
            for number, pending in enumerate(due):
                if len(draft) < number or draft.size_bytes >= BYTES_MAX:
                    break
                if not order.is_kept(pending):
                    bodies.put((pending,), draft, BYTES_MAX)
                elif (record := await self._half_messages.record(pending)) is not None:
                    draft.add_record(record)
        else:
            bodies.put(due, draft, BYTES_MAX)
        if not draft:
            raise CorruptFile(f"the delayed record {due[0].offset} is not where it is held")
        return draft

    async def _append(self, order: DueOrder, due: list[Pending], made: bytearray) -> str | None:
        """Append `made`, the batch that delivers the records `due`. Returns the reason if it was refused."""
        partition = self._partition
        answer: asyncio.Future[AppendResult]
        answer, done = awaited_answer()
        view = memoryview(made)
        header = BatchHeader.parse(view)
        batch = internal_batch(partition.topic_partition, view, done)
        batch.header, batch.offset_count, batch.size_bytes = header, header.last_offset_delta + 1, len(view)
        announced = Delivery(NamedBatch.of(header), order.position, due[-1].position)

        def placed(start_offset: int) -> None:
            order.place_delivery(due, start_offset, start_offset + 1 + batch.offset_count)

        code = self._place(encode_delivery(announced), batch, placed)
        if code is not ErrorCode.NONE:
            order.give_back(due)
            return f"the log answers {code.name}"
        result = await answer  # if it was refused, PartitionTimers.rollback has made the records pending again
        is_in_log = result.error_code in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return None if is_in_log else f"the log answers {result.error_code.name}"

    def _place(self, announcement: bytearray, batch: ProducedBatch, placed: Callable[[int], None]) -> ErrorCode:
        closed = self._partition.closed_code()
        if closed is not ErrorCode.NONE:
            return closed
        if self._guard.is_short():
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return place_pair(self._partition, announcement, batch, placed)
