"""Recovers a partition's log: from the newest valid manifest through all segments that follow it (rule 4).

Call it when every older directory is sealed and every file in them is closed. Segments whose index is trusted (rule 12) are taken
over unread; others are read, batch by batch, up to the first bad one. The log continues in the next segment only if that begins
exactly at the offset where the valid part of this one ends. So a torn tail that its owner wrote again to the next segment is
skipped, and the log never continues across a gap. Gaps are found by offsets, not by rolls: a roll whose creation ended
uncertainly is never used again (rule 21), so rolls without batches may be missing or empty. A missing segment that had batches
leaves a gap in the offsets, because offsets are dense; the next segment with a batch then begins too late, and is cut with all
that follows. The caller records the cuts in its manifest before it serves anything. It gets the rebuilt indexes, and writes them
to its own directory (rule 2) once the partition serves again, so that the next owner need not read those segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

import structlog

from bmq.aio.loop_turns import run_in_turns
from bmq.dataclass import dataclass
from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.checkpoint import Checkpoint, find_checkpoint
from bmq.log.epoch_history import EpochHistory
from bmq.log.manifest import (
    PRODUCERS_INLINE_BYTES_MAX,
    AbortedFile,
    Cut,
    Extent,
    Manifest,
    SnapshotReference,
    TimersReference,
    cuts_by_segment,
    filed_to,
)
from bmq.log.names import PartitionPaths, draft_name, index_name, is_cleaned, may_have_gaps, parse_segment
from bmq.log.producer_state import ProducerStates
from bmq.log.segment_index import INDEX_BYTES_MAX, CorruptIndex, IndexBuilder, SegmentIndex
from bmq.log.segment_reader import BadBatch, BatchRun, SegmentReader
from bmq.log.store import (
    AlreadyExists,
    CorruptFile,
    FencedWriter,
    FileMissing,
    FileStatus,
    SegmentStore,
    StorageUnavailable,
    StoreError,
)
from bmq.protocol.control_batch import parse_end_transaction_marker

MANIFEST_TRIES_MAX: Final = 16

_log = structlog.get_logger("bmq.log")


class ManifestNumbersTaken(StorageUnavailable):
    """The next manifest numbers are taken by earlier tries whose outcome is unknown. A retry uses higher numbers."""


@dataclass(slots=True)
class RecoveredLog:
    """The recovered log: offsets [log_start_offset, end_offset), in `extents`, in order, without a gap.

    `epochs` has the new leader epoch already. `producers` (with the aborted transactions) is the state at `end_offset`, and
    `producers_bytes` its snapshot. `aborted_files` have the oldest of the aborted transactions. `cuts`: parts of segments that do
    not belong to the log. `unnamed_directories`: directories of epochs without a file in use, to be deleted once the new manifest
    is durable. `scanned_bytes`: how many bytes of segments were read. `rebuilt`: indexes that extents already name and that still
    have to be written; until then, a reader that needs one reads the segment.
    """

    log_start_offset: int
    end_offset: int
    extents: list[Extent]
    epochs: EpochHistory
    producers: ProducerStates
    producers_bytes: bytes
    aborted_files: tuple[AbortedFile, ...] = ()
    cuts: tuple[Cut, ...] = ()
    snapshots: tuple[SnapshotReference, ...] = ()
    unnamed_directories: tuple[str, ...] = ()
    scanned_bytes: int = 0
    scanned_segments: int = 0
    is_last_index_complete: bool = False  # the last extent's index file has the producer state
    rebuilt: tuple[SegmentIndex, ...] = ()  # not durable yet: the caller writes them once it serves
    first_dirty_offset: int = 0
    timers: TimersReference | None = None

    def manifest(self, leader_epoch: int) -> Manifest:
        """The first manifest of the epoch that recovered the log."""
        producers: bytes | None = self.producers_bytes
        if self.is_last_index_complete and len(self.producers_bytes) > PRODUCERS_INLINE_BYTES_MAX:
            producers = None
        return Manifest(
            leader_epoch=leader_epoch,
            next_roll=0,
            log_start_offset=self.log_start_offset,
            end_offset=self.end_offset,
            extents=tuple(self.extents),
            cuts=self.cuts,
            epoch_history=self.epochs.entries,
            snapshots=self.snapshots,
            aborted=self.producers.aborted.between(filed_to(self.aborted_files), self.end_offset),
            aborted_files=self.aborted_files,
            producers=producers,
            first_dirty_offset=self.first_dirty_offset,
            timers=self.timers,
        )


async def recover_log(
    store: SegmentStore, paths: PartitionPaths, older_epochs: Sequence[int], *, index_interval_bytes: int, now_ms: int
) -> RecoveredLog:
    """Recover the log for the owner of `paths.leader_epoch`, whose directory is claimed. `older_epochs`: all sealed ones.

    `now_ms`: the wall clock; producers found in batches behind the snapshot count as seen now. Lists the directories again, so
    lengths are those after closing (rule 3). May be tried again after StorageUnavailable, and after FilesLeftOpen once these
    files are closed. Raises StateDamaged if a manifest is missing or damaged, so that an operator has to decide (rule 25).
    """
    epochs = sorted(older_epochs, reverse=True)
    checkpoint = await find_checkpoint(store, paths, epochs)
    walk = _Walk(store, paths, index_interval_bytes, checkpoint, now_ms)
    for directory in checkpoint.directories:
        await walk.follow(directory.leader_epoch, directory.entries)
    recovered = await walk.finish()
    named = recovered.manifest(paths.leader_epoch).epochs_named()
    recovered.unnamed_directories = tuple(paths.epoch(epoch) for epoch in epochs if epoch not in named)
    return recovered


async def write_manifest(
    store: SegmentStore, paths: PartitionPaths, manifest: Manifest, *, holder: str, numbers: Iterator[int]
) -> int:
    """Write the manifest durably under the next free number of `numbers` (ascending), and return that number.

    Each number is tried once: after an unknown outcome a late clean-up may still delete the file (rule 21). If the file itself
    appears late, one with a higher number counts. Raises FencedWriter if our directory is gone, ManifestNumbersTaken, StoreError.
    """
    data = await run_in_turns(manifest.encoding())
    for number in islice(numbers, MANIFEST_TRIES_MAX):
        try:
            await store.write_file(paths.manifest(number), data, holder=holder)
        except AlreadyExists:
            continue
        except FileMissing as error:
            raise FencedWriter(f"{paths.own} is gone") from error
        return number
    raise ManifestNumbersTaken(f"{MANIFEST_TRIES_MAX} manifest numbers in a row are taken in {paths.own}")


async def load_index(store: SegmentStore, paths: PartitionPaths, extent: Extent) -> SegmentIndex | None:
    """The extent's index, or None if it is missing or not to be trusted (rule 12). Raises StorageUnavailable."""
    path = paths.index(extent.leader_epoch, extent.roll, extent.index_epoch)
    try:
        index = SegmentIndex.decode(await store.read_file(path, length_bytes_max=INDEX_BYTES_MAX))
    except FileMissing:
        return None
    except (CorruptFile, CorruptIndex) as error:
        _log.warning("index_not_trusted", path=path, reason=str(error))
        return None
    if not index.is_for(extent.leader_epoch, extent.roll, extent.file_id, extent.file_bytes):
        _log.warning("index_not_trusted", path=path, reason="it is for another file")
        return None
    return index


