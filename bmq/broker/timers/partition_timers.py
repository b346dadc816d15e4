"""One partition's delayed records at its owner: which are pending, when the next is due, and what manifests say of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

import structlog

from bmq.aio.wake_up import WakeUp
from bmq.broker.log_reads import LogReads
from bmq.broker.manifest_changes import ManifestChanges
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.timers.pending_view import PendingView
from bmq.broker.timers.run_lifecycle import RunLifecycle
from bmq.broker.timers.timer_replay import replay_timers
from bmq.log.config import LogConfig
from bmq.log.manifest import TimersReference
from bmq.log.partition_files import PartitionFiles
from bmq.log.store import StoreError
from bmq.log.timers.announcements import START, Position
from bmq.log.timers.delayed_page import DelayedPage
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.due_order import DueOrder
from bmq.log.timers.replay import HeldRecordReplay
from bmq.log.timers.waiting_records import Pending
from bmq.log.unnamed_files import find_unnamed_runs
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

CLOCK_READ_S_MAX: Final = 1.0
"""While records are pending, the wall clock is read at least this often, because it may be set."""

_log = structlog.get_logger("bmq.broker")


class HeldRecordSource(Protocol):
    """A second source of held records (half messages), which are delivered in one order with delayed ones. No run has them."""

    def replay(self) -> HeldRecordReplay:
        """The part that collects these records while the log is replayed, before `begin`."""

    def begin(self, position: Position) -> None:
        """Take over what the replay found; deliveries have come to `position`. Without a replay nothing was ever held."""

    def oldest_needed(self, high_watermark: int) -> int:
        """The offset from which the log is needed for these records, as DueOrder.oldest_needed."""

    def synced(self, high_watermark: int, position: Position) -> None:
        """All offsets below `high_watermark` are durable, and deliveries have come to `position`."""

    def rollback(self, end_offset: int) -> None:
        """Undo what was placed at or past `end_offset`, as DueOrder.rollback."""

    def config_changed(self, config: LogConfig) -> None:
        """Follow a change of the topic's configs."""

    def schedule_wake_up(self) -> None:
        """Start the work that is due, and set the wake-up for the next."""

    def end(self) -> None:
        """The partition's machine has ended: cancel wake-ups."""

    async def record(self, pending: Pending) -> DueRecord | None:
        """The record to deliver; None if `pending` is an ordinary delayed record.

        Raises KafkaError, CorruptRecords, CorruptFile, BadCompressedData.
        """


