"""Arrow columns to record batches, for jobs that write: a table in, whole batches out, no step of Python per record. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bmq.arrow_records.batch_headers import CONTROL
from bmq.dataclass import dataclass
from bmq.protocol.compression import Buffer, Compression, compress
from bmq.protocol.record_batch import (
    LOG_APPEND_TIME,
    MAGIC_2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP_MS,
    TRANSACTIONAL,
    BatchHeader,
    TimestampType,
    assemble_batch,
)
from bmq.records import columns
from bmq.records.column_layout import Binary, Table

BATCH_BYTES_MAX: Final = 1 << 20
_SEQUENCE_MASK: Final = 0x7FFF_FFFF
_RECORD_OVERHEAD_BYTES_MAX: Final = 64
_HEADER_OVERHEAD_BYTES_MAX: Final = 20
_BODY_BYTES_MAX: Final = (1 << 31) - 1024  # of the length field


@dataclass(frozen=True, slots=True)
class BatchFields:
    """Header fields common to all batches made; `base_sequence` is that of the first record."""

    leader_epoch: int = NO_LEADER_EPOCH
    compression: Compression = Compression.NONE
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False

    @property
    def attributes(self) -> int:
        return (
            self.compression
            | (LOG_APPEND_TIME if self.timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
            | (TRANSACTIONAL if self.is_transactional else 0)
            | (CONTROL if self.is_control else 0)
        )


def encode(
    table: pa.RecordBatch | pa.Table,
    fields: BatchFields,
    *,
    base_offset: int | None = None,
    batch_bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[bytearray]:
    """Whole batches, checksums included, of the columns that decoder.decode makes; each may be missing, others are ignored.

    With `base_offset` offsets count up from it, else the column `offset` says them and must ascend. A batch takes records
    up to `batch_bytes_max` before compression, and at least one. `key` and `value`: any of Arrow's binary or string types;
    `timestamp`: int64 milliseconds, or a timestamp (cut down to milliseconds); `headers`: lists of (key, value), or null.
    Raises ValueError: offsets that do not ascend, a header without a key, a null offset, a record of 2 GiB.
    """
    count = table.num_rows
    offsets = _offsets(table, base_offset)
    timestamps = _timestamps(table)
    header_offsets, names, contents = _headers(_column(table, "headers"), count)
    rows = Table(
        offsets.data,
        timestamps.data,
        header_offsets.data,
        _binary(_column(table, "key"), count),
        _binary(_column(table, "value"), count),
        names,
        contents,
        int(header_offsets[-1]),
    )
    if not count:
        return
    room = bytearray(batch_bytes_max)
    row = 0
    with columns.Writer(rows, count) as writer:
        while row < count:
            out = room
            written = writer.write(row, count, out)
            if written.row == row:
                # A record longer than a batch's limit gets a batch of its own.
                out = bytearray(_record_bytes_max(rows, row))
                written = writer.write(row, row + 1, out)
            body = memoryview(out)[: written.size_bytes]
            yield assemble_batch(
                BatchHeader(
                    base_offset=int(offsets[row]),
                    length=0,
                    leader_epoch=fields.leader_epoch,
                    magic=MAGIC_2,
                    crc=0,
                    attributes=fields.attributes,
                    last_offset_delta=int(offsets[written.row - 1] - offsets[row]),
                    base_timestamp_ms=int(timestamps[row]),
                    max_timestamp_ms=written.max_timestamp_ms,
                    producer_id=fields.producer_id,
                    producer_epoch=fields.producer_epoch,
                    base_sequence=(fields.base_sequence + row) & _SEQUENCE_MASK
                    if fields.base_sequence >= 0
                    else NO_SEQUENCE,
                    record_count=written.row - row,
                ),
                body if fields.compression is Compression.NONE else compress(fields.compression, body),
            )
            row = written.row


def _record_bytes_max(table: Table, row: int) -> int:
    """An upper bound of one row's record in bytes. Raises ValueError if no batch could hold it."""
    first, last = _places(table.header_offsets)[row : row + 2]

    def length(column: Binary, begin: int, end: int) -> int:
        places = _places(column.offsets)
        return places[end] - places[begin]

    size = length(table.keys, row, row + 1) + length(table.values, row, row + 1)
    size += length(table.names, first, last) + length(table.contents, first, last)
    size += _RECORD_OVERHEAD_BYTES_MAX + _HEADER_OVERHEAD_BYTES_MAX * (last - first)
    if size > _BODY_BYTES_MAX:
        raise ValueError(f"a record of {size} bytes does not fit into a batch")
    return size


def _places(offsets: Buffer) -> memoryview:
    return memoryview(offsets).cast("B").cast("q")


def _column(table: pa.RecordBatch | pa.Table, name: str) -> pa.Array | None:
    if name not in table.schema.names:
        return None
    column = table.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _offsets(table: pa.RecordBatch | pa.Table, base_offset: int | None) -> npt.NDArray[np.int64]:
    if base_offset is not None:
        return np.arange(base_offset, base_offset + table.num_rows, dtype=np.int64)
    column = _column(table, "offset")
    if column is None or column.null_count:
        raise ValueError("neither a base offset nor a whole column of offsets")
    offsets = column.cast(pa.int64()).to_numpy()
    if (offsets[1:] <= offsets[:-1]).any():
        raise ValueError("offsets do not ascend")
    return np.ascontiguousarray(offsets)


def _timestamps(table: pa.RecordBatch | pa.Table) -> npt.NDArray[np.int64]:
    column = _column(table, "timestamp")
    if column is None:
        return np.full(table.num_rows, NO_TIMESTAMP_MS, np.int64)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    return np.ascontiguousarray(pc.fill_null(column.cast(pa.int64()), NO_TIMESTAMP_MS).to_numpy())


def _binary(column: pa.Array | None, count: int) -> Binary:
    if column is None:
        return Binary(b"", bytes(8 * (count + 1)), b"\1" * count)
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    places: Buffer = bytes(8)
    if count:
        places = memoryview(offsets)[8 * column.offset : 8 * (column.offset + count + 1)]
    nulls = memoryview(column.is_null().to_numpy(zero_copy_only=False))
    return Binary(b"" if data is None else memoryview(data), places, nulls)


def _headers(column: pa.Array | None, count: int) -> tuple[npt.NDArray[np.int64], Binary, Binary]:
    """(for each row the number of headers before its own, names, values)."""
    offsets = np.zeros(count + 1, np.int64)
    if column is None:
        return offsets, _binary(None, 0), _binary(None, 0)
    np.cumsum(pc.fill_null(pc.list_value_length(column), 0).to_numpy(), out=offsets[1:])
    pairs = column.flatten()
    names, contents = pairs.flatten()
    if names.null_count:
        raise ValueError("a record header without a key")
    return offsets, _binary(names, len(names)), _binary(contents, len(contents))
