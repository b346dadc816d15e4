"""The delayed records of one partition at its owner: what is pending, the wake-up for what is next, and its manifest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from bmq.broker.manifest_changes import ManifestChanges
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.timers.pending_view import PendingView
from bmq.broker.timers.timer_replay import replay_timers
from bmq.log.config import LogConfig
from bmq.log.manifest import TimersReference
from bmq.log.partition_files import PartitionFiles
from bmq.log.timers.announcements import START, Position
from bmq.log.timers.delayed_page import DelayedPage
from bmq.log.timers.due_order import DueOrder
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

LOOK_S_MAX: Final = 1.0
"""While something is pending, the wall clock is looked at so often: it may be set."""
MANIFEST_BYTES: Final = 32 * 1024 * 1024
"""A manifest is written when so much was appended, so that the next owner need not replay it."""

_log = structlog.get_logger("bmq.broker")


class PartitionTimers:
    """Implements owned_partition.Timers. `order` is None until the manifest names a place to replay from.

    `deliver` is called when something may be due, and calls `look` when it has ended.
    """

    def __init__(self, partition: OwnedPartition, changes: ManifestChanges, deliver: Callable[[], None]) -> None:
        self._partition = partition
        self._changes = changes
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._wake: asyncio.TimerHandle | None = None
        self._appended_bytes = 0
        self._named_from = 0  # `replay_from` of the last manifest that was written for it
        self._is_writing = False
        self._is_beginning = False
        self.order: DueOrder | None = None

    # --- its beginning

    def before_manifest(self, files: PartitionFiles) -> None:
        """The log was walked, and the first manifest is about to be written: it is to name `timers` if the topic has delay."""
        if self._partition.config.is_delay_enabled and files.timers() is None:
            begun = TimersReference(files.end_offset, *START)
            files.timers = lambda: begun

    async def recover(self, files: PartitionFiles) -> None:
        """That manifest is durable. Raises CorruptRecords, StoreError."""
        timers = files.timers()
        if timers is None or self.order is not None:
            return
        replay = await replay_timers(files, timers)
        order = DueOrder(replay.position)
        order.recover(replay.pending, replay.cancelled)
        self._follow(files, order)

    def config_changed(self, config: LogConfig) -> None:
        files = self._partition.files
        if config.is_delay_enabled and self.order is None and files is not None and not self._is_beginning:
            self._is_beginning = True
            self._partition.machine.spawn(self._begin(files))

    async def _begin(self, files: PartitionFiles) -> None:
        """Delay was switched on while the partition is owned: no record is held before a manifest names `timers`."""
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
                self._follow(files, DueOrder())
                return

    def _follow(self, files: PartitionFiles, order: DueOrder) -> None:
        partition = self._partition
        self.order = order
        files.timers = partial(self._reference, files, order)
        partition.timers = self
        self._named_from = order.oldest_needed(files.end_offset)

    def _reference(self, files: PartitionFiles, order: DueOrder) -> TimersReference:
        return TimersReference(order.oldest_needed(files.end_offset), *order.position)

    # --- as owned_partition.Timers

    def synced(self, high_watermark: int, size_bytes: int) -> None:
        order = self.order
        assert order is not None
        delivered, cancelled = order.delivered_count, order.cancelled_count
        order.synced(high_watermark)
        counts = self._partition.context.counts
        counts.delayed_delivered += order.delivered_count - delivered
        counts.delayed_cancelled += order.cancelled_count - cancelled
        self.look()
        self._appended_bytes += size_bytes
        if self._appended_bytes >= MANIFEST_BYTES and not self._is_writing:
            self._appended_bytes = 0
            if order.oldest_needed(high_watermark) > self._named_from:
                self._is_writing = True
                self._partition.machine.spawn(self._write_manifest(order))

    def rollback(self, end_offset: int) -> None:
        assert self.order is not None
        self.order.rollback(end_offset)
        self.look()

    async def _write_manifest(self, order: DueOrder) -> None:
        named_from = order.oldest_needed(self._partition.high_watermark)
        try:
            await self._changes.write()
        except BmqError as error:
            _log.warning("timers_not_named", **self._partition.names(), reason=str(error))
        else:
            self._named_from = named_from
        finally:
            self._is_writing = False

    # --- for those who look from outside

    @property
    def view(self) -> PendingView | None:
        """None: the partition is not owned, or never had a delayed record."""
        return None if self.order is None or not self._partition.is_owning else PendingView(self.order)

    async def page(self, after: Position, limit: int) -> DelayedPage:
        """As PartitionLog.delayed_records."""
        self._partition.own_files()
        view = self.view
        return DelayedPage(0, None, ()) if view is None else await view.page(after, limit)

    # --- when something is due

    def look(self) -> None:
        """Have it delivered when the next record is due."""
        order = self.order
        if order is None or self._partition.closed_code() is not ErrorCode.NONE:
            return
        due_ms = order.next_due_ms
        if due_ms is None:
            return
        now_ms = max(self._partition.context.clock.now_ms(), order.position.due_ms)
        wait_s = min(max(0.0, (due_ms - now_ms) / 1000), LOOK_S_MAX)
        if self._wake is not None:
            if self._wake.when() <= self._loop.time() + wait_s:
                return
            self._wake.cancel()
        self._wake = self._loop.call_later(wait_s, self._wake_up)

    def end(self) -> None:
        """The machine has ended."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _wake_up(self) -> None:
        self._wake = None
        if not self._partition.state.is_final:
            self._deliver()
