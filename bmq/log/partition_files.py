"""One partition's files as its owner sees them: closed extents, own segments, and the manifest that names them.

The broker's runtime reports the life of each segment in this order:

    files.begin_segment(builder)                          the segment becomes the current one (not when opened ahead of need)
    builder.add(header, base_offset)                      for every batch, once it is durable
    files.end_segment(roll)                               nothing more will be written; the producer state is noted
    index = await files.seal_segment(roll, closed_bytes)  the file is closed at this length
    await files.save_index(index)                         the index is durable: the segment is an extent from now on

A segment is an extent once its index is durable. The manifest names only extents; recovery finds the rest by walking the
directory. Readers can always find all durable records. A method that changes closed parts of the log returns the paths that it
dropped, to be deleted later (rule 2), after checking that its new manifest is in the claimed directory (rule 20).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import count

import structlog
from crc32c import crc32c

from bmq.aio.loop_turns import run_in_turns
from bmq.dataclass import dataclass
from bmq.log.aborted_file_writer import AbortedFileWriter
from bmq.log.consumed_retention import BacklogSize, bytes_of_extent_from
from bmq.log.index_cache import IndexCache
from bmq.log.manifest import (
    PRODUCERS_INLINE_BYTES_MAX,
    Cut,
    Extent,
    Manifest,
    SnapshotReference,
    TimersReference,
    filed_to,
)
from bmq.log.names import CLEANED_ROLL_MIN, MERGED_ROLL_MIN, PartitionPaths
from bmq.log.partition_log import Location, Span, StateSnapshot
from bmq.log.producer_state import ProducerSnapshot
from bmq.log.recovery import (
    RecoveredLog,
    load_index,
    scan_segment,
    write_index,
    write_manifest,
)
from bmq.log.replacement import (
    CleanedSegment,
    Replacement,
    SwapNotBegun,
    end_offset_of,
    end_with_gaps,
    index_of_cleaned,
    place_of,
    segment_of,
    with_replacements,
)
from bmq.log.retention import droppable
from bmq.log.run_files import RunFiles
from bmq.log.segment_index import IndexBuilder, SegmentIndex, span_from
from bmq.log.state_snapshots import latest_snapshot
from bmq.log.store import (
    AlreadyExists,
    CorruptFile,
    FencedWriter,
    FileMissing,
    SegmentStore,
    StoreError,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

_log = structlog.get_logger("bmq.log")


@dataclass(slots=True)
class _OwnSegment:
    """A segment of this leader epoch that is not an extent yet.

    `producers`: the producer state at its end, once it has ended. `saved`: its index, once that is durable.
    """

    builder: IndexBuilder
    producers: ProducerSnapshot | None = None
    saved: SegmentIndex | None = None


class PartitionFiles:
    """One partition's files (see the module's docstring). All calls come from one event loop.

    `verify_claim` raises FencedWriter unless a look that begins now still finds the directory we claimed.
    """

    def __init__(
        self,
        store: SegmentStore,
        paths: PartitionPaths,
        recovered: RecoveredLog,
        *,
        holder: str,
        indexes: IndexCache,
        index_interval_bytes: int,
        verify_claim: Callable[[], Awaitable[None]],
    ) -> None:
        self.store = store
        self.paths = paths
        self.epochs = recovered.epochs
        self.producers = recovered.producers
        self.log_start_offset = recovered.log_start_offset
        self.extents: list[Extent] = recovered.extents
        self.cuts: tuple[Cut, ...] = recovered.cuts
        self.timers: Callable[[], TimersReference | None] = lambda: recovered.timers
        self.snapshots: tuple[SnapshotReference, ...] = recovered.snapshots
        self.first_dirty_offset = recovered.first_dirty_offset
        """The offset up to which the log was compacted."""
        self.compacted_offset = end_with_gaps(self.extents)
        """Segments below this offset may be made by compaction; -1: none is."""
        self.index_interval_bytes = index_interval_bytes
        self._extents_end_offset = recovered.end_offset
        self._extents_producers = recovered.producers_bytes
        self._is_last_index_complete = recovered.is_last_index_complete
        self._rebuilt = list(recovered.rebuilt)
        self._next_segment_number = 0  # the first roll that the manifest does not cover
        self._manifest_numbers = count()  # each is tried once, like those of snapshots and indexes (rule 21)
        self._index_attempts = count()
        self._next_snapshot = 0
        self._aborted_files = recovered.aborted_files
        self._aborted_writer = AbortedFileWriter(store, paths, holder)
        self._run_files = RunFiles(paths)
        self._cleaned_rolls = count(CLEANED_ROLL_MIN)
        self._merged_rolls = count(MERGED_ROLL_MIN)
        self._newest_manifest = -1
        self._oldest_manifest = 0
        self._own: list[_OwnSegment] = []
        self._holder = holder
        self.verify_claim = verify_claim
        self._indexes = indexes
        self._writing = asyncio.Lock()
        self._loading = asyncio.Lock()
        for index in recovered.rebuilt:
            indexes.put((paths.partition, index.summary.leader_epoch, index.summary.roll), index)

    # --- the present state

    @property
    def end_offset(self) -> int:
        """The offset behind the last batch that was added as durable."""
        for segment in reversed(self._own):
            if segment.builder.valid_bytes:
                return segment.builder.end_offset
        return self._extents_end_offset

    @property
    def open_bytes(self) -> int:
        """Valid bytes of own segments that are not extents yet."""
        return sum(segment.builder.valid_bytes for segment in self._own)

    @property
    def size_bytes(self) -> int:
        """All valid bytes, also those below the log start in a file that is kept."""
        return sum(extent.length for extent in self.extents) + self.open_bytes

    def backlog_from(self, offset: int) -> BacklogSize:
        """The size and age of the records at or past this offset, without I/O: exact up to an index entry in own segments.

        In an extent the size is estimated from the offset's share, and the age is that of its newest record.
        """
        offset = max(offset, self.log_start_offset)
        first = bisect_right(self.extents, offset, key=end_offset_of)
        size_bytes, oldest_ms = 0, -1
        for extent in self.extents[first:]:
            size_bytes += bytes_of_extent_from(extent, offset)
            oldest_ms = extent.max_timestamp_ms if oldest_ms < 0 else oldest_ms
        for segment in self._own:
            builder = segment.builder
            if offset < builder.end_offset:
                size_bytes += builder.valid_bytes - builder.position_of(offset)
                oldest_ms = builder.timestamp_of(offset) if oldest_ms < 0 else oldest_ms
        return BacklogSize(size_bytes, oldest_ms)

    def own_segments(self) -> tuple[IndexBuilder, ...]:
        """Own segments, in order, that are not extents yet and have a batch."""
        return tuple(segment.builder for segment in self._own if segment.builder.valid_bytes)

    def epoch_end_offset(self, leader_epoch: int, high_watermark: int) -> tuple[int, int]:
        """(epoch, end offset) as in OffsetForLeaderEpoch; (-1, -1) if unknown."""
        return self.epochs.end_offset_for(leader_epoch, high_watermark)

    # --- own segments

    def begin_segment(self, builder: IndexBuilder) -> None:
        """Begin the next segment of this leader epoch. The caller adds durable batches by `builder.add`."""
        self._own.append(_OwnSegment(builder))

    def end_segment(self, roll: int) -> None:
        """Note the producer state at the segment's end. Call before batches of a later segment are added."""
        segment = self._own_segment(roll)
        if segment.builder.valid_bytes:
            segment.producers = self.producers.snapshot(segment.builder.end_offset)
        else:
            self._own.remove(segment)

    async def seal_segment(self, roll: int, closed_bytes: int) -> SegmentIndex:
        """The index of an ended segment that has a batch. Its file is closed and has `closed_bytes`."""
        segment = self._own_segment(roll)
        builder = segment.builder
        if segment.producers is None:
            raise ValueError(f"segment {roll} has not ended")
        producers = await run_in_turns(segment.producers.encoding())
        aborted = self.producers.aborted.between(builder.base_offset, builder.end_offset)
        return builder.build(closed_bytes, aborted=aborted, producers=producers)

    async def save_index(self, index: SegmentIndex) -> None:
        """Write the index file, which makes the segment an extent. May be tried again. Raises FencedWriter, StoreError."""
        await self._write_index(index)
        self._own_segment(index.summary.roll).saved = index
        while self._own and (saved := self._own[0].saved) is not None:
            del self._own[0]
            self._become_extent(saved)

    async def save_rebuilt(self) -> None:
        """Write the indexes that recovery rebuilt. May be tried again. Raises FencedWriter, StoreError."""
        while self._rebuilt:
            index = self._rebuilt[0]
            name = index.summary.leader_epoch, index.summary.roll
            if any((extent.leader_epoch, extent.roll) == name for extent in self.extents):  # else it was dropped
                await self._write_index(index)
            if self.extents and (self.extents[-1].leader_epoch, self.extents[-1].roll) == name:
                self._is_last_index_complete = bool(index.producers)
            self._rebuilt.remove(index)

    async def _write_index(self, index: SegmentIndex) -> None:
        attempt = next(self._index_attempts)
        await write_index(self.store, self.paths, index, holder=self._holder, attempt=attempt)

    def _become_extent(self, index: SegmentIndex) -> None:
        extent = Extent.of(index, self.paths.leader_epoch)
        self.extents.append(extent)
        self._extents_end_offset = extent.end_offset
        self._extents_producers = index.producers
        self._is_last_index_complete = True
        self._next_segment_number = extent.roll + 1
        self._indexes.put(self._key(extent), index)

    def _own_segment(self, roll: int) -> _OwnSegment:
        for segment in self._own:
            if segment.builder.roll == roll:
                return segment
        raise KeyError(roll)

    # --- reading

    async def locate(self, offset: int) -> Location:
        """The location of the batch that has this durable offset, or of one before it in the same file.

        Raises KafkaError OFFSET_OUT_OF_RANGE (also for the log's end), FileMissing, CorruptFile, StorageUnavailable.
        """
        location = self.locate_own(offset)
        if location is not None:
            return location
        extent = self.extents[bisect_right(self.extents, offset, key=end_offset_of)]
        index = await self.index_of(extent)
        return self.location_in(extent, index.position_of(offset))

    def locate_own(self, offset: int) -> Location | None:
        """The location as `locate` returns it, or None if the offset is in an extent. Raises KafkaError OFFSET_OUT_OF_RANGE."""
        if not self.log_start_offset <= offset < self.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not in [{self.log_start_offset}, {self.end_offset})",
            )
        if offset < self._extents_end_offset:
            return None
        for segment in reversed(self._own):
            builder = segment.builder
            if builder.valid_bytes and offset >= builder.base_offset:
                return self.location_in_own(builder, builder.position_of(offset))
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is in no segment")

    def span(self, offset: int, length_bytes_max: int, bound_offset: int) -> Span | None:
        """Implements PartitionLog.span, by the indexes that are in memory; None if the index needed is not."""
        if not self.log_start_offset <= offset < self.end_offset:
            return None
        location = self.locate_own(offset)
        tables: SegmentIndex | IndexBuilder | None
        if location is None:
            extent = self.extents[bisect_right(self.extents, offset, key=end_offset_of)]
            tables = self._indexes.get(self._key(extent))
            if tables is None:
                return None
            location = self.location_in(extent, tables.position_of(offset))
        else:
            file_id = location.file_id
            tables = next(segment.builder for segment in self._own if segment.builder.file_id == file_id)
        return span_from(location, tables.offsets, tables.positions, length_bytes_max, bound_offset)

    def location_in(self, extent: Extent, position: int) -> Location:
        return Location(
            path=self.paths.segment(extent.leader_epoch, extent.roll),
            file_id=extent.file_id,
            position=max(position, extent.position),
            valid_bytes=extent.valid_bytes,
            base_offset=extent.base_offset,
            end_offset=extent.end_offset,
            is_closed=True,
        )

    def location_in_own(self, builder: IndexBuilder, position: int) -> Location:
        return Location(
            path=self.paths.segment(builder.leader_epoch, builder.roll),
            file_id=builder.file_id,
            position=position,
            valid_bytes=builder.valid_bytes,
            base_offset=builder.base_offset,
            end_offset=builder.end_offset,
            is_closed=False,
        )

    async def index_of(self, extent: Extent) -> SegmentIndex:
        """The extent's index: in memory, in its file, or rebuilt. Raises FileMissing, CorruptFile, StorageUnavailable."""
        index = self._indexes.get(self._key(extent))
        if index is not None:
            return index
        async with self._loading:
            index = self._indexes.get(self._key(extent)) or await load_index(self.store, self.paths, extent)
            if index is None:
                index = await self._rebuild_index(extent)
            self._indexes.put(self._key(extent), index)
        return index

    async def _rebuild_index(self, extent: Extent) -> SegmentIndex:
        scan = await scan_segment(self.store, self.paths, extent, None, self.index_interval_bytes)
        if scan.index is None or scan.index.summary.end_offset != extent.end_offset:
            raise CorruptFile(f"{self.paths.segment(extent.leader_epoch, extent.roll)} lost valid batches")
        is_last = bool(self.extents) and self.extents[-1] == extent
        if extent.leader_epoch != self.paths.leader_epoch and not is_last:
            # The rebuilt index has no producer state. So do not save it for the last extent, whose index may be the only
            # place that has that state.
            try:
                await self._write_index(scan.index)
            except StoreError as error:
                _log.warning("index_not_saved", partition=self.paths.partition, reason=str(error))
            else:
                rebuilt = replace(extent, index_epoch=self.paths.leader_epoch)
                self.extents[:] = [rebuilt if other == extent else other for other in self.extents]
        return scan.index

    def _key(self, extent: Extent) -> tuple[str, int, int]:
        return self.paths.partition, extent.leader_epoch, extent.roll

    # --- the manifest, and changes of closed parts of the log

    def manifest(self) -> Manifest:
        """The manifest of the present state."""
        producers: bytes | None = self._extents_producers
        if self.extents and self._is_last_index_complete and len(self._extents_producers) > PRODUCERS_INLINE_BYTES_MAX:
            producers = None
        return Manifest(
            leader_epoch=self.paths.leader_epoch,
            next_roll=self._next_segment_number,
            log_start_offset=self.log_start_offset,
            end_offset=self._extents_end_offset,
            extents=tuple(self.extents),
            cuts=self.cuts,
            epoch_history=self.epochs.entries,
            snapshots=self.snapshots,
            aborted=self.producers.aborted.between(filed_to(self._aborted_files), self._extents_end_offset),
            producers=producers,
            first_dirty_offset=self.first_dirty_offset,
            aborted_files=self._aborted_files,
            timers=self.timers(),
        )

    async def write_manifest(self) -> None:
        """Write the present state durably to a new manifest. Raises FencedWriter, StoreError."""
        async with self._writing:
            await self._write(self.manifest())

    def take_unnamed_runs(self) -> tuple[str, ...]:
        """Paths of runs that the newest manifest no longer names. Each is returned once."""
        return self._run_files.take_unnamed()

    async def record_cut(self, roll: int, valid_bytes: int) -> None:
        """Record durably that our segment `roll` was closed behind its valid bytes (a torn tail, rule 9)."""
        async with self._writing:
            cuts = tuple(cut for cut in self.cuts if (cut.leader_epoch, cut.roll) != (self.paths.leader_epoch, roll))
            cuts = (*cuts, Cut(self.paths.leader_epoch, roll, valid_bytes))
            await self._write(replace(self.manifest(), cuts=cuts))
            self.cuts = cuts

    async def advance_log_start(self, log_start_offset: int) -> tuple[str, ...]:
        """Raise the log start offset, at most to the log's end, and drop the extents below it. Returns the paths to delete.

        Does nothing if `log_start_offset` is not above the present one. Raises FencedWriter, StoreError; memory is unchanged
        then.
        """
        async with self._writing:
            return await self._advance(log_start_offset, self.snapshots)

    async def save_snapshot(self, snapshot: StateSnapshot) -> tuple[str, ...]:
        """Write a snapshot, name it in a manifest, drop older ones and replaced extents. Returns paths to delete (rule 16)."""
        async with self._writing:
            epoch, number = self.paths.leader_epoch, self._next_snapshot
            self._next_snapshot += 1
            try:
                await self.store.write_file(self.paths.snapshot(epoch, number), snapshot.data, holder=self._holder)
            except FileMissing as error:
                raise FencedWriter(f"{self.paths.own} is gone") from error
            except AlreadyExists as error:
                raise CorruptFile(f"{self.paths.snapshot(epoch, number)} is there already") from error
            reference = SnapshotReference(
                epoch, number, snapshot.next_offset, len(snapshot.data), crc32c(snapshot.data)
            )
            replaced = [extent.end_offset for extent in self.extents if extent.end_offset <= snapshot.next_offset]
            return await self._advance(max(replaced, default=self.log_start_offset), (reference,))

    @property
    def newest_manifest(self) -> int:
        """The number of the newest manifest known to be durable. Later ones get higher numbers."""
        return self._newest_manifest

    def next_rewritten_roll(self, *, is_merge: bool) -> int:
        """A new number for a segment that compaction, or a merge, writes; none is returned twice (rule 21)."""
        return next(self._merged_rolls if is_merge else self._cleaned_rolls)

    async def compacted_to(self, first_dirty_offset: int) -> tuple[str, ...]:
        """Record durably how far compaction has come. Returns (): no paths are to be deleted. Raises FencedWriter, StoreError."""
        async with self._writing:
            if first_dirty_offset > self.first_dirty_offset:
                await self._write(replace(self.manifest(), first_dirty_offset=first_dirty_offset))
                self.first_dirty_offset = first_dirty_offset
            return ()

    async def replace_extents(self, replaced: Sequence[Extent], cleaned: CleanedSegment) -> tuple[str, ...]:
        """Replace neighbouring extents by the segment that compaction made of them. Returns the paths to delete.

        Raises ExtentsChanged (an extent is not in the log any more), SwapNotBegun, FencedWriter, StoreError; memory is unchanged
        then.
        """
        return await self.swap_in((await self.prepare_replacement(replaced, cleaned),))

    async def prepare_replacement(self, replaced: Sequence[Extent], cleaned: CleanedSegment) -> Replacement:
        """Write the index of a segment that is to replace these extents. Raises as `replace_extents` does."""
        producers = await self._producers_at(replaced[-1])
        place_of(self.extents, replaced, self.paths.partition)
        index = index_of_cleaned(cleaned, replaced, self.producers.aborted, producers)
        try:
            await self._write_index(index)
        except FencedWriter:
            raise
        except StoreError as error:
            raise SwapNotBegun(f"the index of a compacted segment was not written: {error}") from error
        extent = Extent.of(index, self.paths.leader_epoch)
        if extent.max_timestamp_ms < 0:  # no record is left: retention goes by the timestamps of the replaced extents
            newest_ms = max(one.max_timestamp_ms for one in replaced)
            extent = replace(extent, max_timestamp_ms=newest_ms)
        self._indexes.put(self._key(extent), index)
        return Replacement(tuple(replaced), extent, cleaned.dropped_aborts)

    async def swap_in(
        self, replacements: Sequence[Replacement], *, first_dirty_offset: int | None = None
    ) -> tuple[str, ...]:
        """Make all replacements, which are in order, with one manifest. Returns the paths to delete.

        `first_dirty_offset`: how far compaction has come with them. Raises as `replace_extents` does.
        """
        async with self._writing:
            places = [place_of(self.extents, one.replaced, self.paths.partition) for one in replacements]
            before = self.manifest()
            gone = {segment_of(extent) for one in replacements for extent in one.replaced}
            # Only transactions of extents: the aborted transactions of other segments are in those segments' indexes.
            aborted = before.aborted.between(0, before.end_offset)
            dropped_aborts = [offset for one in replacements for offset in one.dropped_aborts]
            for offset in dropped_aborts:
                aborted.remove(offset)
            aborted_files = await self._aborted_writer.without(
                before.aborted_files, dropped_aborts, self.producers.aborted
            )
            first_dirty_offset = max(self.first_dirty_offset, first_dirty_offset or 0)
            after = replace(
                before,
                extents=with_replacements(before.extents, replacements, places),
                cuts=tuple(cut for cut in before.cuts if (cut.leader_epoch, cut.roll) not in gone),
                aborted=aborted,
                aborted_files=aborted_files,
                first_dirty_offset=first_dirty_offset,
            )
            await self._write(after)
            dropped = [
                extent
                for one, place in zip(replacements, places, strict=True)
                for extent in self.extents[place : place + len(one.replaced)]
            ]
            # Extents may have been appended meanwhile, but none removed.
            self.extents[:] = with_replacements(self.extents, replacements, places)
            self.first_dirty_offset = first_dirty_offset
            self.compacted_offset = max(self.compacted_offset, end_with_gaps(one.extent for one in replacements))
            self.cuts = tuple(cut for cut in self.cuts if (cut.leader_epoch, cut.roll) not in gone)
            for offset in dropped_aborts:
                self.producers.aborted.remove(offset)
            for extent in dropped:
                self._indexes.drop(self._key(extent))
            return self._unnamed(before, after, dropped)

    async def _producers_at(self, extent: Extent) -> bytes:
        """The producer state at the extent's end, for the index of the segment that replaces it; empty if its index has none."""
        if self.extents and segment_of(self.extents[-1]) == segment_of(extent):
            return self._extents_producers
        index = await load_index(self.store, self.paths, extent)
        return b"" if index is None else index.producers

    async def latest_snapshot(self, high_watermark: int) -> StateSnapshot | None:
        """The newest usable snapshot (see state_snapshots.latest_snapshot)."""
        return await latest_snapshot(
            self.store, self.paths, lambda: self.snapshots, lambda: self.log_start_offset, high_watermark
        )

    async def _advance(self, log_start_offset: int, snapshots: tuple[SnapshotReference, ...]) -> tuple[str, ...]:
        kept_from = self.end_offset if (timers := self.timers()) is None else timers.needed_from
        log_start_offset = max(self.log_start_offset, min(log_start_offset, self.end_offset, kept_from))
        if log_start_offset == self.log_start_offset and snapshots == self.snapshots:
            return ()
        count = droppable(self.extents, log_start_offset)
        dropped, kept = self.extents[:count], tuple(self.extents[count:])
        gone = {(extent.leader_epoch, extent.roll) for extent in dropped}
        cuts = tuple(cut for cut in self.cuts if (cut.leader_epoch, cut.roll) not in gone)
        before = self.manifest()
        producers = before.producers if kept else self._extents_producers
        aborted_files = tuple(file for file in self._aborted_files if file.last_marker >= log_start_offset)
        after = replace(
            before,
            log_start_offset=log_start_offset,
            extents=kept,
            cuts=cuts,
            snapshots=snapshots,
            producers=producers,
            aborted_files=aborted_files,
        )
        await self._write(after)
        self.log_start_offset = log_start_offset
        del self.extents[:count]  # extents may have been appended meanwhile, but none removed
        self.cuts = tuple(cut for cut in self.cuts if (cut.leader_epoch, cut.roll) not in gone)
        self.snapshots = snapshots
        self.epochs.truncate_head(log_start_offset)
        self.producers.aborted.drop_before(log_start_offset)
        for extent in dropped:
            self._indexes.drop(self._key(extent))
        return self._unnamed(before, after, dropped)

    def _unnamed(self, before: Manifest, after: Manifest, dropped: list[Extent]) -> tuple[str, ...]:
        """Paths that the newer manifest no longer names: single files, and sealed directories without a file in use."""
        directories = before.epochs_named() - after.epochs_named() - {self.paths.leader_epoch}
        paths = [self.paths.epoch(epoch) for epoch in sorted(directories)]
        for extent in dropped:
            if extent.leader_epoch not in directories:
                paths.append(self.paths.segment(extent.leader_epoch, extent.roll))
            if extent.index_epoch not in directories:
                paths.append(self.paths.index(extent.leader_epoch, extent.roll, extent.index_epoch))
        paths.extend(
            self.paths.snapshot(reference.leader_epoch, reference.number)
            for reference in before.snapshots
            if reference not in after.snapshots and reference.leader_epoch not in directories
        )
        aborted_files = (file for file in before.aborted_files if file.leader_epoch not in directories)
        unnamed = (
            *(file for file in aborted_files if file not in self._aborted_files),
            *self._aborted_writer.take_unnamed(),
        )
        paths.extend(self.paths.aborted(file.leader_epoch, file.number) for file in unnamed)
        return tuple(paths)

    async def _write(self, manifest: Manifest) -> None:
        """Write the manifest durably to the claimed directory. The next owner may find it even if this fails. Two are kept."""
        manifest = await self._aborted_writer.with_room(manifest)
        self._run_files.tried(manifest)
        number = await write_manifest(
            self.store, self.paths, manifest, holder=self._holder, numbers=self._manifest_numbers
        )
        await self.verify_claim()
        self._run_files.named(manifest)
        before, self._newest_manifest = self._newest_manifest, number
        try:
            while self._oldest_manifest < before:
                await self.store.delete(self.paths.manifest(self._oldest_manifest))
                self._oldest_manifest += 1
        except StoreError as error:
            _log.info("old_manifest_not_deleted", partition=self.paths.partition, reason=str(error))
        self._aborted_files = manifest.aborted_files
        self._aborted_writer.named(self._aborted_files)
