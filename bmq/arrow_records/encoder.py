"""Arrow columns to record batches, for jobs that write: a table in, whole batches out, no step of Python per record. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bmq.arrow_records import kernels
from bmq.arrow_records.batch_headers import CONTROL, LOG_APPEND_TIME
from bmq.protocol.compression import Compression, compress
from bmq.protocol.record_batch import (
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

BATCH_BYTES_MAX: Final = 1 << 20
_SEQUENCE_MASK: Final = 0x7FFF_FFFF
_RECORD_OVERHEAD_BYTES_MAX: Final = 64
_HEADER_OVERHEAD_BYTES_MAX: Final = 20
_BODY_BYTES_MAX: Final = (1 << 31) - 1024  # of the length field

_Scalar = TypeVar("_Scalar", bound=np.generic)


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


class _Binary(NamedTuple):
    """A binary column in the kernel's form: n + 1 offsets into `data`, and n flags, 1 for null."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.uint8]


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
    keys, values = _binary(_column(table, "key"), count), _binary(_column(table, "value"), count)
    header_offsets, names, contents = _headers(_column(table, "headers"), count)
    room = np.empty(batch_bytes_max, np.uint8)
    row = 0
    while row < count:
        out = room
        written, end = kernels.write(
            out, row, count, offsets, timestamps, *keys, *values, header_offsets, *names, *contents
        )
        if end == row:
            # A record longer than a batch's limit gets a batch of its own.
            out = np.empty(_record_bytes_max(row, keys, values, header_offsets, names, contents), np.uint8)
            written, end = kernels.write(
                out, row, row + 1, offsets, timestamps, *keys, *values, header_offsets, *names, *contents
            )
        body = out.data[:written]
        yield assemble_batch(
            BatchHeader(
                base_offset=int(offsets[row]),
                length=0,
                leader_epoch=fields.leader_epoch,
                magic=MAGIC_2,
                crc=0,
                attributes=fields.attributes,
                last_offset_delta=int(offsets[end - 1] - offsets[row]),
                base_timestamp_ms=int(timestamps[row]),
                max_timestamp_ms=int(timestamps[row:end].max()),
                producer_id=fields.producer_id,
                producer_epoch=fields.producer_epoch,
                base_sequence=(fields.base_sequence + row) & _SEQUENCE_MASK
                if fields.base_sequence >= 0
                else NO_SEQUENCE,
                record_count=end - row,
            ),
            body if fields.compression is Compression.NONE else compress(fields.compression, body),
        )
        row = end


def _record_bytes_max(
    row: int,
    keys: _Binary,
    values: _Binary,
    header_offsets: npt.NDArray[np.int64],
    names: _Binary,
    contents: _Binary,
) -> int:
    """An upper bound of one row's record in bytes. Raises ValueError if no batch could hold it."""
    first, last = int(header_offsets[row]), int(header_offsets[row + 1])
    lengths = (
        keys.offsets[row + 1] - keys.offsets[row],
        values.offsets[row + 1] - values.offsets[row],
        names.offsets[last] - names.offsets[first],
        contents.offsets[last] - contents.offsets[first],
    )
    size = int(sum(lengths)) + _RECORD_OVERHEAD_BYTES_MAX + _HEADER_OVERHEAD_BYTES_MAX * (last - first)
    if size > _BODY_BYTES_MAX:
        raise ValueError(f"a record of {size} bytes does not fit into a batch")
    return size


def _column(table: pa.RecordBatch | pa.Table, name: str) -> pa.Array | None:
    if name not in table.schema.names:
        return None
    column = table.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _read_only(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """A read-only view, because the kernel is compiled for read-only arrays such as Arrow's buffers."""
    view = array.view()
    view.flags.writeable = False
    return view


def _offsets(table: pa.RecordBatch | pa.Table, base_offset: int | None) -> npt.NDArray[np.int64]:
    if base_offset is not None:
        return _read_only(np.arange(base_offset, base_offset + table.num_rows, dtype=np.int64))
    column = _column(table, "offset")
    if column is None or column.null_count:
        raise ValueError("neither a base offset nor a whole column of offsets")
    offsets = column.cast(pa.int64()).to_numpy()
    if (offsets[1:] <= offsets[:-1]).any():
        raise ValueError("offsets do not ascend")
    return _read_only(offsets)


def _timestamps(table: pa.RecordBatch | pa.Table) -> npt.NDArray[np.int64]:
    column = _column(table, "timestamp")
    if column is None:
        return _read_only(np.full(table.num_rows, NO_TIMESTAMP_MS, np.int64))
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    return _read_only(pc.fill_null(column.cast(pa.int64()), NO_TIMESTAMP_MS).to_numpy())


def _binary(column: pa.Array | None, count: int) -> _Binary:
    if column is None:
        return _Binary(
            _read_only(np.empty(0, np.uint8)),
            _read_only(np.zeros(count + 1, np.int64)),
            _read_only(np.ones(count, np.uint8)),
        )
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    places = np.zeros(1, np.int64)
    if count:
        places = np.frombuffer(offsets, np.int64)[column.offset : column.offset + count + 1]
    nulls = column.is_null().to_numpy(zero_copy_only=False).view(np.uint8)
    return _Binary(_read_only(np.frombuffer(data or b"", np.uint8)), _read_only(places), _read_only(nulls))


def _headers(column: pa.Array | None, count: int) -> tuple[npt.NDArray[np.int64], _Binary, _Binary]:
    """(for each row the number of headers before its own, names, values)."""
    offsets = np.zeros(count + 1, np.int64)
    if column is None:
        return _read_only(offsets), _binary(None, 0), _binary(None, 0)
    np.cumsum(pc.fill_null(pc.list_value_length(column), 0).to_numpy(), out=offsets[1:])
    pairs = column.flatten()
    names, contents = pairs.flatten()
    if names.null_count:
        raise ValueError("a record header without a key")
    return _read_only(offsets), _binary(names, len(names)), _binary(contents, len(contents))
