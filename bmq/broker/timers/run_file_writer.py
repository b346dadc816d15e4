"""Writes one run of delayed records to a file in the owner's directory."""

from __future__ import annotations

from typing import Final

import structlog

from bmq.broker.min_insync_tracker import shortage_of
from bmq.broker.owned_partition import OwnedPartition
from bmq.log.store import (
    CorruptFile,
    Durability,
    FencedWriter,
    FileMissing,
    SegmentWriter,
    StorageUnavailable,
    StoreError,
)
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.run_file import RunBlock, RunEncoder
from bmq.log.timers.run_reference import RunReference

APPEND_BYTES: Final = 256 * 1024
"""Blocks are appended in pieces of this size. Each append is awaited, so no more than about this is in flight."""
ROOM_BYTES: Final = 16 * 1024 * 1024
"""Space for the last record and the index, beside the length that was asked for."""

_log = structlog.get_logger("bmq.broker")


class RunFileWriter:
    """A file `timers.<number>` that is being written. No manifest names it before `finish` returns; `discard` deletes it."""

    def __init__(self, partition: OwnedPartition, writer: SegmentWriter, number: int) -> None:
        self._partition = partition
        self._writer = writer
        self._number = number
        self._run = RunEncoder()
        self._chunks: list[bytes] = []
        self._chunk_bytes = 0
        self._is_closed = False

    @classmethod
    async def create(cls, partition: OwnedPartition, number: int, length_bytes: int) -> RunFileWriter:
        """Create the file. `number` was never used before (rule 21); `length_bytes`: its expected length.

        Raises FencedWriter, StoreError; StorageUnavailable when too few nodes hold it.
        """
        paths, store = partition.paths, partition.context.store
        path = paths.run(paths.leader_epoch, number)
        try:
            writer = await store.create_segment(
                path,
                holder=partition.context.holder,
                durability=Durability.HFLUSH,  # `finish` syncs the whole file
                segment_bytes=length_bytes + length_bytes // 64 + ROOM_BYTES,
            )
        except FileMissing as error:
            raise FencedWriter(f"{paths.own} is gone") from error
        sink = cls(partition, writer, number)
        if shortage := shortage_of(path, writer.replicas, partition.config, store.replicas_wanted):
            await sink.discard()
            raise StorageUnavailable(shortage)
        return sink

    @property
    def size_bytes(self) -> int:
        """Bytes of the blocks so far."""
        return self._run.size_bytes

    async def add(self, record: DueRecord) -> None:
        """Write the next record, in order. Raises StoreError."""
        await self._put(self._run.add(record))

    async def add_block(self, block: RunBlock) -> None:
        """Write the next block of records, in order. Raises StoreError."""
        await self._put(self._run.add_block(block))

    async def _put(self, block: bytes) -> None:
        if block:
            self._chunks.append(block)
            self._chunk_bytes += len(block)
            if self._chunk_bytes >= APPEND_BYTES:
                await self._append()

    async def finish(self, tier: int, end_offset: int) -> RunReference:
        """Close the file and sync it on all its nodes. `end_offset`: above the names of all its records. Raises StoreError."""
        partition, run = self._partition, self._run
        context, path = partition.context, self._writer.path
        self._chunks.append(run.finish())
        await self._append()
        await self._writer.close()
        self._is_closed = True
        # Manifests are synced to disks, so the run has to be: no manifest may survive a power loss that its run does not.
        length = await context.store.take_over(path, previous_holder=context.holder, durability=Durability.HSYNC)
        if length != self._writer.accepted_bytes:
            raise CorruptFile(f"{path} was closed with {length} bytes, {self._writer.accepted_bytes} were written")
        return RunReference(
            leader_epoch=partition.leader_epoch,
            number=self._number,
            file_id=self._writer.file_id,
            length=length,
            tier=tier,
            count=run.count,
            first_due_ms=run.first.due_ms,
            first_offset=run.first.offset,
            last_due_ms=run.last.due_ms,
            last_offset=run.last.offset,
            end_offset=end_offset,
        )

    async def discard(self) -> None:
        """Delete the file. If the store does not answer, the next owner deletes it."""
        try:
            if not self._is_closed:
                await self._writer.close()
        except StoreError:
            self._writer.abandon()
        try:
            await self._partition.context.store.delete(self._writer.path)
        except StoreError as error:
            _log.info("run_not_removed", path=self._writer.path, reason=str(error))

    def abandon(self) -> None:
        """Release local resources and leave the file in the store: the next owner deletes it."""
        self._writer.abandon()

    async def _append(self) -> None:
        chunks, self._chunks, self._chunk_bytes = self._chunks, [], 0
        await self._writer.append(chunks)
