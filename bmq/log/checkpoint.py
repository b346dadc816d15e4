"""Finds the manifest that a partition's recovery starts from: the newest one, which must be whole (rule 25).

An older manifest may name files that were deleted since, and lacks later cuts and DeleteRecords. So it is used in two cases
only: the newer one was never finished, so no owner acted on it; or an operator accepted that the newer one is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import structlog

from bmq.dataclass import dataclass
from bmq.log.aborted_files import with_filed_aborts
from bmq.log.checksummed_parts import UnfinishedParts
from bmq.log.damage import file_damage, read_named_in_turns, reason_of, require_accepted
from bmq.log.manifest import MANIFEST_BYTES_MAX, Manifest
from bmq.log.names import (
    PartitionPaths,
    aborted_name,
    manifest_name,
    parse_manifest,
    parse_segment,
    run_name,
    segment_name,
    snapshot_name,
)
from bmq.log.store import CorruptFile, FileMissing, FileStatus, SegmentStore, StorageUnavailable

_log = structlog.get_logger("bmq.log")


@dataclass(frozen=True, slots=True)
class Directory:
    """An epoch's directory, as listed."""

    leader_epoch: int
    entries: tuple[FileStatus, ...]


class FilesLeftOpen(StorageUnavailable):
    """A sealed directory has open files. They must be closed (rule 3) before recovery is tried again."""

    def __init__(self, path: str, entries: tuple[FileStatus, ...]) -> None:
        names = ", ".join(entry.name for entry in entries if entry.is_open)
        super().__init__(f"{path} still has open files: {names}")
        self.path = path
        self.entries = entries


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where recovery starts. `manifest` None: no owner has finished one.

    `directories`: those with segments that follow the manifest, in order; more than one only if a loss was accepted.
    """

    manifest: Manifest | None
    directories: tuple[Directory, ...] = ()
    is_loss_accepted: bool = False


async def find_checkpoint(store: SegmentStore, paths: PartitionPaths, epochs: Sequence[int]) -> Checkpoint:
    """The checkpoint for the owner of `paths.leader_epoch`. `epochs`: all lower ones, newest first; their directories are sealed.

    Raises StateDamaged, StorageUnavailable, FilesLeftOpen.
    """
    following: list[Directory] = []
    is_loss_accepted = False
    for epoch in epochs:
        path = paths.epoch(epoch)
        try:
            entries = await store.list_directory(path)
        except FileMissing:
            continue
        if any(entry.is_open for entry in entries):
            raise FilesLeftOpen(path, entries)
        directory = Directory(epoch, entries)
        found = await _newest_manifest(store, paths, directory)
        is_loss_accepted |= found.is_loss_accepted
        if found.manifest is not None:
            manifest = await _without_lost_files(store, paths, found.manifest) if is_loss_accepted else found.manifest
            manifest = await with_filed_aborts(store, paths, manifest)
            return Checkpoint(manifest, (directory, *reversed(following)), is_loss_accepted)
        # An owner writes no records before its first manifest is durable, so an epoch without one has none.
        if any(parse_segment(entry.name) is not None and entry.length_bytes for entry in entries):
            if not found.is_loss_accepted:
                await require_accepted(
                    store, file_damage(paths.partition, epoch, "manifest", "is missing, and there are records")
                )
                is_loss_accepted = True
            following.append(directory)
    return Checkpoint(None, tuple(reversed(following)), is_loss_accepted)


async def _newest_manifest(store: SegmentStore, paths: PartitionPaths, directory: Directory) -> Checkpoint:
    """The newest manifest of the directory that may be used, if any. Raises StateDamaged, StorageUnavailable."""
    epoch = directory.leader_epoch
    unfinished: list[int] = []
    is_loss_accepted = False
    for number in _numbers(directory.entries):
        name = manifest_name(number)
        path = f"{paths.epoch(epoch)}/{name}"
        try:
            manifest = await read_named_in_turns(store, path, Manifest.decoding, length_bytes_max=MANIFEST_BYTES_MAX)
        except UnfinishedParts as error:
            _log.info("manifest_never_finished", path=path, reason=str(error))
            unfinished.append(number)
            continue
        except (FileMissing, CorruptFile) as error:
            reason = reason_of(error)
        else:
            if manifest.leader_epoch == epoch:
                if unfinished and not is_loss_accepted:
                    is_loss_accepted = await _is_newer_one_lost(store, paths, epoch, unfinished[0], manifest)
                return Checkpoint(manifest, is_loss_accepted=is_loss_accepted)
            reason = f"is damaged (it is of epoch {manifest.leader_epoch})"
        await require_accepted(store, file_damage(paths.partition, epoch, name, reason))
        is_loss_accepted = True
    return Checkpoint(None, is_loss_accepted=is_loss_accepted)


async def _is_newer_one_lost(
    store: SegmentStore, paths: PartitionPaths, epoch: int, newer_number: int, manifest: Manifest
) -> bool:
    """Whether the newer manifest, now cut short, was once whole. If files that the older one names are gone, it was.

    In that case an operator must have accepted the loss of the newer manifest. Raises StateDamaged otherwise.
    """
    missing = await _missing_files(store, paths, manifest)
    if not missing:
        return False
    reason = f"is cut short, and {min(missing)}, which the manifest before it names, is gone"
    await require_accepted(store, file_damage(paths.partition, epoch, manifest_name(newer_number), reason))
    return True


async def _without_lost_files(store: SegmentStore, paths: PartitionPaths, manifest: Manifest) -> Manifest:
    """The part of an older manifest that still exists: the extents behind the last one that is gone."""
    missing = await _missing_files(store, paths, manifest)
    gone = [paths.segment(extent.leader_epoch, extent.roll) in missing for extent in manifest.extents]
    extents = manifest.extents
    log_start_offset = manifest.log_start_offset
    if any(gone):
        first_kept = len(gone) - gone[::-1].index(True)
        log_start_offset = max(log_start_offset, extents[first_kept - 1].end_offset)
        extents = extents[first_kept:]
    snapshots = tuple(
        item for item in manifest.snapshots if paths.snapshot(item.leader_epoch, item.number) not in missing
    )
    timers = manifest.timers
    if timers is not None:
        runs = (run for run in timers.runs if paths.run(run.leader_epoch, run.number) not in missing)
        timers = replace(timers, runs=tuple(runs))
    return replace(
        manifest,
        extents=extents,
        snapshots=snapshots,
        timers=timers,
        log_start_offset=log_start_offset,
        producers=manifest.producers if extents or manifest.producers is not None else b"",
    )


async def _missing_files(store: SegmentStore, paths: PartitionPaths, manifest: Manifest) -> set[str]:
    """Paths of files that the manifest names and that do not exist: segments, snapshots, runs, aborted transactions."""
    there: dict[int, frozenset[str]] = {}
    for epoch in manifest.epochs_named():
        try:
            there[epoch] = frozenset(entry.name for entry in await store.list_directory(paths.epoch(epoch)))
        except FileMissing:
            there[epoch] = frozenset()
    segments = ((extent.leader_epoch, segment_name(extent.roll)) for extent in manifest.extents)
    snapshots = ((item.leader_epoch, snapshot_name(item.number)) for item in manifest.snapshots)
    aborted = ((item.leader_epoch, aborted_name(item.number)) for item in manifest.aborted_files)
    runs = () if manifest.timers is None else manifest.timers.runs
    named_runs = ((run.leader_epoch, run_name(run.number)) for run in runs)
    named = (*segments, *snapshots, *aborted, *named_runs)
    return {paths.file(epoch, name) for epoch, name in named if name not in there[epoch]}


def _numbers(entries: Iterable[FileStatus]) -> list[int]:
    """Numbers of the manifests, newest first."""
    return sorted((n for entry in entries if (n := parse_manifest(entry.name)) is not None), reverse=True)
