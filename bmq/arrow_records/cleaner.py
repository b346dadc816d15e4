"""One batch with some of its records left out, as Kafka's log cleaner writes it. Pure.

Offsets stay, and so do the batch's first and last one, its leader epoch, its producer's fields and its codec, so that a
reader, a producer's next sequence and the epoch history find what was there before.
Source: MemoryRecords.filterTo and buildRetainedRecordsInto, KIP-534 (delete horizon).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bmq.arrow_records import kernels
from bmq.arrow_records.batch_headers import CONTROL, LOG_APPEND_TIME, scan
from bmq.arrow_records.bodies import Scratch, open_bodies, walk
from bmq.arrow_records.origin import DamagedBatch, Origin
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX, Buffer, Compression, compress
from bmq.protocol.record_batch import NO_TIMESTAMP_MS, TRANSACTIONAL, BatchHeader, TimestampType, assemble_batch

_DELETE_HORIZON: Final = 1 << 6
_VARINT_BYTES_MAX: Final = 10


def retain(
    batch: Buffer,
    origin: Origin,
    keep: npt.NDArray[np.bool_],
    *,
    delete_horizon_ms: int | None = None,
    batch_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    is_verified: bool = False,
    scratch: Scratch | None = None,
) -> Buffer:
    """The one batch in `batch` with the records that `keep` names, one for each in the order of decoder.decode.

    All kept: `batch` itself. None kept: a header without records, which keeps a producer's last sequence; the caller
    knows if it is needed. `delete_horizon_ms`: when its tombstones may be deleted; a batch that has one keeps its own.
    `is_verified` and `scratch`: as for decoder.decode.
    Raises DamagedBatch; ValueError when `keep` does not have one entry per record.
    """
    data = kernels.read_only(batch)
    found = scan(data, origin, 0, rows_max=1, bytes_max=1, batch_bytes_max=batch_bytes_max)
    if len(found.places) != 1 or found.places[0] != 0 or found.end != len(data):
        raise DamagedBatch(origin, 0, None, f"{len(data)} bytes are not one whole record batch")
    wanted = kernels.WANTS_TIMESTAMP | kernels.WANTS_HEADERS
    bodies = open_bodies(
        data,
        origin,
        found.places,
        found.headers,
        wanted,
        bytes_max=1,
        batch_bytes_max=batch_bytes_max,
        is_verified=is_verified,
        scratch=scratch or Scratch(),
    )
    rows = walk(bodies, origin, wanted)
    header = BatchHeader.parse(batch)
    if len(keep) != header.record_count:
        raise ValueError(f"{len(keep)} records to keep or not, the batch has {header.record_count}")
    if not keep.any():
        return without_records(header)
    if keep.all() and (header.delete_horizon_ms is not None or delete_horizon_ms is None):
        return batch
    body = bodies.data[bodies.starts[0] : bodies.ends[0]]
    return with_some(header, body, keep, rows.timestamps, delete_horizon_ms=delete_horizon_ms)


def with_some(
    header: BatchHeader,
    body: kernels.Bytes,
    keep: npt.NDArray[np.bool_],
    timestamps: npt.NDArray[np.int64],
    *,
    delete_horizon_ms: int | None,
) -> bytearray:
    """As `retain`, for a body that was decompressed and walked before; at least one record is kept."""
    horizon_ms = header.delete_horizon_ms
    if horizon_ms is None and delete_horizon_ms is not None:
        horizon_ms = delete_horizon_ms
        header = header._replace(attributes=header.attributes | _DELETE_HORIZON)
    kept = timestamps[keep]
    header = header._replace(
        base_timestamp_ms=int(kept[0]) if horizon_ms is None else horizon_ms,
        max_timestamp_ms=header.max_timestamp_ms
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME
        else int(kept.max()),
        record_count=len(kept),
    )
    out = np.empty(len(body) + _VARINT_BYTES_MAX * len(kept), np.uint8)
    mask = np.array(keep, np.bool_).view(np.uint8)
    written = kernels.retain(body, mask, timestamps, header.base_timestamp_ms, out)
    records = out.data[:written]
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
