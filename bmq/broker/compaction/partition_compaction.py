"""Compacts one partition, or merges its small segments, by this server's own process; plans compactions for a job outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from bmq.broker.compaction.delegation import DelegatedCompaction
from bmq.broker.compaction.merge_search import MergeSearch
from bmq.broker.compaction.segment_rewrite import SegmentRewrite
from bmq.broker.manifest_changes import ManifestChanges
from bmq.broker.owned_partition import OwnedPartition
from bmq.log.compaction import COMPACT_POLICY, Cleanable, CleaningEnd, CleaningPlan, LogCleaning, cleanable
from bmq.log.config import LogConfig
from bmq.log.manifest import Extent
from bmq.log.merging import is_merging
from bmq.log.partition_files import PartitionFiles
from bmq.log.store import StoreError
from bmq.log.unnamed_files import find_unnamed
from bmq.protocol.record_batch import HEADER_BYTES, BatchHeader

_log = structlog.get_logger("bmq.broker")


async def _at_once(_: int) -> None:
    """No pace."""


class PartitionCompaction:
    """Implements delegation.DelegatingLog.

    `delegation`: compactions that a job outside of the servers carries out.
    """

    def __init__(self, partition: OwnedPartition, changes: ManifestChanges) -> None:
        self._partition = partition
        self._changes = changes
        self.delegation = DelegatedCompaction(partition, changes, self)
        self.is_being_compacted = False
        # (leader epoch, roll) of the first dirty segment when it was last looked at, and its first timestamp.
        self._first_dirty: tuple[tuple[int, int], int] | None = None
        self._is_searched = False  # for what compactions of older owners left behind
        self._merge_search = MergeSearch()

    def names(self) -> dict[str, Any]:
        """As OwnedPartition.names."""
        return self._partition.names()

    @property
    def config(self) -> LogConfig:
        return self._partition.config

    @property
    def is_owning(self) -> bool:
        return self._partition.is_owning

    @property
    def compacted_offset(self) -> int:
        """As PartitionLog.compacted_offset."""
        files = self._partition.files
        return -1 if files is None else files.compacted_offset

    @property
    def is_allowed(self) -> bool:
        """Whether the topic's settings ask for compaction by the brokers."""
        return COMPACT_POLICY in self.config.cleanup_policy and not self.config.is_state_log

    @property
    def is_rewriting(self) -> bool:
        """Whether segments of the topic are compacted or merged, so that owners may leave files behind."""
        return self.is_allowed or is_merging(self.config)

    def cleanable(self, now_ms: int) -> Cleanable | None:
        """The extents that a compaction would read; None if the topic is not compacted, or the log not owned here."""
        files = self._partition.files
        if files is None or not self.is_owning or not self.is_allowed:
            return None
        return cleanable(
            files.extents,
            self.config,
            now_ms=now_ms,
            first_dirty_offset=files.first_dirty_offset,
            log_start_offset=files.log_start_offset,
            last_stable_offset=self._partition.last_stable_offset,
        )

    async def first_dirty_timestamp_ms(self, found: Cleanable) -> int | None:
        """The base timestamp of the first dirty segment's first batch; None without one. Raises KafkaError."""
        if found.dirty == len(found.extents):
            return None
        extent = found.extents[found.dirty]
        name = extent.leader_epoch, extent.roll
        if self._first_dirty is None or self._first_dirty[0] != name:
            self._first_dirty = name, await self._first_timestamp_ms(extent)
        return self._first_dirty[1]

    async def _first_timestamp_ms(self, extent: Extent) -> int:
        """The base timestamp of the extent's first batch. Raises KafkaError."""

        async def header_of(files: PartitionFiles) -> BatchHeader:
            location = files.location_in(extent, extent.position)
            data = await files.store.read(
                location.path, file_id=extent.file_id, position=extent.position, length_bytes=HEADER_BYTES
            )
            return BatchHeader.parse(data)

        return (await self._partition.with_files(header_of)).base_timestamp_ms

    async def mergeable(self, now_ms: int) -> tuple[Extent, ...] | None:
        """Neighbouring segments that are to become one now; None without such. Raises KafkaError."""
        files = self._partition.files
        if files is None or not self.is_owning or not is_merging(self.config) or self.delegation.is_reserved:
            return None
        stable_offset = self._partition.last_stable_offset
        return await self._merge_search.find(
            files.extents, self.config, now_ms, stable_offset, self._first_timestamp_ms
        )

    async def merge(
        self, group: tuple[Extent, ...], cleaning: LogCleaning, now_ms: int, pace: Callable[[int], Awaitable[None]]
    ) -> CleaningEnd | None:
        """Merge the group into one segment; None if the partition is busy. Raises CleaningInterrupted, Uncleanable, BmqError."""
        files = self._partition.files
        if self.delegation.is_reserved or self.is_being_compacted or files is None or not self.is_owning:
            return None
        rewrite = self._rewrite(files, pace)
        return await self._rewritten(rewrite, rewrite.plan_merge(group, now_ms), cleaning)

    async def run(
        self, cleaning: LogCleaning, now_ms: int, pace: Callable[[int], Awaitable[None]]
    ) -> CleaningEnd | None:
        """Compact the log; None when there is nothing to compact. Raises CleaningInterrupted, Uncleanable, BmqError."""
        if self.delegation.is_reserved or self.is_being_compacted:
            return None
        found, files = self.cleanable(now_ms), self._partition.files
        if found is None or not found.dirty_bytes or files is None:
            return None
        rewrite = self._rewrite(files, pace)
        return await self._rewritten(rewrite, rewrite.plan(found, now_ms), cleaning)

    async def _rewritten(self, rewrite: SegmentRewrite, plan: CleaningPlan, cleaning: LogCleaning) -> CleaningEnd:
        self.is_being_compacted = True
        try:
            await self.remove_unnamed()
            # Else each try would leave another file: on a full disk, where not even a manifest can be written.
            await self._changes.drop_orphaned_files()
            return await rewrite.run(plan, cleaning)
        finally:
            self.is_being_compacted = False

    def plan_compaction(self, now_ms: int, *, later_ms: int = 0) -> tuple[PartitionFiles, CleaningPlan] | None:
        """As DelegatingLog.plan_compaction."""
        found, files = self.cleanable(now_ms), self._partition.files
        if found is None or not found.dirty_bytes or files is None:
            return None
        return files, self._rewrite(files, _at_once).plan(found, now_ms, later_ms=later_ms)

    def _rewrite(self, files: PartitionFiles, pace: Callable[[int], Awaitable[None]]) -> SegmentRewrite:
        return SegmentRewrite(self._partition, self._changes, files, pace)

    async def remove_unnamed(self) -> None:
        """Delete, after file.delete.delay.ms, files that compactions of older owners never swapped in. Never raises a
        StoreError: it is tried again before the next compaction."""
        files = self._partition.files
        if self._is_searched or files is None or not self.is_owning:
            return
        try:
            found = await find_unnamed(files.store, files.paths, files.manifest())
        except StoreError as error:
            _log.info("unnamed_files_not_found", **self._partition.names(), reason=str(error))
            return
        self._is_searched = True
        if found:
            _log.info("unnamed_files_removed", **self._partition.names(), paths=found)
            self._changes.remove_later(found)
