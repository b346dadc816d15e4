"""One batch with some of its records left out, as Kafka's log cleaner writes it. Pure.

Offsets stay, and so do the batch's first and last one, its leader epoch, its producer's fields and its codec, so that a
reader, a producer's next sequence and the epoch history find what was there before.
Source: MemoryRecords.filterTo and buildRetainedRecordsInto, KIP-534 (delete horizon).
"""

from __future__ import annotations

from typing import Final

from bmq.log.batch_bodies import Scratch, open_bodies
from bmq.log.batch_scan import scan
from bmq.log.origin import DamagedBatch, Origin
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX, Buffer, Compression, compress
from bmq.protocol.record_batch import (
    LOG_APPEND_TIME,
    NO_TIMESTAMP_MS,
    TRANSACTIONAL,
    BatchHeader,
    TimestampType,
    assemble_batch,
)
from bmq.records import batch_layout as layout
from bmq.records import key_compaction
from bmq.records.batch_layout import Bodies

CONTROL: Final = 1 << 5
DELETE_HORIZON: Final = 1 << 6
_VARINT_BYTES_MAX: Final = 10


def write_survivors(
    batch: Buffer,
    origin: Origin,
    keep: Buffer,
    *,
    delete_horizon_ms: int | None = None,
    batch_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    is_verified: bool = False,
    scratch: Scratch | None = None,
) -> Buffer:
    """The one batch in `batch` with the records that `keep` names: a byte for each, in their order, 0 or 1.

    All kept: `batch` itself. None kept: a header without records, which keeps a producer's last sequence; the caller
    knows if it is needed. `delete_horizon_ms`: when its tombstones may be deleted; a batch that has one keeps its own.
    `is_verified`: its checksum was verified before. `scratch`: for callers that clean compressed batches one after the other.
    Raises DamagedBatch; ValueError when `keep` does not have one entry per record.
    """
    found = scan(batch, origin, 0, rows_max=1, bytes_max=1, batch_bytes_max=batch_bytes_max)
    if found.batch_count != 1 or layout.BATCH.unpack_from(found.batches)[layout.PLACE] or found.end != len(batch):
        raise DamagedBatch(origin, 0, None, f"{len(batch)} bytes are not one whole record batch")
    opened = open_bodies(
        batch,
        origin,
        found.batches,
        layout.WANTS_HEADERS,
        bytes_max=1,
        batch_bytes_max=batch_bytes_max,
        is_verified=is_verified,
        scratch=scratch or Scratch(),
    )
    header = BatchHeader.parse(batch)
    if len(keep) != header.record_count:
        raise ValueError(f"{len(keep)} records to keep or not, the batch has {header.record_count}")
    try:
        cleaned = with_some(header, opened.bodies, 0, keep, delete_horizon_ms=delete_horizon_ms)
    except BadRecords as error:
        raise DamagedBatch(origin, 0, header.base_offset, str(error)) from error
    if 1 not in keep:
        return without_records(header)
    return batch if 0 not in keep and (header.delete_horizon_ms is not None or delete_horizon_ms is None) else cleaned


class BadRecords(ValueError):
    """Records that cannot be read."""


def with_some(
    header: BatchHeader, bodies: Bodies, number: int, keep: Buffer, *, delete_horizon_ms: int | None
) -> bytearray:
    """As `write_survivors`, for a body that was decompressed before; `keep` may have more entries. Raises BadRecords."""
    horizon_ms = header.delete_horizon_ms
    if horizon_ms is None and delete_horizon_ms is not None:
        horizon_ms = delete_horizon_ms
        header = header._replace(attributes=header.attributes | DELETE_HORIZON)
    start, end = layout.body_place(bodies, number)
    out = bytearray(end - start + _VARINT_BYTES_MAX * header.record_count)
    kept = key_compaction.write_survivors(bodies, number, keep, horizon_ms, out)
    if kept.status:
        raise BadRecords(layout.REASONS[-kept.status])
    records = memoryview(out)[: kept.size_bytes]
    has_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    header = header._replace(
        base_timestamp_ms=kept.base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms if has_append_time else kept.max_timestamp_ms,
        record_count=kept.record_count,
    )
    codec = header.compression
    return assemble_batch(header, records if codec is Compression.NONE else compress(codec, records))


def without_records(header: BatchHeader) -> bytearray:
    """Only the header. Kafka's DefaultRecordBatch.writeEmptyHeader: neither a codec nor a delete horizon is left."""
    empty = header._replace(
        attributes=header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL),
        base_timestamp_ms=NO_TIMESTAMP_MS,
        record_count=0,
    )
    return assemble_batch(empty, b"")
