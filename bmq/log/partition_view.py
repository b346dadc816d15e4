"""A read-only view of a partition's segments, taken without a lock, for any process.

The newest valid manifest lists all older segments; the ones behind it are in its directory. Higher epochs have no records yet.
The length of an open segment is what its replicas show now, so its last batches may still vanish.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

import structlog

from bmq.aio.loop_turns import run_in_turns
from bmq.dataclass import dataclass
from bmq.log.aborted_files import with_filed_aborts
from bmq.log.checksummed_parts import UnfinishedParts
from bmq.log.damage import StateDamaged, file_damage, reason_of, require_accepted
from bmq.log.manifest import MANIFEST_BYTES_MAX, CorruptManifest, Extent, Manifest, cuts_by_segment
from bmq.log.names import (
    EpochListing,
    PartitionPaths,
    index_name,
    manifest_name,
    parse_manifest,
    parse_segment,
    segment_name,
)
from bmq.log.recovery import load_index
from bmq.log.segment_reader import BadBatch, BatchRun, SegmentReader
from bmq.log.store import CorruptFile, FileMissing, FileStatus, SegmentStore, StorageUnavailable

LOOKS_MAX: Final = 5
LOOKUPS_MAX: Final = 16
_NOBODY: Final = -1

_log = structlog.get_logger("bmq.log")


@dataclass(frozen=True, slots=True)
class SegmentView:
    """One segment, with offsets [base_offset, end_offset). The end is None without an index, the base None for an empty segment.

    Of its `file_bytes`, `valid_bytes` belong to the log.
    """

    path: str
    leader_epoch: int
    roll: int
    file_id: int
    base_offset: int | None
    end_offset: int | None
    valid_bytes: int
    file_bytes: int
    is_open: bool


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition's segments, in the order of the log. `manifest` None: no owner has written one yet."""

    manifest: Manifest | None
    paths: PartitionPaths
    segments: tuple[SegmentView, ...] = ()


async def view_partition(store: SegmentStore, partition_directory: str) -> PartitionView:
    """Look at a partition; look again, a bounded number of times, if a directory or file is renamed or replaced meanwhile.

    Raises FileMissing (no such partition), CorruptManifest, StateDamaged, StorageUnavailable.
    """
    for _ in range(LOOKS_MAX):
        listing = EpochListing.of(await store.list_directory(partition_directory))
        try:
            return await _read_view(store, partition_directory, listing)
        except FileMissing:
            continue
    raise StorageUnavailable(f"{partition_directory} changes faster than it can be looked at")


async def _read_view(store: SegmentStore, partition_directory: str, listing: EpochListing) -> PartitionView:
    epochs = sorted(listing.open_epochs | listing.sealed_epochs, reverse=True)
    for epoch in epochs:
        paths = PartitionPaths(partition_directory, _NOBODY if epoch in listing.sealed_epochs else epoch)
        entries = await store.list_directory(paths.epoch(epoch))
        manifest = await newest_manifest(store, paths, epoch, entries)
        if manifest is not None:
            try:
                manifest = await with_filed_aborts(store, paths, manifest)
            except StateDamaged as error:
                if await _has_changed(store, paths.epoch(epoch), entries):
                    raise FileMissing(str(error)) from error
                raise
            closed = tuple(_of_extent(paths, extent) for extent in manifest.extents)
            return PartitionView(manifest, paths, closed + await _following(store, paths, manifest, entries))
    return PartitionView(None, PartitionPaths(partition_directory, _NOBODY))


async def _has_changed(store: SegmentStore, directory: str, entries: Iterable[FileStatus]) -> bool:
    """Whether the epoch's directory was sealed since, or has a newer manifest, so that `entries` may name deleted files."""
    try:
        now = await store.list_directory(directory)
    except FileMissing:
        return True
    return _newest_number(now) != _newest_number(entries)


def _newest_number(entries: Iterable[FileStatus]) -> int:
    return max((number for entry in entries if (number := parse_manifest(entry.name)) is not None), default=-1)


