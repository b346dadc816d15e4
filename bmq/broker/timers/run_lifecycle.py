"""When runs of a partition's delayed records are written, merged, named by a manifest, and dropped.

A run takes over the held records of a part of the log, so that neither memory nor the log has to keep them:

    press      durable records in memory are set apart (DueOrder.seal); their bodies are read from the log and written to runs
    settle     between two deliveries, when no record is in flight, the runs replace these records in memory
    name       a manifest names the runs and the offset from which the log is still needed; below it the log may be deleted

From `settle` on every manifest names the runs, also one that is written for another reason. Until such a manifest is durable, a
next owner finds the records in the log, and deletes the files. Merged runs replace others in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final

import structlog

from bmq.broker.log_reads import LogReads
from bmq.broker.manifest_changes import ManifestChanges
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.timers.pending_runs import PendingRuns
from bmq.broker.timers.run_builder import NewRuns, RunBuilder
from bmq.broker.timers.run_lookups import RunLookups
from bmq.log.manifest import TimersReference
from bmq.log.partition_files import PartitionFiles
from bmq.log.store import CorruptFile, StoreError
from bmq.log.timers.due_order import DueOrder
from bmq.log.timers.run_reference import RunReference
from bmq.log.timers.run_tiers import RUNS_MAX, next_merge
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError

WINDOW_PRESSED: Final = 100_000
"""Runs are written when this many records are in memory and in no run."""
LOG_BYTES: Final = 16 * 1024 * 1024
"""Appended bytes after which to check whether older holds keep the log. So the next owner replays at most twice as much. What an
owner has replayed counts as appended by it: owners that end one soon after the other would leave more and more to replay.
"""

PINNED_BYTES_MAX: Final = 48 * 1024 * 1024
"""While runs are being written, no more records are held once the next owner would have to replay this much log."""
MERGE_TRIES_MAX: Final = 3
"""Failed merges in a row, after which none is tried until runs are written again: a merge may read and write much."""

_log = structlog.get_logger("bmq.broker")


class RunLifecycle:
    """Writes, merges and names the runs of one partition.

    `is_delivering`: whether deliveries are under way; if so, they call `settle` before each delivery and after the last.
    `schedule_wake_up` is called when runs have changed while no delivery is under way.
    """

    def __init__(
        self,
        partition: OwnedPartition,
        changes: ManifestChanges,
        reads: LogReads,
        order: DueOrder,
        named: TimersReference,
        end_offset: int,
        is_delivering: Callable[[], bool],
        schedule_wake_up: Callable[[], None],
    ) -> None:
        self._partition = partition
        self._changes = changes
        self._order = order
        self._is_delivering = is_delivering
        self._schedule_wake_up = schedule_wake_up
        self._builder = RunBuilder(partition, reads, count(), lambda: order.position)
        self._pressing = asyncio.Lock()
        self._merging = False
        self._is_naming = False
        self._is_pressing = False
        self._unnamed = False  # runs were added or dropped that the newest manifest does not know of
        self._waiting: list[tuple[NewRuns, asyncio.Future[None]]] = []
        self._appended_bytes = 0
        # Bytes that this owner has appended: in all, at its last check, and up to where the log begins to be needed.
        self._total_bytes = self._looked_bytes = self._needed_bytes = 0
        self._looked_at = end_offset
        self._named_from = named.replay_from
        self.runs = PendingRuns(partition, order, named.runs)
        self.lookups = RunLookups(partition, self.runs)

    def reference(self, files: PartitionFiles) -> TimersReference:
        """The `timers` of a manifest that is written now, without half messages."""
        order = self._order
        return TimersReference(order.oldest_needed(files.end_offset), *order.position, self.runs.references)

    # --- when

    def replayed(self, size_bytes: int) -> None:
        """Count what this owner has replayed of the log at its start."""
        self._appended_bytes += size_bytes

    def synced(self, high_watermark: int, size_bytes: int) -> None:
        """Write runs, or a manifest, if due. `order` knows the high watermark; `size_bytes` more are durable than before."""
        order = self._order
        if order.window_count >= WINDOW_PRESSED:
            self._press_later()
        self._appended_bytes += size_bytes
        self._total_bytes += size_bytes
        if self._appended_bytes < LOG_BYTES:
            return
        self._appended_bytes = 0
        oldest = order.oldest_needed(high_watermark)
        if oldest < self._looked_at:
            self._press_later()
        else:
            self._needed_bytes = self._looked_bytes
            if oldest > self._named_from:
                self._name_later()
        self._looked_at, self._looked_bytes = high_watermark, self._total_bytes

    @property
    def is_behind(self) -> bool:
        """Whether runs are being written, more slowly than records to hold arrive."""
        return self._pressing.locked() and self._total_bytes - self._needed_bytes > PINNED_BYTES_MAX

    def delivered(self) -> None:
        """Drop runs that are delivered wholly. Called when a delivery is durable."""
        if self.runs.drop_passed():
            self._name_later()

    def begin(self) -> None:
        """Start merges that are due. Called when the partition is owned."""
        self._merge_later()

    async def make_room(self, offset: int) -> None:
        """Write all that is held below `offset` to runs, so that the log below it may be deleted. Logs a failure, raises none."""
        order, partition = self._order, self._partition
        for _ in range(2):  # a press that is under way may not come as far as `offset`
            if order.oldest_needed(partition.high_watermark) >= offset:
                return
            try:
                await self._press()
            except (BmqError, StoreError) as error:
                _log.warning("runs_not_written", **partition.names(), reason=str(error))
                return

    # --- from memory to runs

    def _press_later(self) -> None:
        if not self._is_pressing and not self._pressing.locked():
            self._is_pressing = True
            self._partition.machine.spawn(self._press_until_done())

    async def _press_until_done(self) -> None:
        backoff = self._partition.context.backoff()
        try:
            while self._is_open():
                try:
                    await self._press()
                except (BmqError, StoreError) as error:
                    if not backoff.failures:
                        _log.warning("runs_not_written", **self._partition.names(), reason=str(error))
                    await backoff.pause()
                else:
                    break
        finally:
            self._is_pressing = False

    async def _press(self) -> None:
        """Move all durable records from memory to new runs. Raises BmqError, StoreError: then they stay in memory."""
        order, partition = self._order, self._partition
        async with self._pressing:
            if len(self.runs.references) >= RUNS_MAX:
                self._merge_later()
                raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{RUNS_MAX} runs wait to be merged")
            if not order.seal(partition.high_watermark):
                return
            from_offset, sealed_bytes = order.oldest_needed(partition.high_watermark), self._total_bytes
            try:
                async with partition.context.run_room:
                    new = await partition.with_files(lambda _: self._builder.from_log(from_offset, order.sealed_below))
                await self._settled(new)
            except (BmqError, StoreError):
                order.unseal()
                raise
            self._needed_bytes = sealed_bytes
        self._name_later()
        self._merge_later()

    # --- from runs to fewer runs

    def _merge_later(self) -> None:
        """Start to merge, if too many runs overlap."""
        if not self._merging and next_merge(self.runs.references):
            self._merging = True
            self._partition.machine.spawn(self._merge_until_done())

    async def _merge_until_done(self) -> None:
        partition = self._partition
        backoff = partition.context.backoff()
        try:
            while (
                self._is_open() and backoff.failures < MERGE_TRIES_MAX and (merged := next_merge(self.runs.references))
            ):
                try:
                    await self._merge(merged)
                except (BmqError, StoreError) as error:
                    if not backoff.failures:
                        _log.warning("runs_not_merged", **partition.names(), reason=str(error))
                    await backoff.pause()
                else:
                    backoff.reset()
        finally:
            self._merging = False

    async def _merge(self, merged: tuple[RunReference, ...]) -> None:
        async with self._partition.context.merge_room:
            new = await self._partition.with_files(lambda _: self._builder.merge(merged))
        await self._settled(new)
        self._name_later()

    # --- from old runs to new ones

    def end(self) -> None:
        """The partition's machine has ended: fail the runs that wait to replace others."""
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            if not done.done():
                done.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not owned any more"))
                done.exception()  # marks the error as retrieved: the waiting task may be cancelled already

    async def _settled(self, new: NewRuns) -> None:
        if self._partition.state.is_final:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not owned any more")
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((new, done))
        if not self._is_delivering():
            self.settle()
            self._schedule_wake_up()
        try:
            await done
        except CorruptFile:
            self._builder.remove(new.runs)
            raise

    def settle(self) -> None:
        """Let new runs replace what they were made from. Does nothing while a record is taken for a delivery."""
        while self._waiting and self._order.is_settled:
            new, done = self._waiting.pop(0)
            if done.done():
                continue  # its task was cancelled
            try:
                self._take(new)
            except CorruptFile as error:
                done.set_exception(error)
            else:
                done.set_result(None)

    def _take(self, new: NewRuns) -> None:
        order, runs = self._order, self.runs
        if new.replaced:
            runs.replace(new.replaced, new.runs)
        else:
            written, pending = new.pending_count(order.position, order.waiting_cancels), order.sealed_pending()
            if written != pending:
                raise CorruptFile(f"{written} records were written to runs, but {pending} are pending")
            runs.add(new.runs)
            order.drop_sealed()
            self.lookups.forget()
        runs.drop_passed()

    # --- manifests

    def _name_later(self) -> None:
        """Write manifests, in the background, until one names exactly the present runs."""
        self._unnamed = True
        if not self._is_naming:
            self._is_naming = True
            self._partition.machine.spawn(self._name())

    async def _name(self) -> None:
        partition, order = self._partition, self._order
        backoff = partition.context.backoff()
        try:
            while self._unnamed and self._is_open():
                self._unnamed = False
                named_from = order.oldest_needed(partition.high_watermark)
                try:
                    await self._changes.write()
                except BmqError as error:
                    self._unnamed = True
                    if not backoff.failures:
                        _log.warning("timers_not_named", **partition.names(), reason=str(error))
                    await backoff.pause()
                else:
                    self._named_from = named_from
                    backoff.reset()
        finally:
            self._is_naming = False

    def _is_open(self) -> bool:
        partition = self._partition
        return not partition.state.is_final and partition.closed_code() is ErrorCode.NONE
