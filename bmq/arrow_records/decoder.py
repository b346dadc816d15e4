"""Record batches to Arrow columns: bytes of a segment in, a table out, no step of Python per record. Pure.

Used by Spark's source, Parquet tables, verification, compaction and search. Message formats 0 and 1 count as damage:
the log never accepts them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bmq.arrow_records.batch_headers import (
    CONTROL,
    BatchFilter,
    Headers,
    has,
    scan,
    transactional,
)
from bmq.arrow_records.bodies import Bodies, Rows, open_bodies, walk
from bmq.arrow_records.layout import Layout
from bmq.log.batch_bodies import Scratch
from bmq.log.origin import Origin
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX, Buffer
from bmq.protocol.record_batch import LENGTH_OVERHEAD_BYTES, LOG_APPEND_TIME
from bmq.records import batch_layout, columns

ROWS_MAX: Final = 1 << 20
BYTES_MAX: Final = 32 << 20
OFFSET_MAX: Final = (1 << 63) - 1

_TABLE_BYTES_MAX: Final = (1 << 31) - 1  # of Arrow's 32-bit offsets and views
_WANTS: Final = {
    "timestamp": batch_layout.WANTS_TIMESTAMP,
    "key": batch_layout.WANTS_KEY,
    "value": batch_layout.WANTS_VALUE,
    "headers": batch_layout.WANTS_HEADERS,
}
_OF_BATCHES: Final[dict[str, Callable[[Headers], npt.NDArray[np.generic]]]] = {
    "timestamp_type": lambda headers: has(headers, LOG_APPEND_TIME).astype(np.int32),
    "leader_epoch": lambda headers: headers["leader_epoch"].astype(np.int32),
    "producer_id": lambda headers: headers["producer_id"].astype(np.int64),
    "producer_epoch": lambda headers: headers["producer_epoch"].astype(np.int16),
    "is_transactional": transactional,
    "is_control": lambda headers: has(headers, CONTROL),
}
_MICROSECONDS_MAX: Final = OFFSET_MAX // 1000


class Decoded(NamedTuple):
    """A table, and how far it reaches.

    `end`: the position in the buffer to continue from. `next_offset`: the offset after the last of these batches,
    whether or not it has rows here; None without any. `missing_bytes`: the least number of bytes behind the buffer's
    end that the batch at `end` needs; 0 if no batch is known to be cut there.
    """

    table: pa.RecordBatch
    end: int
    next_offset: int | None
    missing_bytes: int


class Selection(NamedTuple):
    """The records with offsets in [from_offset, to_offset), without the batches that `leaves_out` names."""

    from_offset: int = 0
    to_offset: int = OFFSET_MAX
    leaves_out: BatchFilter | None = None


class Limits(NamedTuple):
    """Of one table: rows, bytes of decompressed records, and bytes of its longest batch, compressed or not."""

    rows_max: int = ROWS_MAX
    bytes_max: int = BYTES_MAX
    batch_bytes_max: int = DECOMPRESSED_BYTES_MAX


ALL_RECORDS: Final = Selection()
USUAL_LIMITS: Final = Limits()


def decode(
    buffer: Buffer,
    origin: Origin,
    layout: Layout,
    selection: Selection = ALL_RECORDS,
    limits: Limits = USUAL_LIMITS,
    *,
    place: int = 0,
    is_verified: bool = False,
    scratch: Scratch | None = None,
) -> Decoded:
    """The selected records of the whole batches that lie in `buffer` from `place` on.

    Takes batches up to the one with which the table reaches a limit, at least one, so a table may have one batch more
    than the limits: at most bytes_max + batch_bytes_max bytes and a seventh as many rows. Call again from `end` until
    that is the buffer's end or does not move: then the batch there is cut.
    Batches outside of the selection are not opened and their checksums not verified.
    `is_verified`: the checksums were verified before. `scratch`: for callers that decode
    compressed batches table after table, one per thread; views never point into it. A column that is not in the layout
    is not built, and its fields are not checked; with headers the whole record is.
    Raises DamagedBatch, also when a batch is longer than `batch_bytes_max` compressed or not; ValueError for limits of
    more than 2 GiB together.
    """
    from_offset, to_offset, leaves_out = selection
    rows_max, bytes_max, batch_bytes_max = limits
    if bytes_max + batch_bytes_max > _TABLE_BYTES_MAX:
        raise ValueError(f"tables of {bytes_max} bytes and a batch of {batch_bytes_max} do not fit into 2 GiB")
    data = memoryview(buffer).toreadonly()
    found = scan(data, origin, place, rows_max=rows_max, bytes_max=bytes_max, batch_bytes_max=batch_bytes_max)
    headers, end, missing_bytes = found.headers, found.end, found.missing_bytes
    ends = headers["base_offset"] + headers["last_offset_delta"].astype(np.int64) + 1
    next_offset = int(ends[-1]) if len(ends) else None
    is_taken = (ends > from_offset) & (headers["base_offset"] < to_offset)
    if leaves_out is not None:
        is_taken &= ~leaves_out(headers)
    numbers = np.flatnonzero(is_taken)
    wanted = sum(_WANTS.get(name, 0) for name in layout.columns)
    # Views have 32-bit positions, so count them from the first batch.
    first = int(found.places[0]) if len(ends) else 0
    last = found.places[-1] + headers["length"][-1] + LENGTH_OVERHEAD_BYTES if len(ends) else 0
    taken = headers[numbers]
    taken["place"] -= first
    bodies = open_bodies(
        data[first:last],
        origin._replace(position_bytes=origin.position_bytes + first),
        taken,
        wanted,
        bytes_max=bytes_max,
        batch_bytes_max=batch_bytes_max,
        is_verified=is_verified,
        scratch=scratch if scratch is not None and layout.content == pa.binary() else Scratch(),
    )
    if len(bodies.headers) < len(numbers):
        behind = numbers[len(bodies.headers)]
        end, next_offset, missing_bytes = int(found.places[behind]), int(ends[behind - 1]), 0
    rows = walk(bodies, origin._replace(position_bytes=origin.position_bytes + first), wanted)
    table = pa.RecordBatch.from_arrays(
        [_column(name, layout, bodies, rows) for name in layout.columns], schema=layout.schema
    )
    if len(rows.offsets) and (rows.offsets[0] < from_offset or rows.offsets[-1] >= to_offset):
        low, high = np.searchsorted(rows.offsets, (from_offset, to_offset))
        table = table.slice(low, high - low)
    return Decoded(table, end, next_offset, missing_bytes)


def _column(name: str, layout: Layout, bodies: Bodies, rows: Rows) -> pa.Array:
    match name:
        case "offset":
            return pa.array(rows.offsets)
        case "timestamp":
            return _timestamps(rows.timestamps, layout.timestamp)
        case "key":
            return _contents(rows.key_views, rows.key_nulls, bodies.data, layout.content)
        case "value":
            return _contents(rows.value_views, rows.value_nulls, bodies.data, layout.content)
        case "headers":
            return _headers(rows, bodies.data, layout)
        case _:
            return pa.array(np.repeat(_OF_BATCHES[name](bodies.headers), bodies.headers["record_count"]))


def _timestamps(values: npt.NDArray[np.int64], wanted: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(wanted) and wanted.unit == "us":
        values = np.clip(values, -_MICROSECONDS_MAX, _MICROSECONDS_MAX) * 1000
    return pa.array(values).view(wanted)


def _contents(
    views: npt.NDArray[np.int32], nulls: npt.NDArray[np.uint8], data: Buffer, wanted: pa.DataType
) -> pa.Array:
    """Binary from views. Arrow's own cast is three times as fast as a kernel that copies record by record."""
    valid = pa.py_buffer(np.packbits(nulls == 0, bitorder="little")) if nulls.any() else None
    array = pa.Array.from_buffers(pa.binary_view(), len(views), [valid, pa.py_buffer(views), pa.py_buffer(data)])
    return array if wanted == array.type else array.cast(wanted)


