"""Start: make the epoch's directory ours, seal the older ones, close what their owners left open (rules 1 and 3).

Every step may be tried again after StorageUnavailable: what happened although the reply was lost is found and accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bmq.log.names import EpochListing, PartitionPaths, open_name, parse_manifest, sealed_name
from bmq.log.store import AlreadyExists, CorruptFile, FencedWriter, FileMissing, SegmentStore

OWNER_BYTES_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file of an older owner that was never closed. `holder` None: the owner file is missing or empty."""

    path: str
    holder: str | None


async def claim_directory(store: SegmentStore, paths: PartitionPaths, holder: str, *, is_retry: bool) -> EpochListing:
    """Make our directory once, write our name into it, and only then look at the partition (rule 1).

    `holder` names this process incarnation; `is_retry`: an earlier try of ours may have come half-way. Raises
    FencedWriter when the epoch is, or was, somebody else's.
    """
    try:
        await store.make_directory(paths.own)
    except FileMissing:
        await store.make_directories(paths.partition)
        await store.make_directory(paths.own)
    owner_path = paths.owner(paths.leader_epoch)
    try:
        await store.write_file(owner_path, holder.encode(), holder=holder)
    except AlreadyExists as error:
        # Ours, if the reply to an earlier try was lost. Epochs are never used twice, so anybody else's ends us.
        owner = await read_owner(store, owner_path)
        if owner is None and is_retry:
            await store.delete(owner_path)
            await store.write_file(owner_path, holder.encode(), holder=holder)
        elif owner != holder:
            raise FencedWriter(f"{paths.own} belongs to another owner") from error
    except FileMissing as error:
        raise FencedWriter(f"{paths.own} was sealed while it was being claimed") from error
    return EpochListing.of(await store.list_directory(paths.partition))


async def read_owner(store: SegmentStore, path: str) -> str | None:
    """The name in an owner file; None when there is none, or it was never finished."""
    try:
        name = await store.read_file(path, length_bytes_max=OWNER_BYTES_MAX)
    except (FileMissing, CorruptFile):
        return None
    return name.decode("utf-8", "replace") or None


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
            holder = await read_owner(store, paths.owner(epoch))
            found += (OpenFile(f"{directory}/{entry.name}", holder) for entry in left_open)
        is_rest_closed |= any(parse_manifest(entry.name) is not None for entry in entries)
    return tuple(found)
