"""Finds out what a partition's log holds: from the newest valid manifest through as many segments as follow (rule 4).

To be called when every older directory is sealed and every file in it closed. Segments whose index is trusted (rule 12)
are taken over unread; the others are read, batch by batch, to the first bad one. The log continues in the next segment
only if that begins exactly at the offset where the valid part of this one ends: so a torn tail that its own owner wrote
again in the next segment is skipped, and nothing is ever read across a gap. Gaps are found by offsets, not by rolls: a
roll whose creation ended uncertainly is never used again (rule 21), so rolls that never held a batch may be missing or
empty. A missing segment that did hold batches leaves a hole in the offsets, because these are dense and a batch has at
least one; the next segment with a batch then begins too late and is cut with all that follows. The caller records the
cuts in its manifest before it serves anything. Rebuilt indexes are returned, to be written to the own directory
(rule 2) once the partition serves again, so that the next owner need not read those segments again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import structlog

from bmq.aio.loop_turns import run_in_turns
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
from bmq.log.names import PartitionPaths, draft_name, index_name, is_cleaned, parse_segment
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
    """Earlier tries, whose outcome is unknown, have taken the next manifest numbers. A retry goes on to higher ones."""


@dataclass(slots=True)
class RecoveredLog:
    """The recovered log: offsets [log_start_offset, end_offset), in `extents`, in order, without a gap.

    `epochs` already knows the new leader epoch; `producers` (with the aborted transactions) is the state at
    `end_offset`, and `producers_bytes` its snapshot. `aborted_files` have the oldest of the aborted transactions. `cuts`: parts of segments that do not count. `unnamed_directories`: of epochs that keep no file, to be
    deleted once the new manifest is durable. `scanned_bytes`: bytes of segments that had to be read. `rebuilt`: indexes
    that extents already name and that still have to be written; until then a reader that misses one reads the segment.
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
    is_last_index_complete: bool = False  # the last extent's index file holds the producer state
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
    """Walk the log for the owner of `paths.leader_epoch`, whose directory is claimed. `older_epochs`: all sealed ones.

    `now_ms`: the wall clock; from here on producers found in batches without a snapshot are remembered for their time.
    Looks at the directories again, so lengths are those after closing (rule 3). May be tried again after
    StorageUnavailable, and after FilesLeftOpen once these are closed. Raises StateDamaged when a manifest is missing or
    damaged: only an operator can decide then (rule 25).
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
    """Make the manifest durable under the next free one of `numbers`, ascending, and return that number.

    A number is tried once: if the outcome is unknown, a clean-up may be carried out late (rule 21). If the file itself
    appears late, a higher number counts instead. Raises FencedWriter when our directory is gone.
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
    """The extent's index; None unless it is trusted (rule 12). Raises StorageUnavailable."""
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
    """Make the index durable in our directory, beside its segment or as a rebuilt one. Fine when it is there already.

    `attempt`: never the same twice in one epoch. The index's name is fixed by its segment, so nothing is written or
    deleted under that name: a whole draft is renamed to it. So leftovers and late effects of an earlier try touch only
    its own draft, or make the same whole index appear (rule 21).
    Raises FencedWriter when our directory is gone.
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
    """The log as far as it has been walked."""

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
        # The producer state at `end_offset`: kept as bytes until it has to change; None when not loaded yet.
        self._producers_bytes: bytes | None = manifest.producers if checkpoint.manifest is not None else b""
        self._producers: ProducerStates | None = None
        self._is_last_index_complete = checkpoint.manifest is not None and manifest.producers is None
        self._is_loss_accepted = checkpoint.is_loss_accepted
        self._log_start_offset = manifest.log_start_offset
        self.epochs = EpochHistory(manifest.epoch_history)
        self.extents = list(manifest.extents)
        self.end_offset = manifest.end_offset

    async def follow(self, epoch: int, entries: Sequence[FileStatus]) -> None:
        """Take in the directory's segments that follow the manifest; all of them if its own manifest is lost."""
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
        """Take in one segment: how many of its bytes count; None when there is a gap before it."""
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

        Once an operator has accepted a loss, we give up what lies before a gap instead, and keep what was written last.
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
        """Read the extent's valid batches: its index (None without any), and the first batch's offset if there is one.

        `producers` is the state before the extent, and is brought forward to its end.
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
        """The producer state, for a manifest that leaves it to the last extent's index.

        If that index is missing, use the newest one with producer state and read the segments after it.
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
            # A snapshot is synced and holds only durable records. It replaces those that the log lost behind its end.
            _log.warning(
                "log_ends_below_its_snapshot",
                partition=self._paths.partition,
                end_offset=end_offset,
                next_offset=snapshot_offset,
            )
            log_start_offset = snapshot_offset
        if end_offset < log_start_offset:
            # All records before the log start were deleted, and those behind it were lost: the log is empty.
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
    """The log may begin later than timers need, or end earlier, once a loss was accepted: then they are lost with it.

    A run may have records that the log has lost at its end. Their names will be given to others, so they do not count.
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
    """`index` None: no valid batch follows the log's end; `first_offset`: of the first whole batch, if there is one."""

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

    `producers`, if given, is brought forward, at the wall clock's `now_ms`, and goes into the index. In a segment that compaction made, offsets may be
    missing, but for the last one. Raises FileMissing, StorageUnavailable.
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
    """Index the batches as long as each begins where the last one ended; the end offset reached.

    A batch's checksum covers neither its offset nor its leader epoch, so both are compared with the expected values.
    """
    has_gaps = is_cleaned(builder.roll)
    for place, header in run.batches:
        if has_gaps:
            if header.base_offset < end_offset or header.leader_epoch > builder.leader_epoch:
                break
        elif header.base_offset != end_offset or header.leader_epoch != builder.leader_epoch:
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