async def write_index(
    store: SegmentStore, paths: PartitionPaths, index: SegmentIndex, *, holder: str, attempt: int
) -> None:
    """Write the index durably to our directory, beside its segment or as a rebuilt one. Does nothing if it exists already.

    `attempt`: a number that is never used twice in one epoch. The segment fixes the index's name, so nothing is written or
    deleted under that name: a complete draft is renamed to it. Leftovers and late effects of an earlier try then only touch its
    own draft, or make the same complete index appear (rule 21). Raises FencedWriter if our directory is gone, StoreError.
    """
    summary = index.summary
    path = paths.index(summary.leader_epoch, summary.roll, paths.leader_epoch)
    draft = draft_name(path, attempt)
    try:
        await store.write_file(draft, index.encode(), holder=holder)
    except FileMissing as error:
        raise FencedWriter(f"{paths.own} is gone") from error
    except AlreadyExists as error:
        raise StorageUnavailable(f"{draft} is there already") from error
    try:
        await store.rename(draft, path)
    except FileMissing as error:
        if await store.status(path) is None:
            raise FencedWriter(f"{paths.own} is gone") from error
    except AlreadyExists:
        # An earlier try succeeded after all: its index is whole, and for the same segment.
        with suppress(StoreError):
            await store.delete(draft)


