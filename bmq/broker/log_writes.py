"""Writes a partition's batches to its open segment, and puts durable batches into the tail cache."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, cast

from bmq.broker import partition_events as ev
from bmq.broker.batch_refusals import BatchRefusals
from bmq.broker.outbox import Outbox
from bmq.broker.own_segment import OwnSegment
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.partition_states import Owning
from bmq.broker.replica_guard import ReplicaGuard
from bmq.broker.segment_files import SegmentLifecycle
from bmq.broker.traced_writes import note_write
from bmq.log.partition_log import ProducedBatch
from bmq.log.segment_index import IndexBuilder
from bmq.log.store import Appended, FencedWriter, StorageFull
from bmq.log.time_based_rolling import roll_base_after
from bmq.protocol.error_codes import ErrorCode

INDEX_ENTRIES_MAX: Final = 1_000_000


class LogWrites:
    """Performs WriteBatches, Acknowledge and Reject of one partition's machine."""

    def __init__(
        self,
        partition: OwnedPartition,
        lifecycle: SegmentLifecycle,
        outbox: Outbox,
        refusals: BatchRefusals,
        guard: ReplicaGuard,
    ) -> None:
        self._partition = partition
        self._lifecycle = lifecycle
        self._outbox = outbox
        self._refusals = refusals
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._turns = partition.context.turns
        self._current: OwnSegment | None = None

    def due(self) -> None:
        self._partition.machine.feed(ev.WriteDue(self._turns.outstanding))

    def end(self) -> None:
        """The machine has ended."""
        self._current = None

    def write(self, effect: ev.WriteBatches) -> None:
        batches = cast("tuple[ProducedBatch, ...]", effect.batches)
        segment = self._lifecycle.segments[effect.segment.roll]
        now_s = self._loop.time()
        if segment.index is None:
            self._begin(segment, batches[0].base_offset, now_s)
        self._current = segment
        segment.last_append_s = now_s
        answer = segment.writer.append(segment.place(batches))
        self._turns.outstanding += 1
        if traced := self._partition.context.traced_appends:
            note_write(traced, batches, segment, answer, now_s)
        written = partial(self._written, segment.roll, batches[-1].end_offset, now_s)
        if answer.done():
            written(answer)
        else:
            answer.add_done_callback(written)

    def _begin(self, segment: OwnSegment, base_offset: int, now_s: float) -> None:
        segment.first_append_s = now_s
        files = self._partition.files
        assert files is not None
        before = None if self._current is None else self._current.index
        segment.index = IndexBuilder(
            self._partition.leader_epoch,
            segment.roll,
            segment.file_id,
            base_offset,
            interval_bytes=files.index_interval_bytes,
            roll_base_ms=None if before is None else roll_base_after(before, self._partition.config),
        )
        files.begin_segment(segment.index)

    def _written(self, roll: int, end_offset: int, began_s: float, answer: Appended) -> None:
        self._turns.outstanding -= 1
        try:
            self._report_written(roll, end_offset, began_s, answer)
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self._partition.machine.fail(error)

    def _report_written(self, roll: int, end_offset: int, began_s: float, answer: Appended) -> None:
        feed = self._partition.machine.feed
        error = None if answer.cancelled() else answer.exception()
        if error is None and not answer.cancelled():
            counts = self._partition.context.counts
            counts.appends += 1
            counts.store_latency.observe(self._loop.time() - began_s)
            feed(ev.SegmentSynced(roll, end_offset, self._turns.outstanding))
        elif isinstance(error, FencedWriter):
            feed(ev.OwnershipLost())
        else:
            feed(ev.WriterBroken(roll, isinstance(error, StorageFull)))

    def acknowledge(self, effect: ev.Acknowledge) -> None:
        batches = cast("tuple[ProducedBatch, ...]", effect.batches)
        if not batches:
            return
        partition, segment = self._partition, self._current
        assert segment is not None and segment.index is not None
        add, keep, answer = segment.index.add, partition.tail.append, self._outbox.batches.append
        if effect.is_short:
            answer = self._answer_short
            self._guard.tracker.assured_offset = effect.high_watermark
        size_bytes = 0
        for batch in batches:
            base_offset, header = batch.base_offset, batch.header
            assert header is not None  # it was placed
            add(header, base_offset, batch.position)
            keep(base_offset, base_offset + batch.offset_count, batch.view, batch.position)
            size_bytes += batch.size_bytes
            answer((batch, ErrorCode.NONE))
        partition.producers.synced(effect.high_watermark)
        if partition.timers is not None:
            partition.timers.synced(effect.high_watermark, size_bytes)
        counts = partition.context.counts
        counts.appended_batches += len(batches)
        counts.appended_bytes += size_bytes
        partition.load.bytes_in += size_bytes
        partition.load.requests += len(batches)
        self._outbox.is_wake_due = True
        if partition.log is not None:
            partition.log.taken = ()  # all of them are in the outbox
        if segment.index.entry_count >= INDEX_ENTRIES_MAX:
            partition.machine.feed(ev.RollDue(segment.roll))

    def _answer_short(self, entry: tuple[ProducedBatch, ErrorCode]) -> None:
        batch, code = entry
        if batch.is_acks_all and batch.header is not None:
            code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            self._guard.note_unconfirmed(batch.header, batch.base_offset)
        self._outbox.batches.append((batch, code))

    def reject(self, effect: ev.Reject) -> None:
        partition = self._partition
        if effect.error_code is ErrorCode.NOT_ENOUGH_REPLICAS:
            self._guard.tracker.has_refused = True
        batches = cast("tuple[ProducedBatch, ...]", effect.batches)
        for batch in batches:
            self._outbox.refuse(batch, effect.error_code)
        state = partition.state
        if isinstance(state, Owning):
            partition.producers.rollback(state.log.log_end_offset)
            if partition.timers is not None:
                partition.timers.rollback(state.log.log_end_offset)
            for batch in batches:
                self._refusals.note(batch.view, effect.error_code)
        if partition.log is not None:
            partition.log.taken = ()
