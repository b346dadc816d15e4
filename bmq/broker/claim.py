"""Start: claim the epoch's directory, seal older ones, close files their owners left open (rules 1, 3, 20 and 24).

A step whose outcome is unknown (StorageUnavailable) may be called again. A second call can meet:

mkdirs      It may find the directory of the first call, or make a new one after a newer owner renamed ours away. In the
            second case the listing shows the newer epoch and the claim fails. The first call may also be carried out
            long after the claim: the directory it makes has another file id than the one we keep, so no look passes.
owner file  Its name is unique to this process, and nobody deletes it. A second call that finds it there has succeeded. It
            may stay open; the next owner closes it. In a start's first call it proves an earlier start at this epoch.
rename      The target is an epoch that is sealed for good. A late rename finds it sealed, or seals it.
delete      A leftover stands beside its sealed directory, so nobody owns it, now or later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bmq.dataclass import dataclass
from bmq.log.names import (
    EpochListing,
    PartitionPaths,
    is_delegated,
    open_name,
    parse_index,
    parse_manifest,
    parse_owner,
    parse_segment,
    sealed_name,
)
from bmq.log.store import AlreadyExists, FencedWriter, FileMissing, FileStatus, SegmentStore


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file of an older owner that was never closed, or, with hsync, that may not have been synced.

    `holder` None: its directory does not name exactly one owner.
    """

    path: str
    holder: str | None


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What older owners left in directories that were looked at.

    `delegated`: directories of delegated compactions. No manifest names anything in them, so files that are open
    there do not matter.
    """

    open_files: tuple[OpenFile, ...]
    delegated: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """`directory_id`: the file id of our directory, which every later look compares (rule 20)."""

    listing: EpochListing
    directory_id: int


async def claim_directory(
    store: SegmentStore, paths: PartitionPaths, holder: str, *, is_repeated: bool = False
) -> Claim:
    """Make our directory, write our name into it, and only then look at the partition (rule 1).

    `holder` names this process incarnation. `is_repeated`: this start called it before and does not know the outcome.
    Raises FencedWriter when the epoch is, or was, somebody else's: every claimer writes its name and then looks for others,
    so of two claimers at most one passes. Also when an earlier start of this process has used the epoch (rule 24): its
    calls may still be under way, and its segments may hold acknowledged batches.
    """
    try:
        await store.make_directory(paths.own)
    except FileMissing:
        await store.make_directories(paths.partition)
        await store.make_directory(paths.own)
    try:
        try:
            await store.write_file(paths.owner(holder), b"", holder=holder)
        except AlreadyExists:
            if not is_repeated:
                raise FencedWriter(f"{paths.own} was claimed by an earlier start of this process") from None
        entries = await store.list_directory(paths.own)
    except FileMissing as error:
        raise FencedWriter(f"{paths.own} was sealed while it was being claimed") from error
    if owners_in(entries) != {holder}:
        raise FencedWriter(f"{paths.own} belongs to another owner")
    if any(parse_owner(entry.name) is None for entry in entries):
        raise FencedWriter(f"{paths.own} was already started")
    listed = await store.list_directory(paths.partition)
    name = open_name(paths.leader_epoch)
    directory_id = next((entry.file_id for entry in listed if entry.name == name), None)
    if directory_id is None:
        raise FencedWriter(f"{paths.own} was sealed while it was being claimed")
    # The listing shows no newer epoch, or the state machine stops here. So nobody has renamed the directory that holds
    # our name, and this is its id.
    return Claim(EpochListing.of(listed), directory_id)


def owners_in(entries: Iterable[FileStatus]) -> set[str]:
    """The holders named by the owner files in an epoch's directory."""
    return {holder for entry in entries if (holder := parse_owner(entry.name)) is not None}


async def fence_older_owners(
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
            # Its own owner or another claimer has sealed it since we looked, and a late claimer has made it again.
            await store.delete(source, recursive=True)
        except FileMissing as error:
            # An earlier try of ours or its own owner has renamed it; if there is no sealed directory, we are fenced.
            if await store.status(target) is None:
                raise FencedWriter(f"{source} is gone") from error


async def find_open_files(
    store: SegmentStore,
    paths: PartitionPaths,
    older_epochs: tuple[int, ...],
    just_sealed: frozenset[int],
    *,
    is_synced: bool = False,
) -> Leftovers:
    """Every file that an older owner left open: empty ones and half-written indexes too (rule 3).

    `older_epochs`: newest first. An owner begins its manifest only once every older file it found is closed, so epochs
    older than the newest one with a manifest (even an unfinished one) are skipped, unless `just_sealed`. A directory
    made after that owner's listing holds at most an owner file, because its claim was fenced. That file may still be
    open; the walk, which continues past an unfinished manifest, then raises FilesLeftOpen and the file is closed.

    `is_synced`: what an owner serves has to be on disk first (rule 26). An owner that died between closing a file and
    writing its manifest may not have synced the file, so closed segments without an index are returned too (an index is
    only written for a segment that is on disk).
    """
    found: list[OpenFile] = []
    orphans: list[str] = []
    is_rest_closed = False
    for epoch in older_epochs:
        if is_rest_closed and epoch not in just_sealed:
            continue
        directory = paths.epoch(epoch)
        try:
            entries = await store.list_directory(directory)
        except FileMissing:
            continue  # a former owner's retention deleted it
        found += open_files_in(directory, entries)
        if is_synced:
            holder = _holder_in(entries)
            indexed = {parse_index(entry.name) for entry in entries if not entry.is_open}
            found += (
                OpenFile(f"{directory}/{entry.name}", holder)
                for entry in entries
                if not entry.is_open
                and entry.length_bytes
                and (roll := parse_segment(entry.name)) is not None
                and roll not in indexed
            )
        is_rest_closed |= any(parse_manifest(entry.name) is not None for entry in entries)
        orphans += (f"{directory}/{entry.name}" for entry in entries if is_delegated(entry))
    return Leftovers(tuple(found), tuple(orphans))


def open_files_in(directory: str, entries: Sequence[FileStatus]) -> list[OpenFile]:
    """The open files in a sealed directory's listing."""
    holder = _holder_in(entries)
    return [OpenFile(f"{directory}/{entry.name}", holder) for entry in entries if entry.is_open]


def _holder_in(entries: Iterable[FileStatus]) -> str | None:
    owners = owners_in(entries)
    return owners.pop() if len(owners) == 1 else None