class _Walk:
    """The log as far as it was recovered."""

    def __init__(
        self,
        store: SegmentStore,
        paths: PartitionPaths,
        index_interval_bytes: int,
        checkpoint: Checkpoint,
        now_ms: int,
    ) -> None:
        manifest = checkpoint.manifest or Manifest(0, 0, 0, 0)
        self._store = store
        self._paths = paths
        self._interval_bytes = index_interval_bytes
        self._now_ms = now_ms
        self._manifest = manifest
        self._aborted = manifest.aborted
        self._cuts: list[Cut] = []
        self._rebuilt: list[SegmentIndex] = []
        self._scanned_bytes = 0
        self._scanned_segments = 0
        # The producer state at `end_offset`: encoded until it has to change; None if it is not loaded yet.
        self._producers_bytes: bytes | None = manifest.producers if checkpoint.manifest is not None else b""
        self._producers: ProducerStates | None = None
        self._is_last_index_complete = checkpoint.manifest is not None and manifest.producers is None
        self._is_loss_accepted = checkpoint.is_loss_accepted
        self._log_start_offset = manifest.log_start_offset
        self.epochs = EpochHistory(manifest.epoch_history)
        self.extents = list(manifest.extents)
        self.end_offset = manifest.end_offset

    async def follow(self, epoch: int, entries: Sequence[FileStatus]) -> None:
        """Add the directory's segments that follow the manifest; all segments if the directory's own manifest is lost."""
        limits = cuts_by_segment(self._manifest.cuts)
        next_roll = self._manifest.next_roll if epoch == self._manifest.leader_epoch else 0
        segments = sorted(
            (roll, entry)
            for entry in entries
            if (roll := parse_segment(entry.name)) is not None and roll >= next_roll and entry.length_bytes
        )
        names = {entry.name for entry in entries}
        is_broken = False
        for roll, entry in segments:
            valid_bytes = 0
            if not is_broken:
                limit = limits.get((epoch, roll), entry.length_bytes)
                has_index = index_name(roll) in names
                found = await self._take(epoch, roll, entry, min(limit, entry.length_bytes), has_index)
                is_broken = found is None
                valid_bytes = found or 0
            if valid_bytes < entry.length_bytes:
                self._cuts.append(Cut(epoch, roll, valid_bytes))

    async def _take(self, epoch: int, roll: int, entry: FileStatus, limit: int, has_index: bool) -> int | None:
        """Add one segment. Returns how many of its bytes belong to the log; None if there is a gap before it."""
        whole = Extent(epoch, roll, epoch, entry.file_id, entry.length_bytes, 0, limit, self.end_offset, 0, -1)
        index = await load_index(self._store, self._paths, whole) if has_index else None
        if index is not None and index.summary.valid_bytes <= limit and index.producers:
            if not self._reaches(whole, index.summary.base_offset):
                return None
            self._append(index, epoch)
            self._aborted.extend(index.aborted)
            self._producers_bytes, self._producers = index.producers, None
            return index.summary.valid_bytes
        producers = await self._loaded_producers()
        index, first_offset = await self._scan(whole, producers)
        if index is None:
            if first_offset is None:
                return 0
            if not self._reaches(whole, first_offset):
                return None
            return await self._take(epoch, roll, entry, limit, has_index)  # past a gap that was accepted
        self._rebuilt.append(index)
        self._append(index, self._paths.leader_epoch)
        self._aborted.extend(index.aborted)
        return index.summary.valid_bytes

    def _append(self, index: SegmentIndex, index_epoch: int) -> None:
        self.extents.append(Extent.of(index, index_epoch))
        self.end_offset = index.summary.end_offset
        self._is_last_index_complete = bool(index.producers)
        for leader_epoch, start_offset in index.summary.epoch_starts:
            self.epochs.assign(leader_epoch, start_offset)

    def _reaches(self, extent: Extent, found_offset: int) -> bool:
        """Whether the log continues with a segment that begins at `found_offset`.

        Once an operator has accepted a loss, a gap drops the log before it instead, so that the newest records are kept.
        """
        if found_offset == self.end_offset:
            return True
        path = self._paths.segment(extent.leader_epoch, extent.roll)
        if not self._is_loss_accepted or found_offset < self.end_offset:
            _log.warning("log_cut_at_gap", path=path, end_offset=self.end_offset, found_offset=found_offset)
            return False
        _log.warning("log_given_up_before_gap", path=path, end_offset=self.end_offset, found_offset=found_offset)
        self.extents.clear()
        self._rebuilt.clear()
        self._log_start_offset = self.end_offset = found_offset
        return True

    async def _scan(self, extent: Extent, producers: ProducerStates) -> tuple[SegmentIndex | None, int | None]:
        """Read the extent's valid batches: (its index, None without a batch; the first batch's offset, if there is one).

        `producers`: the state before the extent, which is updated to that at its end.
        """
        scan = await scan_segment(
            self._store, self._paths, extent, producers, self._interval_bytes, now_ms=self._now_ms
        )
        self._scanned_bytes += scan.read_bytes
        self._scanned_segments += 1
        return scan.index, scan.first_offset

    async def _loaded_producers(self) -> ProducerStates:
        if self._producers is None:
            if self._producers_bytes is None:
                self._producers = await self._producers_of_extents()
            elif self._producers_bytes:
                self._producers = await run_in_turns(ProducerStates.decoding(self._producers_bytes))
            else:
                self._producers = ProducerStates()
        return self._producers

    async def _producers_of_extents(self) -> ProducerStates:
        """The producer state, if the manifest leaves it to the last extent's index.

        If that index is missing, use the newest index with producer state and read the segments after it.
        """
        start = len(self.extents)
        producers: ProducerStates | None = None
        while start > 0 and producers is None:
            index = await load_index(self._store, self._paths, self.extents[start - 1])
            if index is not None and index.producers:
                producers = await run_in_turns(ProducerStates.decoding(index.producers))
            else:
                start -= 1
        producers = producers or ProducerStates()
        for place in range(start, len(self.extents)):
            extent = self.extents[place]
            index, _ = await self._scan(extent, producers)
            if index is None or index.summary.end_offset != extent.end_offset:
                raise CorruptFile(f"{self._paths.segment(extent.leader_epoch, extent.roll)} lost valid batches")
            self._rebuilt.append(index)
            self.extents[place] = replace(extent, index_epoch=self._paths.leader_epoch)
        return producers

    async def finish(self) -> RecoveredLog:
        producers = await self._loaded_producers()
        manifest, epochs, end_offset = self._manifest, self.epochs, self.end_offset
        log_start_offset = self._log_start_offset
        snapshot_offset = max((item.next_offset for item in manifest.snapshots), default=0)
        if end_offset < snapshot_offset:
            # A snapshot is synced and has only durable records, so it replaces records that the log lost at its end.
            _log.warning(
                "log_ends_below_its_snapshot",
                partition=self._paths.partition,
                end_offset=end_offset,
                next_offset=snapshot_offset,
            )
            log_start_offset = snapshot_offset
        if end_offset < log_start_offset:
            # All records before the log start were deleted, and those behind it are lost: the log is empty.
            self.extents.clear()
            end_offset = log_start_offset
            self._is_last_index_complete = False
        self._aborted.drop_before(log_start_offset)
        producers.aborted = self._aborted
        producers.synced(end_offset)
        await run_in_turns(producers.correcting_times(self._now_ms))
        aborted_files = tuple(one for one in manifest.aborted_files if one.last_marker >= log_start_offset)
        epochs.truncate_head(log_start_offset)
        epochs.assign(self._paths.leader_epoch, end_offset)
        kept = {(extent.leader_epoch, extent.roll) for extent in self.extents}
        old_cuts = (cut for cut in manifest.cuts if (cut.leader_epoch, cut.roll) in kept)
        cuts = {(cut.leader_epoch, cut.roll): cut for cut in (*old_cuts, *self._cuts)}
        return RecoveredLog(
            log_start_offset=log_start_offset,
            end_offset=end_offset,
            extents=self.extents,
            epochs=epochs,
            producers=producers,
            producers_bytes=await run_in_turns(producers.snapshot(end_offset).encoding()),
            aborted_files=aborted_files,
            cuts=tuple(cuts.values()),
            snapshots=tuple(item for item in manifest.snapshots if item.next_offset <= end_offset),
            scanned_bytes=self._scanned_bytes,
            scanned_segments=self._scanned_segments,
            is_last_index_complete=self._is_last_index_complete and not self._rebuilt,
            rebuilt=tuple(self._rebuilt),
            first_dirty_offset=manifest.first_dirty_offset,
            timers=timers_within(manifest.timers, log_start_offset, end_offset),
        )


