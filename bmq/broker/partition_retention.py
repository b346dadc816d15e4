"""Deletes what retention and backlog quotas no longer keep of one partition; log/retention and log/consumed_retention decide."""

from __future__ import annotations

from typing import Final

import structlog

from bmq.broker.manifest_changes import ManifestChanges
from bmq.broker.owned_partition import OwnedPartition
from bmq.log.config import LogConfig
from bmq.log.consumed_retention import BacklogSize, evicted_to, held_back
from bmq.log.partition_files import PartitionFiles
from bmq.log.retention import ExtentKey, in_doubt, key_of, retained_from, with_known_times
from bmq.log.store import StoreError
from bmq.log.timestamp_lookup import newest_time_of
from bmq.protocol.errors import BmqError

NO_BACKLOG: Final = BacklogSize(0, -1)

_log = structlog.get_logger("bmq.broker")


class PartitionRetention:
    """Implements group_backlog.Retention."""

    def __init__(self, partition: OwnedPartition, changes: ManifestChanges) -> None:
        self._partition = partition
        self._changes = changes
        # Greatest times of segments whose own is doubted, by their headers or their files.
        self._known_times_ms: dict[ExtentKey, int] = {}

    @property
    def config(self) -> LogConfig:
        return self._partition.config

    @property
    def is_owning(self) -> bool:
        return self._partition.is_owning

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers not heard of for long."""
        partition = self._partition
        if partition.files is not None and partition.is_owning:
            partition.producers.expire(now_ms, partition.context.producer_id_expiration_ms)

    def is_due(self, now_ms: int) -> bool:
        """Whether retention.ms and retention.bytes ask for something to be dropped."""
        files = self._files()
        if files is None:
            return False
        return (
            self._retained_from(files, now_ms) > files.log_start_offset
            or in_doubt(files.extents, self.config, now_ms=now_ms, known_ms=self._known_times_ms) is not None
        )

    async def apply(self, now_ms: int, consumed_offset: int = 0) -> None:
        """Drop what retention.ms and retention.bytes no longer keep.

        `consumed_offset`: all of the topic's bmq.retention.groups have consumed everything below.
        """
        files = self._files()
        if files is None:
            return
        await self._read_doubtful_times(files, now_ms)
        if not self.is_owning:
            return
        wanted = self._retained_from(files, now_ms)
        if wanted <= files.log_start_offset:
            return
        if self.config.retention_groups:
            wanted = held_back(
                files.extents,
                wanted,
                self.config,
                consumed_offset=consumed_offset,
                now_ms=now_ms,
                log_start_offset=files.log_start_offset,
            )
        await self._drop_below(wanted, "retention")

    def backlog_from(self, consumed_offset: int) -> BacklogSize:
        """About what a group has left that has consumed everything below this offset."""
        files = self._partition.files
        return NO_BACKLOG if files is None else files.backlog_from(consumed_offset)

    async def evict_backlog(self, consumed_offset: int, now_ms: int) -> None:
        """Drop the oldest segments until what is past `consumed_offset` is within the topic's backlog quotas."""
        files = self._partition.own_files()
        before_bytes = self.backlog_from(consumed_offset).size_bytes
        wanted = evicted_to(
            files.extents,
            self.config,
            backlog_bytes=before_bytes,
            consumed_offset=consumed_offset,
            log_start_offset=files.log_start_offset,
            now_ms=now_ms,
        )
        await self._drop_below(wanted, "backlog_eviction")
        left_bytes = self.backlog_from(consumed_offset).size_bytes
        self._partition.context.counts.backlog_evicted_bytes += max(0, before_bytes - left_bytes)

    def _files(self) -> PartitionFiles | None:
        return self._partition.files if self._partition.is_owning else None

    def _retained_from(self, files: PartitionFiles, now_ms: int) -> int:
        start_offset, open_bytes = files.log_start_offset, files.open_bytes
        extents = with_known_times(files.extents, self._known_times_ms)
        return retained_from(extents, self.config, now_ms=now_ms, log_start_offset=start_offset, open_bytes=open_bytes)

    async def _read_doubtful_times(self, files: PartitionFiles, now_ms: int) -> None:
        """Read the headers of segments whose greatest time cannot be believed, as far as retention by time gets."""
        known_ms = self._known_times_ms
        try:
            while self.is_owning and (extent := in_doubt(files.extents, self.config, now_ms=now_ms, known_ms=known_ms)):
                known_ms[key_of(extent)] = await newest_time_of(files, extent)
        except (BmqError, StoreError) as error:
            _log.warning("segment_times_unknown", **self._partition.names(), reason=str(error))
        here = {key_of(extent) for extent in files.extents}
        for key in known_ms.keys() - here:
            del known_ms[key]

    async def _drop_below(self, wanted_offset: int, reason: str) -> None:
        partition = self._partition
        if wanted_offset <= partition.log_start_offset:
            return
        if partition.timers is not None:
            await partition.timers.make_room(wanted_offset)
        try:
            await self._changes.apply(lambda files: files.advance_log_start(wanted_offset))
        except BmqError as error:
            _log.warning(f"{reason}_failed", **partition.names(), reason=str(error))
        else:
            _log.info(f"{reason}_applied", **partition.names(), log_start_offset=partition.log_start_offset)
