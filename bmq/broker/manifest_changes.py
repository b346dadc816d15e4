"""Changes to what a partition's manifest names: records deleted, snapshots saved, segments replaced.

A change writes a newer manifest; files that it no longer names are deleted after file.delete.delay.ms (rule 2).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.ownership import Ownership
from bmq.broker.partition_events import RollDue
from bmq.log.partition_files import PartitionFiles
from bmq.log.partition_log import StateSnapshot
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

SNAPSHOT_ROLL_BYTES_MIN: Final = 2 * 1024 * 1024
"""A snapshot rolls the open segment if it holds at least this much; replaying less is cheaper than rolling."""


class ManifestChanges:
    """Changes the manifest of one partition. `orphaned_files`: files of compactions that failed, each with the newest manifest then."""

    def __init__(self, partition: OwnedPartition, ownership: Ownership) -> None:
        self._partition = partition
        self._ownership = ownership
        self._orphaned_files: tuple[tuple[int, str], ...] = ()

    async def apply(self, change: Callable[[PartitionFiles], Coroutine[Any, Any, tuple[str, ...]]]) -> None:
        """Carry out a change that returns the paths it no longer needs. Raises KafkaError."""
        partition = self._partition
        self.remove_later(await partition.with_files(change))
        if partition.files is not None:
            self.remove_later(partition.files.take_unnamed_runs())
        if self._orphaned_files and partition.files is not None:
            newest = partition.files.newest_manifest
            self.remove_later(path for number, path in self._orphaned_files if number < newest)
            self._orphaned_files = tuple(entry for entry in self._orphaned_files if entry[0] >= newest)
        partition.tail.drop_below(partition.log_start_offset)

    async def write(self) -> None:
        """Write a manifest of the present state. Raises KafkaError."""
        await self.apply(_write_manifest)

    def remove_later(self, paths: Iterable[str]) -> None:
        partition = self._partition
        partition.context.deferred_deletes.put(paths, partition.config.file_delete_delay_ms / 1000)

    def leave_behind(self, paths: Iterable[str]) -> None:
        """Delete these files once there is a newer manifest than any that may name them."""
        files = self._partition.files
        if files is not None:
            self._orphaned_files = (*self._orphaned_files, *((files.newest_manifest, path) for path in paths))

    def compacted_below(self, offset: int) -> None:
        """Forget batches in memory below this offset, and tell readers on other nodes that compaction dropped records there."""
        self._partition.tail.drop_below(offset)
        # No offset moves, but readers on other nodes have to hear of it.
        self._partition.waiters.wake_all()

    async def drop_orphaned_files(self) -> None:
        """Write a manifest if files were left behind, so that they can be deleted."""
        if self._orphaned_files:
            await self.apply(_write_manifest)

    async def save_snapshot(self, snapshot: StateSnapshot) -> None:
        """As ReplayableLog.save_snapshot."""
        partition = self._partition
        if snapshot.next_offset > partition.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "a snapshot of what is not durable yet")
        await self.apply(lambda files: files.save_snapshot(snapshot))
        # The snapshot limits what the next owner replays. But without a new segment the owner would still read all of
        # this one first, and the records that the snapshot replaces could only be dropped once it is full.
        segment = self._ownership.open_segment()
        if segment is not None and segment.valid_bytes >= SNAPSHOT_ROLL_BYTES_MIN:
            partition.machine.feed(RollDue(segment.roll))

    async def delete_records(self, before_offset: int) -> int:
        """As PartitionLog.delete_records."""
        partition = self._partition
        partition.own_files()
        wanted = partition.high_watermark if before_offset == -1 else before_offset
        if not 0 <= wanted <= partition.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {before_offset} is past the high watermark {partition.high_watermark}",
            )
        if wanted > partition.log_start_offset:
            if partition.timers is not None:
                await partition.timers.make_room(wanted)
            await self.apply(lambda files: files.advance_log_start(wanted))
        return partition.log_start_offset


async def _write_manifest(files: PartitionFiles) -> tuple[str, ...]:
    await files.write_manifest()
    return ()
