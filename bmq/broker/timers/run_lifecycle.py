"""When runs of a partition's delayed records are written, merged, named by a manifest, and dropped.

A run takes over what is held in a part of the log, so that neither memory nor log has to keep it:

    press      what is durable in memory is set apart (DueOrder.seal), and written to runs, read from the log
    settle     between two deliveries, when no record is on its way: the runs take its place in memory
    name       a manifest names the runs, and the offset behind what they have; then the log may go

From `settle` on every manifest names the runs, whatever it is written for. Until one is durable, the next owner finds the
holds in the log, and deletes the files. Merged runs take the place of others in the same way.
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
from bmq.broker.timers.run_lookups import RunLookups
from bmq.broker.timers.run_making import MadeRuns, RunMaking
from bmq.log.manifest import TimersReference
from bmq.log.partition_files import PartitionFiles
from bmq.log.store import CorruptFile, StoreError
from bmq.log.timers.due_order import DueOrder
from bmq.log.timers.run_reference import RunReference
from bmq.log.timers.run_tiers import RUNS_MAX, next_merge
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError

WINDOW_PRESSED: Final = 100_000
"""With so many records in memory, outside of runs, runs are written."""
LOG_BYTES: Final = 16 * 1024 * 1024
"""Looked at again when so much was appended: the next owner need not replay more than twice as much."""

PINNED_BYTES_MAX: Final = 48 * 1024 * 1024
"""While runs are written and so much log is needed, no more records are held: the next owner would replay it."""
MERGE_TRIES_MAX: Final = 3
"""One after the other, until runs are written again: each may read and write much."""

_log = structlog.get_logger("bmq.broker")


class RunLifecycle:
    """For one partition. `is_delivering`: deliveries are under way, and call `settle` before each and after the last one.

    `look`: is called when other runs have to be read, and no delivery is under way.
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
        look: Callable[[], None],
    ) -> None:
        self._partition = partition
        self._changes = changes
        self._order = order
        self._is_delivering = is_delivering
        self._look = look
        self._making = RunMaking(partition, reads, count(), lambda: order.position)
        self._pressing = asyncio.Lock()
        self._merging = False
        self._is_naming = False
        self._is_pressing = False
        self._unnamed = False  # a manifest is wanted that no longer names what was dropped, or names what is new
        self._waiting: list[tuple[MadeRuns, asyncio.Future[None]]] = []
        self._appended_bytes = 0
        # Appended by this owner: in all, when it last looked, and where the log begins to be needed.
        self._total_bytes = self._looked_bytes = self._needed_bytes = 0
        self._looked_at = end_offset
        self._named_from = named.replay_from
        self.runs = PendingRuns(partition, order, named.runs)
        self.lookups = RunLookups(partition, self.runs)

    def reference(self, files: PartitionFiles) -> TimersReference:
        """What a manifest that is written now says."""
        order = self._order
        return TimersReference(order.oldest_needed(files.end_offset), *order.position, self.runs.references)

    # --- when

    def synced(self, high_watermark: int, size_bytes: int) -> None:
        """`order` has heard that everything below is durable, `size_bytes` more than before."""
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
        """Whether runs are being written, and do not keep up with what is held."""
        return self._pressing.locked() and self._total_bytes - self._needed_bytes > PINNED_BYTES_MAX

    def delivered(self) -> None:
        """Another delivery is durable."""
        if self.runs.drop_passed():
            self._name_later()

    def begin(self) -> None:
        """The partition is owned."""
        self._merge_later()

    async def make_room(self, offset: int) -> None:
        """Have what is held below `offset` in runs, if it can be done: the log need not keep it then."""
        order, partition = self._order, self._partition
        for _ in range(2):  # one that is under way may end below
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
        """Raises BmqError, StoreError: then all is in memory as before."""
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
                    made = await partition.with_files(lambda _: self._making.from_log(from_offset, order.sealed_below))
                await self._settled(made)
            except (BmqError, StoreError):
                order.unseal()
                raise
            self._needed_bytes = sealed_bytes
        self._name_later()
        self._merge_later()

    # --- from runs to fewer runs

    def _merge_later(self) -> None:
        """If too many overlap."""
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
            made = await self._partition.with_files(lambda _: self._making.merge(merged))
        await self._settled(made)
        self._name_later()

    # --- the switch

    def end(self) -> None:
        """The machine has ended."""
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            if not done.done():
                done.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not owned any more"))
                done.exception()  # its task may be cancelled already

    async def _settled(self, made: MadeRuns) -> None:
        if self._partition.state.is_final:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not owned any more")
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((made, done))
        if not self._is_delivering():
            self.settle()
            self._look()
        try:
            await done
        except CorruptFile:
            self._making.remove(made.runs)
            raise

    def settle(self) -> None:
        """No record is on its way to be delivered, and none is being read: runs that were made take their places."""
        while self._waiting and self._order.is_settled:
            made, done = self._waiting.pop(0)
            if done.done():
                continue  # its task was cancelled
            try:
                self._take(made)
            except CorruptFile as error:
                done.set_exception(error)
            else:
                done.set_result(None)

    def _take(self, made: MadeRuns) -> None:
        order, runs = self._order, self.runs
        if made.replaced:
            runs.replace(made.replaced, made.runs)
        else:
            written, pending = made.pending_count(order.position, order.waiting_cancels), order.sealed_pending()
            if written != pending:
                raise CorruptFile(f"{written} records were written to runs, and {pending} are pending")
            runs.add(made.runs)
            order.drop_sealed()
            self.lookups.forget()
        runs.drop_passed()

    # --- manifests

    def _name_later(self) -> None:
        """Write manifests until one says what is so now."""
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
