"""Makes a root servable that was copied file by file: manifests and indexes name files by ids, and copies have other ones.

Every server has to be stopped in order before the copy, so that each partition's directory is sealed. A copy that lacks a file
that a manifest names, or has one of another length, is refused before anything is changed in its partition. Repeating it changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Final

from bmq.dataclass import dataclass
from bmq.log.manifest import Manifest
from bmq.log.names import (
    TOPICS_DIRECTORY,
    EpochListing,
    PartitionPaths,
    aborted_name,
    manifest_name,
    parse_index,
    parse_manifest,
    parse_rebuilt_index,
    run_name,
    segment_name,
    snapshot_name,
)
from bmq.log.partition_view import newest_manifest
from bmq.log.segment_index import INDEX_BYTES_MAX, CorruptIndex, SegmentIndex
from bmq.log.store import CorruptFile, FileStatus, SegmentStore, StoreError
from bmq.log.timers.run_reference import RunReference

_NOBODY: Final = -1

Epochs = Mapping[int, Mapping[str, FileStatus]]
"""The files of a partition by leader epoch and name."""


class CopyUnusable(StoreError):
    """The copy is not whole, or was made while a server ran. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class AdoptedPartition:
    """How many files of a partition have got new ids in its manifest, and how many indexes were written anew."""

    directory: str
    files: int
    indexes: int


async def adopt_root(store: SegmentStore, *, holder: str) -> AsyncIterator[AdoptedPartition]:
    """Adopt every partition of a root. Raises CopyUnusable, CorruptFile, StateDamaged, StorageUnavailable."""
    for topic in await store.list_directory(TOPICS_DIRECTORY):
        for partition in await store.list_directory(f"{TOPICS_DIRECTORY}/{topic.name}"):
            if partition.is_directory:
                yield await adopt_partition(store, f"{TOPICS_DIRECTORY}/{topic.name}/{partition.name}", holder=holder)


async def adopt_partition(store: SegmentStore, directory: str, *, holder: str) -> AdoptedPartition:
    """Name the files of a copied partition by their own ids. Raises as `adopt_root`."""
    listing = EpochListing.of(await store.list_directory(directory))
    if listing.open_epochs:
        raise CopyUnusable(
            f"{directory} was being written when it was copied: stop all servers with SIGTERM, and copy the root again"
        )
    paths = PartitionPaths(directory, _NOBODY)
    epochs = {
        epoch: {entry.name: entry for entry in await store.list_directory(paths.epoch(epoch))}
        for epoch in listing.sealed_epochs
    }
    for epoch in sorted(epochs, reverse=True):
        manifest = await newest_manifest(store, paths, epoch, tuple(epochs[epoch].values()))
        if manifest is not None:
            break
    else:
        return AdoptedPartition(directory, 0, 0)
    _require_whole(paths, epochs, manifest)
    adopted = _with_ids_of(epochs, manifest)
    indexes = await _adopt_indexes(store, paths, epochs, holder)
    if adopted == manifest:
        return AdoptedPartition(directory, 0, indexes)
    number = 1 + max(number for name in epochs[epoch] if (number := parse_manifest(name)) is not None)
    await store.write_file(paths.file(epoch, manifest_name(number)), adopted.encode(), holder=holder)
    return AdoptedPartition(directory, len(adopted.extents) + len(_runs(adopted)), indexes)


def _require_whole(paths: PartitionPaths, epochs: Epochs, manifest: Manifest) -> None:
    """Raises CopyUnusable unless each file that the manifest names is there, closed, with its length."""
    newest = sorted(manifest.snapshots, key=lambda snapshot: snapshot.next_offset)[-1:]
    wanted: list[tuple[int, str, int | None]] = [
        *((extent.leader_epoch, segment_name(extent.roll), extent.file_bytes) for extent in manifest.extents),
        *((snapshot.leader_epoch, snapshot_name(snapshot.number), snapshot.length) for snapshot in newest),
        *((run.leader_epoch, run_name(run.number), run.length) for run in _runs(manifest)),
        *((file.leader_epoch, aborted_name(file.number), None) for file in manifest.aborted_files),
    ]
    for epoch, name, length_bytes in wanted:
        entry = epochs.get(epoch, {}).get(name)
        path = paths.file(epoch, name)
        if entry is None:
            raise CopyUnusable(f"the copy lacks {path}")
        if entry.is_open or length_bytes not in (None, entry.length_bytes):
            raise CopyUnusable(f"the copy of {path} has {entry.length_bytes} bytes, and {length_bytes} were written")


def _runs(manifest: Manifest) -> tuple[RunReference, ...]:
    return () if manifest.timers is None else manifest.timers.runs


def _with_ids_of(epochs: Epochs, manifest: Manifest) -> Manifest:
    extents = tuple(
        replace(extent, file_id=epochs[extent.leader_epoch][segment_name(extent.roll)].file_id)
        for extent in manifest.extents
    )
    timers = manifest.timers
    if timers is not None:
        runs = tuple(
            replace(run, file_id=epochs[run.leader_epoch][run_name(run.number)].file_id) for run in timers.runs
        )
        timers = replace(timers, runs=runs)
    return replace(manifest, extents=extents, timers=timers)


async def _adopt_indexes(store: SegmentStore, paths: PartitionPaths, epochs: Epochs, holder: str) -> int:
    """An index that cannot be read is left: its segment's next owner makes it anew."""
    count = 0
    for epoch, entries in epochs.items():
        for name in entries:
            segment = parse_rebuilt_index(name)
            if segment is None:
                roll = parse_index(name)
                if roll is None:
                    continue
                segment = (epoch, roll)
            status = epochs.get(segment[0], {}).get(segment_name(segment[1]))
            if status is not None:
                count += await _adopt_index(store, paths.file(epoch, name), status, holder)
    return count


async def _adopt_index(store: SegmentStore, path: str, segment: FileStatus, holder: str) -> bool:
    try:
        index = SegmentIndex.decode(await store.read_file(path, length_bytes_max=INDEX_BYTES_MAX))
    except (CorruptFile, CorruptIndex):
        return False
    if index.summary.file_id == segment.file_id or index.summary.closed_bytes != segment.length_bytes:
        return False
    adopted = replace(index, summary=replace(index.summary, file_id=segment.file_id))
    await store.delete(path)
    await store.write_file(path, adopted.encode(), holder=holder)
    return True
