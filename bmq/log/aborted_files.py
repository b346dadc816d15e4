"""Files of aborted transactions, which a manifest names instead of listing them all.

An aborted transaction is remembered as long as its part of the log, so there may be millions, too many to write into each
manifest. The oldest are written once, into files that all later manifests name, also those of later owners. A file never changes;
it is replaced when compaction drops the marker of a transaction in it.

The file is a container with one checksummed part:
    abrt  the table, as in a manifest
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from bmq.log.aborted_transactions import ENTRY_BYTES, AbortedTransactions
from bmq.log.checksummed_parts import CorruptParts, decode_parts, encode_parts
from bmq.log.damage import file_damage, read_named, reason_of, require_accepted
from bmq.log.manifest import AbortedFile, Manifest
from bmq.log.names import PartitionPaths, aborted_name
from bmq.log.store import Buffer, CorruptFile, FileMissing, SegmentStore

FILE_ENTRIES_MAX: Final = 65_536
"""Transactions in a file: 2 MiB. A manifest has fewer than this beside those in its files."""
FILE_BYTES_MAX: Final = FILE_ENTRIES_MAX * ENTRY_BYTES + 1024
_MAGIC: Final = b"BMQABRT1"
_PARTS: Final = (b"abrt",)


class CorruptAbortedFile(CorruptParts):
    """A file of aborted transactions that is not whole, or is not the one that the manifest names."""


def encode_file(aborted: AbortedTransactions) -> bytes:
    """The file's bytes. `aborted` has at most FILE_ENTRIES_MAX transactions."""
    return encode_parts(_MAGIC, {b"abrt": aborted.encode()})


def decode_file(data: Buffer, file: AbortedFile) -> AbortedTransactions:
    """The transactions in the file that the manifest names as `file`. Raises CorruptAbortedFile."""
    parts = decode_parts(_MAGIC, data, _PARTS, CorruptAbortedFile)
    aborted = AbortedTransactions.decode(parts[b"abrt"], CorruptAbortedFile)
    found = (len(aborted), aborted.first_marker, aborted.last_marker) if len(aborted) else (0, 0, 0)
    if found != (file.count, file.first_marker, file.last_marker):
        raise CorruptAbortedFile(f"it holds {len(aborted)} aborted transactions, not those that the manifest names")
    return aborted


async def with_filed_aborts(store: SegmentStore, paths: PartitionPaths, manifest: Manifest) -> Manifest:
    """The manifest with all its aborted transactions read into `aborted`.

    Without one of the files, readers of committed records would get aborted ones, so a lost file is never ignored silently (rule
    25). Once an operator has accepted the loss, `aborted_files` no longer names it. Raises StateDamaged, StorageUnavailable.
    """
    if not manifest.aborted_files:
        return manifest
    aborted, files = AbortedTransactions(), []
    for file in manifest.aborted_files:
        path = paths.aborted(file.leader_epoch, file.number)
        try:
            part = await read_named(store, path, partial(decode_file, file=file), length_bytes_max=FILE_BYTES_MAX)
        except (FileMissing, CorruptFile) as error:
            name = aborted_name(file.number)
            await require_accepted(store, file_damage(paths.partition, file.leader_epoch, name, reason_of(error)))
            continue
        aborted.extend(part)
        files.append(file)
    aborted.extend(manifest.aborted)
    return replace(manifest, aborted=aborted, aborted_files=tuple(files))
