"""Rewrites segments of a partition, to compact or to merge them: writes the records that are left, and swaps the new segments in.

The log does not change until a manifest names the new segment, group by group. Readers find the old files until these are
deleted, after file.delete.delay.ms. A compaction that ends in the middle leaves a whole log, and at worst an unnamed file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import structlog

from bmq.broker.context import BrokerContext
from bmq.broker.manifest_changes import ManifestChanges
from bmq.broker.min_insync_tracker import shortage_of
from bmq.broker.owned_partition import OwnedPartition
from bmq.log.compaction import (
    Cleanable,
    CleanedBytes,
    CleanedGroup,
    CleaningEnd,
    CleaningInterrupted,
    CleaningPlan,
    LogCleaning,
    groups,
)
from bmq.log.manifest import Extent
from bmq.log.partition_files import PartitionFiles
from bmq.log.replacement import CleanedSegment, SwapNotBegun
from bmq.log.segment_index import SegmentIndex
from bmq.log.store import Durability, SegmentWriter, StoreError

GROWTH_MAX: Final = 3
"""How much longer than its group a new segment may be: a delete horizon makes each record's time delta longer."""

_log = structlog.get_logger("bmq.broker")


class SegmentRewrite:
    """One compaction of one log. `pace` is awaited after each append, with its bytes: it may take its time."""

    def __init__(
        self,
        partition: OwnedPartition,
        changes: ManifestChanges,
        files: PartitionFiles,
        pace: Callable[[int], Awaitable[None]],
    ) -> None:
        self._partition = partition
        self._changes = changes
        self._files = files
        self._pace = pace
        self._context = partition.context
        self._paths = files.paths
        self._producers = partition.producers
        self._file: _CleanedFile | None = None

    def plan(self, found: Cleanable, now_ms: int, *, later_ms: int = 0) -> CleaningPlan:
        """`later_ms`: how much later than usual tombstones and markers may go."""
        config, files = self._partition.config, self._files
        of_groups = groups(found.extents, config.segment_bytes)
        end_offset = found.end_offset
        return CleaningPlan(
            topic=self._partition.topic_name,
            partition=self._partition.topic_partition.partition,
            groups=tuple(of_groups),
            paths=tuple(
                tuple(self._paths.segment(extent.leader_epoch, extent.roll) for extent in group) for group in of_groups
            ),
            first_dirty_offset=found.first_dirty_offset,
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms + later_ms,
            # As long as somebody may read a file that has the transaction's records, it has to hear that it was aborted.
            marker_retention_ms=max(
                config.delete_retention_ms,
                config.file_delete_delay_ms,
                self._context.settings.compaction_marker_retention_ms,
            )
            + later_ms,
            aborted=tuple(entry for entry in self._producers.aborted if entry.first_offset < end_offset),
            last_records=tuple(
                (producer_id, entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
                for producer_id, entry in self._producers.entries()
            ),
            map_bytes=self._context.compaction.map_bytes,
            index_interval_bytes=files.index_interval_bytes,
        )

    def plan_merge(self, group: tuple[Extent, ...], now_ms: int) -> CleaningPlan:
        """The plan that makes one segment of the group, and drops nothing."""
        return CleaningPlan(
            topic=self._partition.topic_name,
            partition=self._partition.topic_partition.partition,
            groups=(group,),
            paths=(tuple(self._paths.segment(extent.leader_epoch, extent.roll) for extent in group),),
            first_dirty_offset=self._files.first_dirty_offset,
            now_ms=now_ms,
            delete_retention_ms=0,
            marker_retention_ms=0,
            aborted=(),
            last_records=(),
            map_bytes=0,
            index_interval_bytes=self._files.index_interval_bytes,
            is_merge=True,
        )

    async def run(self, plan: CleaningPlan, cleaning: LogCleaning) -> CleaningEnd:
        """Raises CleaningInterrupted, Uncleanable, KafkaError, StoreError: then the log is whole, compacted in part."""
        coming = iter(plan.groups)
        group = next(coming, ())
        try:
            async with aclosing(cleaning.clean(plan)) as events:
                async for event in events:
                    match event:
                        case CleanedBytes(data):
                            self._require_owning()
                            if self._file is None:
                                self._file = await self._open(group, plan)
                                self._require_replicas(self._file.writer)
                            await self._file.writer.append([data])
                            await self._pace(len(data))
                        case CleanedGroup(count, index, dropped_aborts):
                            self._require_owning()
                            await self._swap(group[:count], index, dropped_aborts)
                            if not plan.is_merge:  # else each reader finds the same records
                                self._changes.compacted_below(group[count - 1].end_offset)
                            group = next(coming, ())
                        case CleaningEnd(first_dirty_offset):
                            if not plan.is_merge:
                                await self._changes.apply(lambda files: files.compacted_to(first_dirty_offset))
                            return event
        finally:
            if self._file is not None and not await self._file.discard():
                self._changes.leave_behind((self._file.writer.path,))
        raise CleaningInterrupted("the cleaning ended before its end")

    def _require_owning(self) -> None:
        if not self._partition.is_owning:
            raise CleaningInterrupted("the partition is not owned here any more")

    def _require_replicas(self, writer: SegmentWriter) -> None:
        """It is enough to look once: a file that loses a node is not finished."""
        wanted = self._context.store.replicas_wanted
        if shortage := shortage_of(writer.path, writer.replicas, self._partition.config, wanted):
            raise CleaningInterrupted(shortage)

    async def _open(self, group: Iterable[Extent], plan: CleaningPlan) -> _CleanedFile:
        store, files = self._context.store, self._files
        roll = files.next_rewritten_roll(is_merge=plan.is_merge)
        writer = await store.create_segment(
            self._paths.segment(self._paths.leader_epoch, roll),
            holder=self._context.holder,
            # Where the topic asks for more, all of it is synced at once when it is closed.
            durability=Durability.HFLUSH,
            segment_bytes=sum(extent.length for extent in group) * GROWTH_MAX + 1024 * 1024,
        )
        return _CleanedFile(self._context, writer, roll)

    async def _swap(self, replaced: tuple[Extent, ...], index: SegmentIndex, dropped_aborts: tuple[int, ...]) -> None:
        file = self._file
        assert file is not None  # a group has one batch at least
        closed_bytes = await file.close(self._partition.config.durability)
        summary = replace(
            index.summary,
            leader_epoch=self._paths.leader_epoch,
            roll=file.roll,
            file_id=file.writer.file_id,
            closed_bytes=closed_bytes,
            epoch_starts=((self._paths.leader_epoch, index.summary.base_offset),),
        )
        cleaned = CleanedSegment(replace(index, summary=summary), dropped_aborts)
        # From here on a manifest may name it, even one whose writing seems to have failed: it is not ours to remove.
        self._file = None
        try:
            await self._changes.apply(lambda files: files.replace_extents(replaced, cleaned))
        except BaseException as error:
            epoch = self._paths.leader_epoch
            index_path = self._paths.index(epoch, file.roll, epoch)
            if isinstance(error.__cause__, SwapNotBegun):
                self._file = file
                self._changes.leave_behind((index_path,))
            else:
                self._changes.leave_behind((file.writer.path, index_path))
            raise


class _CleanedFile:
    """The file of one group, until a manifest names it."""

    def __init__(self, context: BrokerContext, writer: SegmentWriter, roll: int) -> None:
        self.writer = writer
        self.roll = roll
        self._context = context
        self._is_closed = False

    async def close(self, durability: Durability) -> int:
        """Close it, on disk if the topic asks for that; its length. Raises StoreError."""
        closed_bytes = await self.writer.close()
        self._is_closed = True
        if durability is Durability.HSYNC:
            closed_bytes = await self._context.store.take_over(
                self.writer.path, previous_holder=self._context.holder, durability=durability
            )
        return closed_bytes

    async def discard(self) -> bool:
        """It is not part of the log: remove it. Whether that is done."""
        try:
            if not self._is_closed:
                await self.writer.close()
        except StoreError:
            self.writer.abandon()
        try:
            await self._context.store.delete(self.writer.path)
        except StoreError as error:
            _log.info("compacted_segment_not_removed", path=self.writer.path, reason=str(error))
            return False
        return True
