"""Finds compacted segments and runs that no manifest names: their owner ended, or lost its store, before it named them.
Segments that a merge replaced are found too: their owner ended before it deleted them.

An owner creates files only in its own directory, and its manifests name a file of a sealed directory only if the manifest that it
began with does. So a file of a sealed directory that this first manifest does not name is never named again: not by this owner,
not by a later one, which begins with a manifest of this one, and not by a fenced one, which writes no manifest any more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from bmq.log.manifest import Manifest
from bmq.log.names import (
    PartitionPaths,
    is_cleaned,
    may_have_gaps,
    parse_cleaned,
    parse_index,
    parse_rebuilt_index,
    parse_run,
)
from bmq.log.replacement import end_offset_of
from bmq.log.segment_index import INDEX_BYTES_MAX, CorruptIndex, SegmentIndex
from bmq.log.store import CorruptFile, FileMissing, SegmentStore
from bmq.log.timers.run_reference import RunReference


async def find_unnamed(store: SegmentStore, paths: PartitionPaths, manifest: Manifest) -> tuple[str, ...]:
    """Unnamed compacted or replaced segments, and their indexes, in sealed directories of which `manifest` names a file.

    `manifest`: a durable one of the owner of `paths`, or the next one. Other sealed directories are deleted as a whole.
    Raises StorageUnavailable.
    """
    found: list[str] = []
    named = {(extent.leader_epoch, extent.roll) for extent in manifest.extents}
    for epoch in sorted(manifest.epochs_named() - {paths.leader_epoch}):
        try:
            entries = await store.list_directory(paths.epoch(epoch))
        except FileMissing:
            continue  # it was deleted since, because no manifest names a file of it any more
        for entry in entries:
            segment = _segment_of(epoch, entry.name)
            if segment is not None and segment not in named:
                found.append(paths.file(epoch, entry.name))
        rolls = [roll for entry in entries if (roll := parse_index(entry.name)) is not None and not is_cleaned(roll)]
        found += await _replaced(store, paths, manifest, epoch, rolls)
    return tuple(found)


async def _replaced(
    store: SegmentStore, paths: PartitionPaths, manifest: Manifest, epoch: int, rolls: Sequence[int]
) -> list[str]:
    """Segments of these rolls, and their indexes, that are not named and have only offsets of merged segments.

    An index goes after its segment, so that one that is left says what is left. Raises StorageUnavailable.
    """
    merged = [extent for extent in manifest.extents if is_cleaned(extent.roll) and not may_have_gaps(extent.roll)]
    kept = {(extent.leader_epoch, extent.roll) for extent in manifest.extents}
    kept.update((cut.leader_epoch, cut.roll) for cut in manifest.cuts)
    found: list[str] = []
    for roll in rolls if merged else ():
        if (epoch, roll) in kept:
            continue
        path = paths.index(epoch, roll, epoch)
        try:
            summary = SegmentIndex.decode(await store.read_file(path, length_bytes_max=INDEX_BYTES_MAX)).summary
        except (FileMissing, CorruptFile, CorruptIndex):
            continue
        place = bisect_right(merged, summary.base_offset, key=end_offset_of)
        if place < len(merged) and merged[place].base_offset <= summary.base_offset < summary.end_offset <= (
            merged[place].end_offset
        ):
            found += (paths.segment(epoch, roll), path)
    return found


async def find_unnamed_runs(
    store: SegmentStore, paths: PartitionPaths, epochs: Iterable[int], named: Iterable[RunReference]
) -> tuple[str, ...]:
    """Runs in the sealed directories of `epochs` that are not `named`. Raises StorageUnavailable.

    `named`: the runs that the first manifest of the owner of `paths` names, which is durable; not those named later.
    """
    found: list[str] = []
    kept = {(run.leader_epoch, run.number) for run in named}
    for epoch in sorted(set(epochs) - {paths.leader_epoch}):
        try:
            entries = await store.list_directory(paths.epoch(epoch))
        except FileMissing:
            continue
        for entry in entries:
            number = parse_run(entry.name)
            if number is not None and (epoch, number) not in kept:
                found.append(paths.file(epoch, entry.name))
    return tuple(found)


def _segment_of(epoch: int, name: str) -> tuple[int, int] | None:
    """(leader epoch, roll) of the compacted segment that this file is, or is the index of; None for any other file."""
    roll = parse_cleaned(name)
    if roll is not None:
        return epoch, roll
    rebuilt = parse_rebuilt_index(name)
    return rebuilt if rebuilt is not None and is_cleaned(rebuilt[1]) else None