class PartitionTimers:
    """Implements owned_partition.Timers.

    `order` and `lifecycle` are None until a manifest names an offset to replay from, before which no record is held. `deliver`
    is called when records may be due, and calls `schedule_wake_up` when it is done. `is_delivering`: whether a delivery is under
    way (see RunLifecycle).
    """

    def __init__(
        self,
        partition: OwnedPartition,
        changes: ManifestChanges,
        reads: LogReads,
        deliver: Callable[[], None],
        is_delivering: Callable[[], bool],
        half_messages: HeldRecordSource,
    ) -> None:
        self._partition = partition
        self._half_messages = half_messages
        self._changes = changes
        self._reads = reads
        self._deliver = deliver
        self._is_delivering = is_delivering
        self._wake_up = WakeUp(asyncio.get_running_loop(), self._begin_due)
        self._is_beginning = False
        self._counted = 0, 0  # (delivered, cancelled) as last added to the metrics
        self.order: DueOrder | None = None
        self.lifecycle: RunLifecycle | None = None

    # --- at the start, and when delay is switched on

    def before_manifest(self, files: PartitionFiles) -> None:
        """Have the owner's first manifest name `timers` if the topic holds records. Called after the walk of the log."""
        if self._partition.config.holds_records and files.timers() is None:
            begun = TimersReference(files.end_offset, *START)
            files.timers = lambda: begun

    async def recover(self, files: PartitionFiles) -> None:
        """Replay pending records, once the first manifest is durable. Raises CorruptRecords, StoreError."""
        timers = files.timers()
        if timers is None or self.order is not None:
            return
        replay = await replay_timers(files, timers, self._half_messages.replay())
        order = DueOrder(replay.position)
        self._follow(files, order, timers).replayed(replay.size_bytes)
        order.recover(replay.pending, replay.cancelled, replay.kept)
        self._partition.machine.spawn(self._remove_unnamed(files, timers))

    def config_changed(self, config: LogConfig) -> None:
        files = self._partition.files
        if config.holds_records and self.order is None and files is not None and not self._is_beginning:
            self._is_beginning = True
            self._partition.machine.spawn(self._begin(files))
        self._half_messages.config_changed(config)

    async def _begin(self, files: PartitionFiles) -> None:
        """Switch delay on in a partition that we own already: write a manifest that names `timers`, then let records be held."""
        partition = self._partition
        backoff = partition.context.backoff()
        begun = TimersReference(files.end_offset, *START)
        files.timers = lambda: begun
        while not partition.state.is_final and partition.closed_code() is ErrorCode.NONE:
            try:
                await self._changes.write()
            except BmqError as error:
                if not backoff.failures:
                    _log.warning("delay_not_yet_enabled", **partition.names(), reason=str(error))
                await backoff.pause()
            else:
                self._follow(files, DueOrder(), begun)
                return

    def _follow(self, files: PartitionFiles, order: DueOrder, named: TimersReference) -> RunLifecycle:
        partition = self._partition
        self._half_messages.begin(order.position)
        self.order = order
        self.lifecycle = RunLifecycle(
            partition,
            self._changes,
            self._reads,
            order,
            named,
            files.end_offset,
            self._is_delivering,
            self.schedule_wake_up,
        )
        files.timers = partial(self._reference, files, self.lifecycle)
        partition.timers = self
        return self.lifecycle

    def _reference(self, files: PartitionFiles, lifecycle: RunLifecycle) -> TimersReference:
        """The `timers` of a manifest that is written now."""
        half_from = self._half_messages.oldest_needed(files.end_offset)
        return replace(lifecycle.reference(files), half_from=half_from).simplified()

    async def _remove_unnamed(self, files: PartitionFiles, named: TimersReference) -> None:
        """Delete runs of older owners that our first manifest does not name, after file.delete.delay.ms."""
        partition = self._partition
        backoff = partition.context.backoff()
        while not partition.state.is_final:
            try:
                found = await find_unnamed_runs(files.store, files.paths, files.manifest().epochs_named(), named.runs)
            except StoreError as error:
                if not backoff.failures:
                    _log.info("unnamed_files_not_found", **partition.names(), reason=str(error))
                await backoff.pause()
            else:
                break
        else:
            return
        if found:
            _log.info("unnamed_files_removed", **partition.names(), paths=found)
            self._changes.remove_later(found)

    # --- as owned_partition.Timers

    def synced(self, high_watermark: int, size_bytes: int) -> None:
        order, lifecycle = self.order, self.lifecycle
        assert order is not None and lifecycle is not None
        delivered, cancelled = self._counted
        order.synced(high_watermark)
        self._half_messages.synced(high_watermark, order.position)
        self._counted = order.delivered_count, order.cancelled_count
        counts = self._partition.context.counts
        counts.delayed_delivered += order.delivered_count - delivered
        counts.delayed_cancelled += order.cancelled_count - cancelled
        if order.delivered_count != delivered:
            lifecycle.delivered()
        lifecycle.synced(high_watermark, size_bytes)
        self.schedule_wake_up()

    def rollback(self, end_offset: int) -> None:
        assert self.order is not None
        self.order.rollback(end_offset)
        self._half_messages.rollback(end_offset)
        self.schedule_wake_up()

    async def make_room(self, offset: int) -> None:
        assert self.lifecycle is not None
        await self.lifecycle.make_room(offset)

    # --- for operators

    @property
    def view(self) -> PendingView | None:
        """The pending records, for operators; None if the partition is not owned or never had a delayed record."""
        if self.order is None or self.lifecycle is None or not self._partition.is_owning:
            return None
        return PendingView(self.order, self.lifecycle.runs)

    async def page(self, after: Position, limit: int) -> DelayedPage:
        """Implements PartitionLog.delayed_records. Raises KafkaError unless we own the partition; BmqError, StoreError."""
        self._partition.own_files()
        view = self.view
        return DelayedPage(0, None, ()) if view is None else await view.page(after, limit)

    # --- when something is due

    def start_deliveries(self) -> None:
        """Begin to deliver: the partition is owned from now on."""
        self.schedule_wake_up()
        self._half_messages.schedule_wake_up()

    def schedule_wake_up(self) -> None:
        """Set the wake-up for the next due record, at most CLOCK_READ_S_MAX ahead."""
        order = self.order
        if order is None or self._partition.closed_code() is not ErrorCode.NONE:
            return
        due_ms = order.next_due_ms
        if due_ms is None:
            return
        now_ms = max(self._partition.context.clock.now_ms(), order.position.due_ms)
        self._wake_up.within(min(max(0.0, (due_ms - now_ms) / 1000), CLOCK_READ_S_MAX))

    def end(self) -> None:
        """The partition's machine has ended: cancel the wake-up, and fail the work that waits."""
        self._half_messages.end()
        if self.lifecycle is not None:
            self.lifecycle.end()
        self._wake_up.cancel()

    def _begin_due(self) -> None:
        if not self._partition.state.is_final:
            self._deliver()
