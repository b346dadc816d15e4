"""Performs the first effects of a partition's machine: claim, seal, close, walk, record. The machine decides the order.

Each method does one effect once and returns the event that reports it. The caller retries when the store does not
answer; every step picks up what an earlier try has done.
"""

from __future__ import annotations

from dataclasses import field

from bmq.broker.claim import OpenFile, claim_directory, fence_older_owners, find_open_files, open_files_in
from bmq.broker.context import BrokerContext
from bmq.broker.own_directory import OwnDirectory
from bmq.broker.partition_events import (
    CloseFile,
    DirectoriesSealed,
    DirectoryClaimed,
    FileClosed,
    LogWalked,
    ManifestWritten,
    SealDirectories,
)
from bmq.dataclass import dataclass
from bmq.log.checkpoint import FilesLeftOpen
from bmq.log.names import EpochListing, PartitionPaths
from bmq.log.partition_files import PartitionFiles
from bmq.log.recovery import RecoveredLog, recover_log
from bmq.log.store import Durability, FileMissing


@dataclass(slots=True)
class Start:
    """The findings of one start so far. `files` is set once the log was walked.

    `orphans`: directories of compactions that an older owner had delegated.
    """

    context: BrokerContext
    paths: PartitionPaths
    directory: OwnDirectory
    index_interval_bytes: int
    has_claim_begun: bool = False
    listing: EpochListing = field(default_factory=lambda: EpochListing(frozenset(), frozenset()))
    open_files: dict[str, OpenFile] = field(default_factory=dict)
    orphans: tuple[str, ...] = ()
    recovered: RecoveredLog | None = None
    files: PartitionFiles | None = None
    durability: Durability = Durability.HFLUSH

    async def claim(self) -> DirectoryClaimed:
        is_repeated, self.has_claim_begun = self.has_claim_begun, True
        store, holder = self.context.store, self.context.holder
        claim = await claim_directory(store, self.paths, holder, is_repeated=is_repeated)
        self.listing, self.directory.file_id = claim.listing, claim.directory_id
        return DirectoryClaimed(self.listing.open_epochs, self.listing.sealed_epochs)

    async def seal(self, effect: SealDirectories) -> DirectoriesSealed:
        store, paths = self.context.store, self.paths
        await fence_older_owners(store, paths, effect.epochs, effect.leftovers)
        older = self.listing.older_epochs(paths.leader_epoch)
        found = await find_open_files(
            store, paths, older, frozenset(effect.epochs), is_synced=self.durability is Durability.HSYNC
        )
        self.open_files = {file.path: file for file in found.open_files}
        self.orphans = found.delegated
        return DirectoriesSealed(frozenset(self.open_files))

    async def close(self, effect: CloseFile) -> FileClosed:
        await self._close(self.open_files[effect.file])
        return FileClosed(effect.file)

    async def _close(self, file: OpenFile) -> None:
        try:
            await self.context.store.take_over(file.path, previous_holder=file.holder, durability=self.durability)
        except FileMissing:
            pass  # deleted by a former owner's retention, so nothing counts on it
        self.context.counts.takeovers += 1

    async def walk(self) -> LogWalked:
        """Raises FilesLeftOpen after closing open files that were not found before: then the next try passes."""
        try:
            self.recovered = recovered = await recover_log(
                self.context.store,
                self.paths,
                self.listing.older_epochs(self.paths.leader_epoch),
                index_interval_bytes=self.index_interval_bytes,
                now_ms=self.context.clock.now_ms(),
            )
        except FilesLeftOpen as error:
            for file in open_files_in(error.path, error.entries):
                self.open_files[file.path] = file
                await self._close(file)
            raise
        self.files = PartitionFiles(
            self.context.store,
            self.paths,
            recovered,
            holder=self.context.holder,
            indexes=self.context.indexes,
            index_interval_bytes=self.index_interval_bytes,
            verify_claim=self.directory.verify_claim,
        )
        return LogWalked(recovered.end_offset, is_indexed=not recovered.rebuilt)

    async def record(self) -> ManifestWritten:
        assert self.files is not None
        await self.files.write_manifest()
        return ManifestWritten()
