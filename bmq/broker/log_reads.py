"""Reads and look-ups in a partition's log at its owner: from the tail in memory, else from the store."""

from __future__ import annotations

from collections.abc import Sequence

from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.partition_events import OwnershipLost
from bmq.broker.segment_files import SegmentLifecycle
from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.damage import StateDamaged
from bmq.log.partition_files import PartitionFiles
from bmq.log.partition_log import AbortedTransaction, Location, Span, StateSnapshot, WholeBatches
from bmq.log.segment_reader import read_whole_batches
from bmq.log.store import CorruptFile, FencedWriter
from bmq.log.timestamp_lookup import find_max_timestamp, find_offset
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import BatchHeader


class LogReads:
    """Each method is as that of PartitionLog or ReplayableLog with its name."""

    def __init__(self, partition: OwnedPartition, lifecycle: SegmentLifecycle) -> None:
        self._partition = partition
        self._lifecycle = lifecycle
        self._tail = partition.tail
        self._load = partition.load

    def tail_read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
        views = self._tail.read(offset, length_bytes_max, bound_offset)
        if views:
            self._load.bytes_out += sum(map(len, views))
            self._load.requests += 1
        return views

    async def locate(self, offset: int) -> Location:
        return await self._partition.with_files(lambda files: files.locate(offset))

    def span(self, offset: int, length_bytes_max: int, bound_offset: int) -> Span | None:
        files = self._partition.files
        if files is None or not self._partition.is_owning:
            return None
        return files.span(offset, length_bytes_max, bound_offset)

    async def read(self, offset: int, length_bytes_max: int) -> WholeBatches | None:
        partition = self._partition
        partition.own_files()
        if not partition.log_start_offset <= offset <= partition.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not in [{partition.log_start_offset}, {partition.high_watermark}]",
            )
        if offset == partition.high_watermark:
            return None
        views = self._tail.read(offset, length_bytes_max, partition.high_watermark)
        if views:
            return WholeBatches(BatchHeader.parse(views[0]).base_offset, b"".join(views))

        async def from_store(files: PartitionFiles) -> tuple[int, memoryview]:
            location = await files.locate(offset)
            found = await read_whole_batches(files.store, location, offset, length_bytes_max, partition.high_watermark)
            if found is None or found[0] > offset:
                # Offsets are dense, so some batch must hold this one. A checksum does not cover a batch's own offset.
                raise CorruptFile(f"{location.path} should hold offset {offset} and does not")
            return found

        return WholeBatches(*await partition.with_files(from_store))

    async def latest_snapshot(self) -> StateSnapshot | None:
        """Takes the partition offline when the state is not whole (rule 25)."""
        partition = self._partition
        try:
            return await partition.with_files(lambda files: files.latest_snapshot(partition.high_watermark))
        except StateDamaged as error:
            try:
                await self._lifecycle.verify_claim()
            except FencedWriter as fenced:
                # A newer owner exists and deletes the files we read.
                partition.machine.feed(OwnershipLost())
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(fenced)) from error
            partition.machine.fail(error)
            raise

    async def offset_for_timestamp(self, timestamp_ms: int, bound_offset: int) -> tuple[int, int] | None:
        bound_offset = min(bound_offset, self._partition.high_watermark)
        return await self._partition.with_files(lambda files: find_offset(files, timestamp_ms, bound_offset))

    async def max_timestamp(self) -> tuple[int, int] | None:
        return await self._partition.with_files(find_max_timestamp)

    @property
    def aborted(self) -> AbortedTransactions:
        """All aborted transactions the log knows, including those whose marker is not durable yet."""
        return self._partition.producers.aborted

    def aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction]:
        return self.aborted.overlapping(from_offset, to_offset)

    async def find_aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction]:
        self._partition.own_files()
        return self.aborted_transactions(from_offset, to_offset)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        files = self._partition.files
        return (-1, -1) if files is None else files.epoch_end_offset(leader_epoch, self._partition.high_watermark)

    @property
    def epoch_starts(self) -> Sequence[tuple[int, int]]:
        """(leader epoch, first offset) of every epoch the log knows, ascending; this leader's is the last one."""
        files = self._partition.files
        return () if files is None else files.epochs.entries
