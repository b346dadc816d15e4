"""Start: make the epoch's directory ours, seal the older ones, close what their owners left open (rules 1 and 3).

Every step may be tried again after StorageUnavailable: what happened although the reply was lost is found and accepted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bmq.log.names import EpochListing, PartitionPaths, open_name, parse_manifest, parse_owner, sealed_name
from bmq.log.store import AlreadyExists, FencedWriter, FileMissing, FileStatus, SegmentStore


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file of an older owner that was never closed. `holder` None: not one owner's name stands in its directory."""

    path: str
    holder: str | None


async def claim_directory(store: SegmentStore, paths: PartitionPaths, holder: str) -> EpochListing:
    """Make our directory, write our name into it, and only then look at the partition (rule 1).

    `holder` names this process incarnation. Raises FencedWriter when the epoch is, or was, somebody else's: whoever makes
    a name and then looks for others finds any that was made before, so of two claimers at most one passes.
    """
    try:
        await store.make_directory(paths.own)
    except FileMissing:
        await store.make_directories(paths.partition)
        await store.make_directory(paths.own)
    try:
        await _write_name(store, paths.owner(holder), holder)
        owners = owners_in(await store.list_directory(paths.own))
    except FileMissing as error:
        raise FencedWriter(f"{paths.own} was sealed while it was being claimed") from error
    if owners != {holder}:
        raise FencedWriter(f"{paths.own} belongs to another owner")
    return EpochListing.of(await store.list_directory(paths.partition))


async def _write_name(store: SegmentStore, path: str, holder: str) -> None:
    try:
        await store.write_file(path, b"", holder=holder)
    except AlreadyExists:
        # By an earlier try of ours, for nobody else has this name; it may have got stuck half-way.
        status = await store.status(path)
        if status is None or status.is_open:
            await store.delete(path)
            await store.write_file(path, b"", holder=holder)


def owners_in(entries: Iterable[FileStatus]) -> set[str]:
    """Whose names stand in an epoch's directory."""
    return {holder for entry in entries if (holder := parse_owner(entry.name)) is not None}


async def seal_directories(
    store: SegmentStore, paths: PartitionPaths, epochs: tuple[int, ...], leftovers: tuple[int, ...]
) -> None:
    """Rename `epochs` from their open to their sealed names; delete the open form of `leftovers`."""
    for epoch in leftovers:
        await store.delete(f"{paths.partition}/{open_name(epoch)}", recursive=True)
    for epoch in epochs:
        source, target = f"{paths.partition}/{open_name(epoch)}", f"{paths.partition}/{sealed_name(epoch)}"
        try:
            await store.rename(source, target)
        except AlreadyExists:
            # Sealed by its own owner or by another claimer since we looked, and made again by one that came too late.
            await store.delete(source, recursive=True)
        except FileMissing as error:
            # Renamed by an earlier try of ours, or by its own owner as its last act; anything else is news to us.
            if await store.status(target) is None:
                raise FencedWriter(f"{source} is gone") from error


async def find_open_files(
    store: SegmentStore, paths: PartitionPaths, older_epochs: tuple[int, ...], just_sealed: frozenset[int]
) -> tuple[OpenFile, ...]:
    """Every file that an older owner left open: empty ones and half-written indexes too (rule 3).

    `older_epochs` newest first. A manifest, even an unfinished one, is only ever begun when everything older is closed,
    so what lies behind the newest epoch with one needs no look, unless it was `just_sealed`.
    """
    found: list[OpenFile] = []
    is_rest_closed = False
    for epoch in older_epochs:
        if is_rest_closed and epoch not in just_sealed:
            continue
        directory = paths.epoch(epoch)
        try:
            entries = await store.list_directory(directory)
        except FileMissing:
            continue  # retention of a former owner deleted it
        left_open = [entry for entry in entries if entry.is_open and not entry.is_directory]
        if left_open:
            owners = owners_in(entries)
            holder = owners.pop() if len(owners) == 1 else None
            found += (OpenFile(f"{directory}/{entry.name}", holder) for entry in left_open)
        is_rest_closed |= any(parse_manifest(entry.name) is not None for entry in entries)
    return tuple(found)