def timers_within(timers: TimersReference | None, log_start_offset: int, end_offset: int) -> TimersReference | None:
    """The reference, limited to the log's offsets: after an accepted loss the log may begin later or end earlier than it says.

    Runs may have records that the log lost at its end. Their offsets will be given to other records, so they must not count.
    """
    if timers is None:
        return None
    half_from = timers.half_from
    return replace(
        timers,
        half_from=None if half_from is None else min(max(half_from, log_start_offset), end_offset),
        replay_from=min(max(timers.replay_from, log_start_offset), end_offset),
        runs=tuple(run if run.end_offset <= end_offset else replace(run, end_offset=end_offset) for run in timers.runs),
    )


@dataclass(frozen=True, slots=True)
class ScannedSegment:
    """The result of reading a segment. `index` None: it has no valid batch that follows the log's end.

    `first_offset`: that of the first whole batch, if there is one.
    """

    index: SegmentIndex | None
    first_offset: int | None
    read_bytes: int


async def scan_segment(
    store: SegmentStore,
    paths: PartitionPaths,
    extent: Extent,
    producers: ProducerStates | None,
    index_interval_bytes: int,
    *,
    now_ms: int = 0,
) -> ScannedSegment:
    """Read a segment's batches from `extent.base_offset` on, to the first bad one, and index them.

    `producers`, if given, is updated (`now_ms`: the wall clock) and goes into the index. In a segment that compaction made,
    offsets may be missing, but not the last one. Raises FileMissing, StorageUnavailable.
    """
    path = paths.segment(extent.leader_epoch, extent.roll)
    reader = SegmentReader(store, path, file_id=extent.file_id, position=0, valid_bytes=extent.valid_bytes)
    builder = IndexBuilder(
        extent.leader_epoch, extent.roll, extent.file_id, extent.base_offset, interval_bytes=index_interval_bytes
    )
    aborted = AbortedTransactions()
    if producers is not None:
        producers.aborted = aborted
    end_offset = extent.base_offset
    first_offset: int | None = None
    try:
        while (run := await reader.next_run()) is not None:
            if first_offset is None:
                first_offset = run.batches[0][1].base_offset
            reached = _index_run(run, builder, producers, end_offset, now_ms)
            if producers is not None:
                producers.synced(reached)
            if reached != run.batches[-1][1].end_offset:
                _log.warning("segment_out_of_sequence", path=path, position=builder.valid_bytes, end_offset=reached)
                break
            end_offset = reached
    except BadBatch as error:
        _log.warning("segment_cut", path=path, position=error.position, reason=str(error))
    if not builder.valid_bytes:
        return ScannedSegment(None, first_offset, reader.read_bytes)
    snapshot = b"" if producers is None else await run_in_turns(producers.snapshot(builder.end_offset).encoding())
    index = builder.build(extent.file_bytes, aborted=aborted, producers=snapshot)
    return ScannedSegment(index, first_offset, reader.read_bytes)


def _index_run(
    run: BatchRun, builder: IndexBuilder, producers: ProducerStates | None, end_offset: int, now_ms: int
) -> int:
    """Index the batches while each begins where the last one ended. Returns the end offset reached.

    A batch's checksum covers neither its offset nor its leader epoch, so both are compared with the expected values.
    """
    has_gaps, has_epochs = may_have_gaps(builder.roll), is_cleaned(builder.roll)
    for place, header in run.batches:
        if header.base_offset < end_offset or (header.base_offset > end_offset and not has_gaps):
            break
        if header.leader_epoch > builder.leader_epoch or (
            header.leader_epoch < builder.leader_epoch and not has_epochs
        ):
            break
        builder.add(header, header.base_offset, run.position + place)
        end_offset = header.end_offset
        if producers is None or header.producer_id < 0:
            continue
        if not header.is_control:
            producers.place(header, header.base_offset, now_ms)
        elif (marker := parse_end_transaction_marker(run.data, place)) is not None:
            producers.place_marker(header, header.base_offset, marker, now_ms)
    return end_offset
