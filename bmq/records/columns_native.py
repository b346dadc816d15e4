"""Columns of records, in C: calls of native/columns.c. The interpreter's lock is released meanwhile."""

from __future__ import annotations

import ctypes
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records.batch_layout import WANTS_HEADERS, WANTS_KEY, WANTS_TIMESTAMP, WANTS_VALUE, Bodies, Stopped
from bmq.records.column_layout import VIEW_BYTES, Binary, Columns, Table, Written
from bmq.records.native import structures
from bmq.records.native.calls import body_structure, checked, function
from bmq.records.native.memory import Pins

_Int64: Final = ctypes.c_int64
_Pointer: Final = ctypes.c_void_p

_walk = function("bmq_walk", _Pointer, _Pointer, _Int64, _Pointer, _Pointer)
_walk_headers = function("bmq_walk_headers", _Pointer, _Int64, _Pointer, _Int64, _Int64, _Pointer, _Pointer, _Pointer)
_first_byte = ctypes.c_char.from_buffer
_write = function("bmq_write", _Pointer, _Int64, _Int64, _Pointer, _Int64, _Pointer)


def walk(bodies: Bodies, is_opened: Buffer, wanted: int, columns: Columns) -> Stopped:
    """As columns.walk."""
    rows = columns.rows_max
    keys = rows if wanted & WANTS_KEY else 0
    values = rows if wanted & WANTS_VALUE else 0
    headers = rows if wanted & WANTS_HEADERS else 0
    number = _Int64()
    with Pins() as pins:
        memory = structures.Columns(
            rows,
            pins.address(columns.offsets, 8 * rows),
            pins.address(columns.timestamps, 8 * rows if wanted & WANTS_TIMESTAMP else 0),
            pins.address(columns.key_views, VIEW_BYTES * keys),
            pins.address(columns.key_nulls, keys),
            pins.address(columns.value_views, VIEW_BYTES * values),
            pins.address(columns.value_nulls, values),
            pins.address(columns.header_places, 8 * headers),
            pins.address(columns.header_offsets, 4 * (headers + 1) if headers else 0),
        )
        status = _walk(
            ctypes.byref(body_structure(bodies, pins)),
            pins.address(is_opened, bodies.batch_count),
            wanted,
            ctypes.byref(memory),
            ctypes.byref(number),
        )
    return Stopped(checked(status), number.value)


def walk_headers(
    data: Buffer, header_places: Buffer, name_views: Buffer, value_views: Buffer, value_nulls: Buffer
) -> int:
    """As columns.walk_headers."""
    count = memoryview(value_nulls).nbytes
    with Pins() as pins:
        return checked(
            _walk_headers(
                pins.address(data),
                len(data),
                pins.address(header_places),
                memoryview(header_places).nbytes // 8,
                count,
                pins.address(name_views, VIEW_BYTES * count),
                pins.address(value_views, VIEW_BYTES * count),
                pins.address(value_nulls),
            )
        )


def _binary(column: Binary, count: int, pins: Pins) -> structures.Binary:
    return structures.Binary(
        pins.address(column.data),
        memoryview(column.data).nbytes,
        pins.address(column.offsets, 8 * (count + 1)),
        pins.address(column.nulls, count),
    )


class Writer:
    """As columns.Writer."""

    def __init__(self, table: Table, row_count: int) -> None:
        self._row_count = row_count
        self._pins = pins = Pins()
        try:
            self._table = structures.Table(
                pins.address(table.offsets, 8 * row_count),
                pins.address(table.timestamps, 8 * row_count),
                pins.address(table.header_offsets, 8 * (row_count + 1)),
                _binary(table.keys, row_count, pins),
                _binary(table.values, row_count, pins),
                _binary(table.names, table.header_count, pins),
                _binary(table.contents, table.header_count, pins),
                table.header_count,
            )
        except BaseException:
            pins.close()
            raise
        self._written = structures.Written()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_error: object) -> None:
        self._pins.close()

    def write(self, row: int, row_end: int, out: bytearray) -> Written:
        """As columns.Writer.write."""
        first = _first_byte(out) if out else None
        written = self._written
        checked(
            _write(
                ctypes.byref(self._table),
                row,
                min(row_end, self._row_count),
                None if first is None else ctypes.addressof(first),
                len(out),
                ctypes.byref(written),
            )
        )
        return Written(written.bytes, written.row, written.max_timestamp_ms)