def _headers(rows: Rows, data: Buffer, layout: Layout) -> pa.Array:
    count = int(rows.header_offsets[-1])
    names, values = np.empty((count, 4), np.int32), np.empty((count, 4), np.int32)
    nulls = np.empty(count, np.uint8)
    if count:
        _fill_headers(data, rows, names, values, nulls)
    keys = _contents(names, np.zeros(count, np.uint8), data, pa.binary())
    if layout.header_name == pa.string():
        keys = _text(keys)
    pairs = pa.StructArray.from_arrays([keys, _contents(values, nulls, data, pa.binary())], fields=list(layout.header))
    return pa.ListArray.from_arrays(pa.array(rows.header_offsets), pairs, type=layout.schema.field("headers").type)


def _fill_headers(
    data: Buffer,
    rows: Rows,
    names: npt.NDArray[np.int32],
    values: npt.NDArray[np.int32],
    nulls: npt.NDArray[np.uint8],
) -> None:
    if columns.walk_headers(data, rows.header_places.data, names.data, values.data, nulls.data):
        raise AssertionError("record headers that were walked through are damaged now")


def _text(names: pa.Array) -> pa.Array:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        distinct = names.dictionary_encode()
        words = [name.decode("utf-8", "replace") for name in distinct.dictionary.to_pylist()]
        return pa.array(words, pa.string()).take(distinct.indices)
