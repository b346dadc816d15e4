"""The file of a metadata backup: a line of JSON that describes it, and the records of its state. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from crc32c import crc32c

from bmq.dataclass import dataclass
from bmq.metadata.image import MetadataImage
from bmq.metadata.portable import portable_records
from bmq.metadata.state import MetadataState, encode_snapshot
from bmq.protocol.batch_records import decode_records
from bmq.protocol.errors import BmqError
from bmq.protocol.metadata_records import MetadataRecord, decode_record
from bmq.protocol.record_batch import batches

FORMAT: Final = "bmq-metadata-backup"
FORMAT_VERSION: Final = 1
BYTES_MAX: Final = 512 * 1024 * 1024
_NOBODY: Final = -1


class BackupUnusable(BmqError):
    """The file is no backup, is damaged, or is of a later release. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class MetadataBackup:
    """`cluster_id`: the cluster it was made of. `metadata_offset`: the end of the metadata log then. `made_ms`: when that was."""

    cluster_id: str
    metadata_offset: int
    made_ms: int
    records: tuple[MetadataRecord, ...]

    def image(self) -> MetadataImage:
        """What a cluster with these records has. Raises ImpossibleRecord."""
        state = MetadataState(self.cluster_id, _NOBODY, {})
        for record in self.records:
            state.replay(record)
        return state.image_at(len(self.records))


def backup_of(state: MetadataState, cluster_id: str, metadata_offset: int, now_ms: int) -> MetadataBackup:
    """A backup of the part of the state that another cluster can take over."""
    return MetadataBackup(cluster_id, metadata_offset, now_ms, tuple(portable_records(state)))


def encode_backup(backup: MetadataBackup) -> bytes:
    content = encode_snapshot(backup.records)
    head = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "cluster_id": backup.cluster_id,
        "metadata_offset": backup.metadata_offset,
        "made_ms": backup.made_ms,
        "length_bytes": len(content),
        "crc32c": crc32c(content),
    }
    return json.dumps(head).encode() + b"\n" + content


def decode_backup(data: bytes) -> MetadataBackup:
    """Raises BackupUnusable, also when its records do not follow each other."""
    line, _, content = data.partition(b"\n")
    try:
        head = json.loads(line)
        is_backup = head["format"] == FORMAT
        version, length_bytes, crc = int(head["format_version"]), int(head["length_bytes"]), int(head["crc32c"])
        about = (str(head["cluster_id"]), int(head["metadata_offset"]), int(head["made_ms"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        is_backup = False
    if not is_backup:
        raise BackupUnusable("it is no backup of metadata that `bmq metadata backup` made")
    if version > FORMAT_VERSION:
        raise BackupUnusable(f"it has format {version}, of a later release; this one reads up to {FORMAT_VERSION}")
    if len(content) != length_bytes or crc32c(content) != crc:
        raise BackupUnusable(f"it is damaged: {length_bytes} bytes were written, {len(content)} are there")
    try:
        backup = MetadataBackup(*about, tuple(_records(content)))
        backup.image()
    except BmqError as error:
        raise BackupUnusable(f"its records cannot be read: {error}") from error
    return backup


def _records(content: bytes) -> Iterable[MetadataRecord]:
    for position, _ in batches(content):
        for record in decode_records(content, position):
            yield decode_record(record.value or b"")
