"""Reports the damage of a partition, and the log that would be left if it were accepted, by a recovery that only reads.

It is for an operator who has to decide (rule 25). It runs the recovery of an owner's start over the directory as it is, treats
every loss as accepted, and reports these losses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from bmq.dataclass import dataclass
from bmq.log.damage import ACCEPTED_PREFIX, Damage, StateDamaged
from bmq.log.index_cache import IndexCache
from bmq.log.names import EpochListing, PartitionPaths, open_name, parse_manifest
from bmq.log.partition_files import PartitionFiles
from bmq.log.partition_log import StateSnapshot
from bmq.log.recovery import recover_log
from bmq.log.store import FileMissing, FileStatus, SegmentStore

_INTERVAL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class DamageReport:
    """The damages that are not accepted yet. If they were, the log would have the offsets [log_start_offset, end_offset).

    `snapshot`: the one that a state machine would start from; it is searched only with `is_state`. The records behind it begin at
    `log_start_offset` at the earliest.
    """

    damages: tuple[Damage, ...]
    log_start_offset: int
    end_offset: int
    snapshot: StateSnapshot | None
    files: PartitionFiles


async def report_damage(store: SegmentStore, partition: str, *, is_state: bool) -> DamageReport:
    """Examine a partition's directory. `is_state`: it has a state machine's log (metadata, groups), so snapshots count.

    Raises FileMissing (no such partition), CorruptFile, StorageUnavailable.
    """
    listing = EpochListing.of(await store.list_directory(partition))
    epochs = listing.open_epochs | listing.sealed_epochs
    newest = max(epochs, default=0)
    paths = _PathsAsTheyAre(partition, newest + 1, listing.open_epochs - listing.sealed_epochs)
    onlooker = _HypotheticalStore(store)
    damages: list[Damage] = []
    while True:
        try:
            recovered = await recover_log(
                onlooker.as_store(), paths, tuple(epochs), index_interval_bytes=_INTERVAL_BYTES, now_ms=0
            )
            files = PartitionFiles(
                onlooker.as_store(),
                paths,
                recovered,
                holder="",
                indexes=IndexCache(),
                index_interval_bytes=_INTERVAL_BYTES,
                verify_claim=_nothing_to_prove,
            )
            snapshot = await files.latest_snapshot(recovered.end_offset) if is_state else None
        except StateDamaged as error:
            if error.damage in damages:
                raise
            damages.append(error.damage)
            onlooker.accepted.add(error.damage.acceptance)
        else:
            return DamageReport(tuple(damages), recovered.log_start_offset, recovered.end_offset, snapshot, files)


async def _nothing_to_prove() -> None:
    """The report writes no manifest, so it needs no proof of ownership."""


async def accepted_losses(store: SegmentStore, partition: str) -> tuple[str, ...]:
    """Names of the losses that were accepted for this partition. Raises FileMissing, StorageUnavailable."""
    entries = await store.list_directory(partition)
    return tuple(
        entry.name.removeprefix(ACCEPTED_PREFIX) for entry in entries if entry.name.startswith(ACCEPTED_PREFIX)
    )


@dataclass(frozen=True, slots=True)
class _PathsAsTheyAre(PartitionPaths):
    """Paths of directories that this process has not sealed: the epoch that writes, or wrote last, may still be `.open`."""

    open_epochs: frozenset[int]

    def epoch(self, leader_epoch: int) -> str:
        if leader_epoch in self.open_epochs:
            return f"{self.partition}/{open_name(leader_epoch)}"
        return PartitionPaths.epoch(self, leader_epoch)


class _HypotheticalStore:
    """A view of a store in which the losses `accepted` count as accepted, and open files as closed at their visible length.

    Manifests that are being written are hidden.
    """

    def __init__(self, store: SegmentStore) -> None:
        self.accepted: set[str] = set()
        self._store = store

    def as_store(self) -> SegmentStore:
        return cast(SegmentStore, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def status(self, path: str) -> FileStatus | None:
        if path in self.accepted:
            return FileStatus(path, is_directory=False, length_bytes=0, file_id=0, is_open=False)
        return await self._store.status(path)

    async def list_directory(self, path: str) -> tuple[FileStatus, ...]:
        shown = []
        for entry in await self._store.list_directory(path):
            if not entry.is_open or entry.is_directory:
                shown.append(entry)
            elif parse_manifest(entry.name) is None:
                try:
                    length_bytes = await self._store.visible_length(f"{path}/{entry.name}")
                except FileMissing:
                    continue
                shown.append(replace(entry, is_open=False, length_bytes=length_bytes))
        return tuple(shown)
