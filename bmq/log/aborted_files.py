"""Files of aborted transactions: a manifest names them for those that it has no room for.

An aborted transaction is remembered as long as its log, so there may be millions, and each manifest would be written with
all of them. The oldest are written once, into files that later manifests, and those of later owners, name again. A file
changes only by being replaced: when compaction drops the marker of a transaction in it.

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
    """A file of aborted transactions that is not whole, or not the one that the manifest names."""


def encode_file(aborted: AbortedTransactions) -> bytes:
    """At most FILE_ENTRIES_MAX of them."""
    return encode_parts(_MAGIC, {b"abrt": aborted.encode()})


def decode_file(data: Buffer, file: AbortedFile) -> AbortedTransactions:
    """Raises CorruptAbortedFile."""
    parts = decode_parts(_MAGIC, data, _PARTS, CorruptAbortedFile)
    aborted = AbortedTransactions.decode(parts[b"abrt"], CorruptAbortedFile)
    found = (len(aborted), aborted.first_marker, aborted.last_marker) if len(aborted) else (0, 0, 0)
    if found != (file.count, file.first_marker, file.last_marker):
        raise CorruptAbortedFile(f"it holds {len(aborted)} aborted transactions, and not those the manifest says")
    return aborted


async def with_filed_aborts(store: SegmentStore, paths: PartitionPaths, manifest: Manifest) -> Manifest:
    """The manifest with all its aborted transactions in `aborted`.

    Without a file readers of committed records would get what was aborted, so it is never left out in silence (rule 25);
    once an operator accepted that, `aborted_files` does not name it any more. Raises StateDamaged, StorageUnavailable.
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
