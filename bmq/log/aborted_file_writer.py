"""Writes files of aborted transactions that a manifest has no room for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count

from bmq.log.aborted_files import FILE_ENTRIES_MAX, encode_file
from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.manifest import (
    AbortedFile,
    Manifest,
)
from bmq.log.names import PartitionPaths
from bmq.log.store import (
    AlreadyExists,
    CorruptFile,
    FencedWriter,
    FileMissing,
    SegmentStore,
)


class AbortedFileWriter:
    """Writes such files for one leader epoch. Each file number is tried once (rule 21)."""

    def __init__(self, store: SegmentStore, paths: PartitionPaths, holder: str) -> None:
        self._store = store
        self._paths = paths
        self._holder = holder
        self._numbers = count()
        self._written: dict[AbortedFile, None] = {}  # written files that the newest manifest does not name

    def named(self, files: Iterable[AbortedFile]) -> None:
        """Note that the newest manifest, now durable, names these files."""
        for file in files:
            self._written.pop(file, None)

    def take_unnamed(self) -> tuple[AbortedFile, ...]:
        """The written files that no manifest names, which may be deleted. Each is returned once."""
        unnamed = tuple(self._written)
        self._written.clear()
        return unnamed

    async def without(
        self, files: tuple[AbortedFile, ...], dropped_aborts: Sequence[int], aborted: AbortedTransactions
    ) -> tuple[AbortedFile, ...]:
        """The files without the transactions whose markers were at `dropped_aborts`; files that had one are written anew."""
        changed: list[AbortedFile] = []
        for file in files:
            gone = [offset for offset in dropped_aborts if file.first_marker <= offset <= file.last_marker]
            if not gone:
                changed.append(file)
                continue
            left = aborted.between(file.first_marker, file.last_marker + 1)
            for offset in gone:
                left.remove(offset)
            if len(left):
                changed.append(await self._write(left))
        return tuple(changed)

    async def with_room(self, manifest: Manifest) -> Manifest:
        """The manifest, with its oldest aborted transactions moved to files if it has FILE_ENTRIES_MAX or more."""
        files, aborted, filed = [*manifest.aborted_files], manifest.aborted, 0
        while len(aborted) - filed >= FILE_ENTRIES_MAX:
            files.append(await self._write(aborted.part(filed, filed + FILE_ENTRIES_MAX)))
            filed += FILE_ENTRIES_MAX
        if not filed:
            return manifest
        return replace(manifest, aborted=aborted.part(filed, len(aborted)), aborted_files=tuple(files))

    async def _write(self, aborted: AbortedTransactions) -> AbortedFile:
        """Write these transactions durably to a new file, which no manifest names yet. Raises FencedWriter, StoreError."""
        epoch, number = self._paths.leader_epoch, next(self._numbers)
        try:
            await self._store.write_file(self._paths.aborted(epoch, number), encode_file(aborted), holder=self._holder)
        except FileMissing as error:
            raise FencedWriter(f"{self._paths.own} is gone") from error
        except AlreadyExists as error:
            raise CorruptFile(f"{self._paths.aborted(epoch, number)} exists already") from error
        file = AbortedFile(epoch, number, len(aborted), aborted.first_marker, aborted.last_marker)
        self._written[file] = None
        return file