async def newest_manifest(
    store: SegmentStore, paths: PartitionPaths, epoch: int, entries: tuple[FileStatus, ...]
) -> Manifest | None:
    """The newest valid manifest among an epoch's files, without its files of aborted transactions; None: there is none.

    Raises CorruptManifest, StateDamaged, FileMissing, StorageUnavailable.
    """
    found = {n: entry for entry in entries if (n := parse_manifest(entry.name)) is not None}
    for number in sorted(found, reverse=True):
        name = manifest_name(number)
        path = paths.file(epoch, name)
        try:
            data = await store.read_file(path, length_bytes_max=MANIFEST_BYTES_MAX)
            return await run_in_turns(Manifest.decoding(data))
        except UnfinishedParts as error:
            _log.debug("manifest_not_used", path=path, reason=str(error))
        except CorruptFile as error:
            if found[number].is_open:
                continue
            await require_accepted(store, file_damage(paths.partition, epoch, name, reason_of(error)))
    if any(parse_segment(entry.name) is not None and entry.length_bytes for entry in entries):
        raise CorruptManifest(f"{paths.epoch(epoch)} holds records but no valid manifest")
    return None


def _of_extent(paths: PartitionPaths, extent: Extent) -> SegmentView:
    return SegmentView(
        path=paths.segment(extent.leader_epoch, extent.roll),
        leader_epoch=extent.leader_epoch,
        roll=extent.roll,
        file_id=extent.file_id,
        base_offset=extent.base_offset,
        end_offset=extent.end_offset,
        valid_bytes=extent.valid_bytes,
        file_bytes=extent.file_bytes,
        is_open=False,
    )


async def _following(
    store: SegmentStore, paths: PartitionPaths, manifest: Manifest, entries: tuple[FileStatus, ...]
) -> tuple[SegmentView, ...]:
    epoch, limits = manifest.leader_epoch, cuts_by_segment(manifest.cuts)
    rolls = sorted(roll for entry in entries if (roll := parse_segment(entry.name)) is not None)
    by_name = {entry.name: entry for entry in entries}
    views = []
    for roll in rolls:
        if roll < manifest.next_roll:
            continue
        entry = by_name[segment_name(roll)]
        path = paths.segment(epoch, roll)
        file_bytes = await store.visible_length(path) if entry.is_open else entry.length_bytes
        valid_bytes = min(file_bytes, limits.get((epoch, roll), file_bytes))
        base_offset, end_offset = None, None
        whole = Extent(epoch, roll, epoch, entry.file_id, file_bytes, 0, valid_bytes, 0, 0, -1)
        index = await load_index(store, paths, whole) if index_name(roll) in by_name and not entry.is_open else None
        if index is not None:
            base_offset, end_offset = index.summary.base_offset, index.summary.end_offset
        elif valid_bytes:
            base_offset = await _first_offset(store, path, entry.file_id, valid_bytes)
        views.append(
            SegmentView(
                path,
                epoch,
                roll,
                entry.file_id,
                base_offset,
                end_offset,
                valid_bytes,
                file_bytes,
                entry.is_open,
            )
        )
    return tuple(views)


async def _first_offset(store: SegmentStore, path: str, file_id: int, valid_bytes: int) -> int | None:
    reader = SegmentReader(store, path, file_id=file_id, position=0, valid_bytes=valid_bytes)
    try:
        run = await reader.next_run()
    except (BadBatch, CorruptFile):
        return None
    return run.batches[0][1].base_offset if run is not None else None


async def read_view(store: SegmentStore, view: PartitionView, from_offset: int) -> AsyncIterator[BatchRun]:
    """Whole, checked batches from the beginning of the segment that has `from_offset` on, up to the first gap.

    A bad batch ends an open segment. In one with an index it raises BadBatch or CorruptFile.
    """
    offset = None
    for segment in view.segments:
        if not segment.valid_bytes or (segment.end_offset is not None and segment.end_offset <= from_offset):
            continue
        if segment.base_offset is None or (offset is not None and segment.base_offset != offset):
            return
        reader = SegmentReader(
            store, segment.path, file_id=segment.file_id, position=0, valid_bytes=segment.valid_bytes
        )
        offset = segment.base_offset
        try:
            while (run := await reader.next_run()) is not None:
                offset = run.batches[-1][1].end_offset
                yield run
        except (BadBatch, CorruptFile) as error:
            _log.debug("log_ends", path=segment.path, offset=offset, reason=str(error))
            if segment.end_offset is not None:
                raise


async def locate_segments(store: SegmentStore, segments: Sequence[SegmentView]) -> list[tuple[str, ...]]:
    """For each segment, `host:port` of the nodes that hold it; () for one sealed or deleted since. Raises StoreError."""
    lookups = asyncio.Semaphore(LOOKUPS_MAX)

    async def nodes_of(segment: SegmentView) -> tuple[str, ...]:
        async with lookups:
            try:
                return await store.locate(segment.path)
            except FileMissing:
                return ()

    return await asyncio.gather(*(nodes_of(segment) for segment in segments))
