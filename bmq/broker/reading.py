"""Everything of a PartitionLog except appending: reads, look-ups, snapshots, and deleting the log's head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

import structlog

from bmq.broker.acknowledgement import Waiters
from bmq.broker.compaction import Compaction
from bmq.broker.delegated_compaction import DelegatedCompaction
from bmq.broker.group_backlog import Backlog
from bmq.broker.own_segment import OwnSegment
from bmq.broker.partition_events import Event, OwnershipLost, RollDue
from bmq.broker.partition_load import PartitionLoad
from bmq.broker.segment_lifecycle import SegmentLifecycle
from bmq.broker.surroundings import Surroundings
from bmq.broker.tail_cache import PartitionTail
from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.compaction import COMPACT_POLICY, Cleanable, CleaningEnd, CleaningPlan, LogCleaning, cleanable
from bmq.log.config import LogConfig
from bmq.log.damage import StateDamaged
from bmq.log.group_retention import BacklogSize, evicted_to, held_back
from bmq.log.partition_files import PartitionFiles
from bmq.log.partition_log import (
    AbortedTransaction,
    Location,
    Span,
    StateSnapshot,
    TopicPartition,
    WholeBatches,
)
from bmq.log.producer_state import ProducerStates
from bmq.log.retention import ExtentKey, in_doubt, key_of, retained_from, with_known_times
from bmq.log.segment_reader import read_whole_batches
from bmq.log.store import CorruptFile, FencedWriter, FileMissing, StoreError, WriterBroken
from bmq.log.timestamp_lookup import find_max_timestamp, find_offset, newest_time_in_headers
from bmq.log.unnamed_files import find_unnamed
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.record_batch import HEADER_BYTES, BatchHeader

T = TypeVar("T")

NO_BACKLOG: Final = BacklogSize(0, -1)
READ_TRIES_MAX: Final = 3
SNAPSHOT_ROLL_BYTES_MIN: Final = 2 * 1024 * 1024
"""A snapshot rolls the open segment if it holds at least this much; replaying less is cheaper than rolling."""

_log = structlog.get_logger("bmq.broker")


async def _at_once(_: int) -> None:
    """No pace."""


class LogReader(ABC):
    """Base of PartitionRuntime, which provides the attributes declared here."""

    config: LogConfig
    backlog: Backlog
    load: PartitionLoad
    _surroundings: Surroundings
    _lifecycle: SegmentLifecycle
    _tail: PartitionTail
    _files: PartitionFiles | None
    _producers: ProducerStates
    _waiters: Waiters
    topic_partition: TopicPartition
    topic_name: str
    delegation: DelegatedCompaction
    _known_times_ms: dict[ExtentKey, int]
    """Greatest times by their headers of segments whose own is doubted."""
    is_being_compacted: bool = False
    _first_dirty: tuple[tuple[int, int], int] | None = None
    """(leader epoch, roll) of the first dirty segment when it was last looked at, and its first timestamp."""
    _left_behind: tuple[tuple[int, str], ...] = ()
    """Files of compactions that failed, each with the newest manifest then; a newer one does not name it."""
    _is_searched = False  # for what compactions of older owners left behind

    @property
    @abstractmethod
    def is_owning(self) -> bool: ...

    @property
    @abstractmethod
    def high_watermark(self) -> int: ...

    @property
    @abstractmethod
    def last_stable_offset(self) -> int: ...

    @abstractmethod
    def _feed(self, event: Event) -> None: ...

    @abstractmethod
    def _open_segment_now(self) -> OwnSegment | None: ...

    @abstractmethod
    def _fail(self, error: BaseException) -> None: ...

    @abstractmethod
    def _names(self) -> dict[str, Any]: ...

    @property
    def log_start_offset(self) -> int:
        return 0 if self._files is None else self._files.log_start_offset

    def tail_read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
        """As PartitionLog.tail_read."""
        views = self._tail.read(offset, length_bytes_max, bound_offset)
        if views:
            self.load.bytes_out += sum(map(len, views))
            self.load.requests += 1
        return views

    async def locate(self, offset: int) -> Location:
        """As PartitionLog.locate."""
        return await self._reading(lambda files: files.locate(offset))

    def span(self, offset: int, length_bytes_max: int, bound_offset: int) -> Span | None:
        """As PartitionLog.span."""
        files = self._files
        return None if files is None or not self.is_owning else files.span(offset, length_bytes_max, bound_offset)

    async def read(self, offset: int, length_bytes_max: int) -> WholeBatches | None:
        """As PartitionLog.read."""
        self._own_files()
        if not self.log_start_offset <= offset <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not in [{self.log_start_offset}, {self.high_watermark}]",
            )
        if offset == self.high_watermark:
            return None
        views = self._tail.read(offset, length_bytes_max, self.high_watermark)
        if views:
            return WholeBatches(BatchHeader.parse(views[0]).base_offset, b"".join(views))

        async def from_store(files: PartitionFiles) -> tuple[int, memoryview]:
            location = await files.locate(offset)
            found = await read_whole_batches(files.store, location, offset, length_bytes_max, self.high_watermark)
            if found is None or found[0] > offset:
                # Offsets are dense, so some batch must hold this one. A checksum does not cover a batch's own offset.
                raise CorruptFile(f"{location.path} should hold offset {offset} and does not")
            return found

        return WholeBatches(*await self._reading(from_store))

    async def latest_snapshot(self) -> StateSnapshot | None:
        """As PartitionLog.latest_snapshot. Takes the partition offline when the state is not whole (rule 25)."""
        try:
            return await self._reading(lambda files: files.latest_snapshot(self.high_watermark))
        except StateDamaged as error:
            try:
                await self._lifecycle.look()
            except FencedWriter as fenced:
                # A newer owner exists and deletes the files we read.
                self._feed(OwnershipLost())
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(fenced)) from error
            self._fail(error)
            raise

    async def offset_for_timestamp(self, timestamp_ms: int, bound_offset: int) -> tuple[int, int] | None:
        """As PartitionLog.offset_for_timestamp."""
        bound_offset = min(bound_offset, self.high_watermark)
        return await self._reading(lambda files: find_offset(files, timestamp_ms, bound_offset))

    async def max_timestamp(self) -> tuple[int, int] | None:
        """As PartitionLog.max_timestamp."""
        return await self._reading(find_max_timestamp)

    @property
    def aborted(self) -> AbortedTransactions:
        """All aborted transactions the log knows, including those whose marker is not durable yet."""
        return self._producers.aborted

    def aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction]:
        """As PartitionLog.aborted_transactions."""
        return self._producers.aborted.overlapping(from_offset, to_offset)

    async def find_aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction]:
        """As PartitionLog.find_aborted_transactions."""
        self._own_files()
        return self.aborted_transactions(from_offset, to_offset)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """As PartitionLog.epoch_end_offset."""
        return (-1, -1) if self._files is None else self._files.epoch_end_offset(leader_epoch, self.high_watermark)

    @property
    def epoch_starts(self) -> Sequence[tuple[int, int]]:
        """(leader epoch, first offset) of every epoch the log knows, ascending; this leader's is the last one."""
        return () if self._files is None else self._files.epochs.entries

    async def prove_ownership(self) -> None:
        """As PartitionLog.prove_ownership."""
        if not self.is_owning:
            raise FencedWriter("the partition is not owned here")
        segment = self._open_segment_now()
        try:
            if segment is None:
                await self._lifecycle.look()
            else:
                try:
                    await segment.writer.prove_ownership()
                except WriterBroken:
                    await self._lifecycle.look()  # no block of ours is open any more
                except FencedWriter:
                    if self._open_segment_now() is segment:
                        raise
                    # The segment was empty and was rolled meanwhile, so its writer is gone.
                    await self._lifecycle.look()
        except FencedWriter:
            self._feed(OwnershipLost())
            raise
        if not self.is_owning:
            raise FencedWriter("the partition is not owned here any more")

    async def save_snapshot(self, snapshot: StateSnapshot) -> None:
        """As PartitionLog.save_snapshot."""
        if snapshot.next_offset > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "a snapshot of what is not durable yet")
        await self._change_past(lambda files: files.save_snapshot(snapshot))
        # The snapshot limits what the next owner replays. But without a new segment the owner would still read all of
        # this one first, and the records that the snapshot replaces could only be dropped once it is full.
        segment = self._open_segment_now()
        if segment is not None and segment.valid_bytes >= SNAPSHOT_ROLL_BYTES_MIN:
            self._feed(RollDue(segment.roll))

    async def delete_records(self, before_offset: int) -> int:
        """As PartitionLog.delete_records."""
        self._own_files()
        wanted = self.high_watermark if before_offset == -1 else before_offset
        if not 0 <= wanted <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {before_offset} is past the high watermark {self.high_watermark}",
            )
        if wanted > self.log_start_offset:
            await self._change_past(lambda files: files.advance_log_start(wanted))
        return self.log_start_offset

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers not heard of for long."""
        if self._files is not None and self.is_owning:
            self._producers.expire(now_ms, self._surroundings.producer_id_expiration_ms)

    def is_retention_due(self, now_ms: int) -> bool:
        """Whether retention.ms and retention.bytes ask for something to be dropped."""
        files = self._files
        return self._retained_from(now_ms) > self.log_start_offset or (
            files is not None
            and self.is_owning
            and in_doubt(files.extents, self.config, now_ms=now_ms, known_ms=self._known_times_ms) is not None
        )

    def _retained_from(self, now_ms: int) -> int:
        files = self._files
        if files is None or not self.is_owning:
            return 0
        start_offset, open_bytes = files.log_start_offset, files.open_bytes
        extents = with_known_times(files.extents, self._known_times_ms)
        return retained_from(extents, self.config, now_ms=now_ms, log_start_offset=start_offset, open_bytes=open_bytes)

    async def apply_retention(self, now_ms: int, consumed_offset: int = 0) -> None:
        """Drop what retention.ms and retention.bytes no longer keep.

        `consumed_offset`: all of the topic's bmq.retention.groups have consumed everything below.
        """
        files = self._files
        if files is not None and self.is_owning:
            await self._look_at_doubted(files, now_ms)
        wanted = self._retained_from(now_ms)
        if files is None or wanted <= files.log_start_offset:
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

    async def _look_at_doubted(self, files: PartitionFiles, now_ms: int) -> None:
        """Read the headers of segments whose greatest time cannot be believed, as far as retention by time gets."""
        known_ms = self._known_times_ms
        try:
            while self.is_owning and (extent := in_doubt(files.extents, self.config, now_ms=now_ms, known_ms=known_ms)):
                known_ms[key_of(extent)] = await newest_time_in_headers(files, extent)
        except (BmqError, StoreError) as error:
            _log.warning("segment_times_unknown", **self._names(), reason=str(error))
        here = {key_of(extent) for extent in files.extents}
        for key in known_ms.keys() - here:
            del known_ms[key]

    def backlog_from(self, consumed_offset: int) -> BacklogSize:
        """About what a group has left that has consumed everything below this offset."""
        return NO_BACKLOG if self._files is None else self._files.backlog_from(consumed_offset)

    async def evict_backlog(self, consumed_offset: int, now_ms: int) -> None:
        """Drop the oldest segments until what is past `consumed_offset` is within the topic's backlog quotas."""
        files = self._own_files()
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
        self._surroundings.counts.backlog_evicted_bytes += max(0, before_bytes - left_bytes)

    async def _drop_below(self, wanted_offset: int, reason: str) -> None:
        if wanted_offset <= self.log_start_offset:
            return
        try:
            await self._change_past(lambda files: files.advance_log_start(wanted_offset))
        except BmqError as error:
            _log.warning(f"{reason}_failed", **self._names(), reason=str(error))
        else:
            _log.info(f"{reason}_applied", **self._names(), log_start_offset=self.log_start_offset)

    @property
    def compacted_offset(self) -> int:
        """As PartitionLog.compacted_offset."""
        return -1 if self._files is None else self._files.compacted_offset

    @property
    def _may_be_compacted(self) -> bool:
        return COMPACT_POLICY in self.config.cleanup_policy and not self.config.is_state_log

    def cleanable(self, now_ms: int) -> Cleanable | None:
        """What a compaction would go through; None if the log is not to be compacted, or is not owned here."""
        files, config = self._files, self.config
        if files is None or not self.is_owning or not self._may_be_compacted:
            return None
        return cleanable(
            files.extents,
            config,
            now_ms=now_ms,
            first_dirty_offset=files.first_dirty_offset,
            log_start_offset=files.log_start_offset,
            last_stable_offset=self.last_stable_offset,
        )

    async def first_dirty_timestamp_ms(self, found: Cleanable) -> int | None:
        """The base timestamp of the first dirty segment's first batch; None without one. Raises KafkaError."""
        if found.dirty == len(found.extents):
            return None
        extent = found.extents[found.dirty]
        name = extent.leader_epoch, extent.roll
        if self._first_dirty is None or self._first_dirty[0] != name:

            async def header_of(files: PartitionFiles) -> BatchHeader:
                location = files.location_in(extent, extent.position)
                data = await files.store.read(
                    location.path, file_id=extent.file_id, position=extent.position, length_bytes=HEADER_BYTES
                )
                return BatchHeader.parse(data)

            self._first_dirty = name, (await self._reading(header_of)).base_timestamp_ms
        return self._first_dirty[1]

    async def compact(
        self, cleaning: LogCleaning, now_ms: int, pace: Callable[[int], Awaitable[None]]
    ) -> CleaningEnd | None:
        """Compact what may be; None when there is nothing. Raises CleaningInterrupted, Uncleanable, BmqError."""
        if self.delegation.is_reserved or self.is_being_compacted:
            return None
        found, files = self.cleanable(now_ms), self._files
        if found is None or not found.dirty_bytes or files is None:
            return None
        await self.remove_unnamed()
        if self._left_behind:
            # Else each try would leave another file: on a full disk, where not even a manifest can be written.
            await self._change_past(_write_manifest)
        compaction = Compaction(self._surroundings, files.paths, self, files, self._producers, pace)
        self.is_being_compacted = True
        try:
            return await compaction.run(compaction.plan(found, now_ms), cleaning)
        finally:
            self.is_being_compacted = False

    def plan_compaction(self, now_ms: int, *, later_ms: int = 0) -> tuple[PartitionFiles, CleaningPlan] | None:
        """As DelegatingLog.plan_compaction."""
        found, files = self.cleanable(now_ms), self._files
        if found is None or not found.dirty_bytes or files is None:
            return None
        compaction = Compaction(self._surroundings, files.paths, self, files, self._producers, _at_once)
        return files, compaction.plan(found, now_ms, later_ms=later_ms)

    async def remove_unnamed(self) -> None:
        """Delete, after file.delete.delay.ms, what compactions of older owners never swapped in. Never raises a StoreError:
        it is tried again before the next compaction."""
        files = self._files
        if self._is_searched or files is None or not self.is_owning:
            return
        try:
            found = await find_unnamed(files.store, files.paths, files.manifest())
        except StoreError as error:
            _log.info("unnamed_files_not_found", **self._names(), reason=str(error))
            return
        self._is_searched = True
        if found:
            _log.info("unnamed_files_removed", **self._names(), paths=found)
            self._remove_later(found)

    def left_behind(self, paths: Iterable[str]) -> None:
        """As CompactedLog.left_behind."""
        if self._files is not None:
            newest = self._files.newest_manifest
            self._left_behind = (*self._left_behind, *((newest, path) for path in paths))

    async def change_past(self, change: Callable[[PartitionFiles], Coroutine[Any, Any, tuple[str, ...]]]) -> None:
        """As CompactedLog.change_past."""
        await self._change_past(change)

    def compacted_below(self, offset: int) -> None:
        """As CompactedLog.compacted_below."""
        self._tail.drop_below(offset)
        # No offset moves, but readers on other nodes have to hear of it.
        self._waiters.wake_all()

    async def _change_past(self, change: Callable[[PartitionFiles], Coroutine[Any, Any, tuple[str, ...]]]) -> None:
        """Write a newer manifest; what it no longer names is deleted after file.delete.delay.ms (rule 2)."""
        paths = await self._reading(change)
        self._remove_later(paths)
        if self._left_behind and self._files is not None:
            newest = self._files.newest_manifest
            self._remove_later(path for number, path in self._left_behind if number < newest)
            self._left_behind = tuple(entry for entry in self._left_behind if entry[0] >= newest)
        self._tail.drop_below(self.log_start_offset)

    def _remove_later(self, paths: Iterable[str]) -> None:
        self._surroundings.trash.put(paths, self.config.file_delete_delay_ms / 1000)

    async def _reading(self, action: Callable[[PartitionFiles], Coroutine[Any, Any, T]]) -> T:
        """Run `action`; FencedWriter and StoreError become KafkaError NOT_LEADER_OR_FOLLOWER and KAFKA_STORAGE_ERROR.

        StateDamaged and other errors (OFFSET_OUT_OF_RANGE, BadBatch) are raised as they are.
        """
        tries = 0
        while True:
            files = self._own_files()
            try:
                return await action(files)
            except FencedWriter as error:
                self._feed(OwnershipLost())
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error)) from error
            except FileMissing as error:
                # Retention may have removed the file since we looked; then the newer manifest shows that (rule 13).
                tries += 1
                if tries == READ_TRIES_MAX:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
            except StateDamaged:
                raise
            except StoreError as error:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _own_files(self) -> PartitionFiles:
        if self._files is None or not self.is_owning:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not owned here")
        return self._files


async def _write_manifest(files: PartitionFiles) -> tuple[str, ...]:
    await files.write_manifest()
    return ()
