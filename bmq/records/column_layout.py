"""Columns in memory, as the kernel fills and reads them. Pure.

A view is Arrow's 16 bytes of a binary_view as four int32: the length, then up to 12 bytes themselves, or the first four
bytes, the number of the data buffer (always 0) and the place in it. Source: Arrow columnar format, variable-size binary view.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bmq.protocol.compression import Buffer

VIEW_BYTES: Final = 16
INLINE_BYTES_MAX: Final = 12
DATA_BYTES_MAX: Final = (1 << 31) - 1
"""Most bytes of the memory that views point into."""


class Columns(NamedTuple):
    """Memory of columns with room for `rows_max` records; what is not wanted may be empty.

    int64: `offsets`, `timestamps`, `header_places` (where a record's first header begins). Views: `key_views`, `value_views`.
    One byte, 1 where it is null: `key_nulls`, `value_nulls`. int32, one more than rows, the first one 0: `header_offsets`, how
    many headers lie in front.
    """

    rows_max: int
    offsets: Buffer
    timestamps: Buffer
    key_views: Buffer
    key_nulls: Buffer
    value_views: Buffer
    value_nulls: Buffer
    header_places: Buffer
    header_offsets: Buffer


class Binary(NamedTuple):
    """A column of bytes: n + 1 offsets (int64) into `data`, and n flags, 1 for null."""

    data: Buffer
    offsets: Buffer
    nulls: Buffer


class Table(NamedTuple):
    """Rows to be written. int64: `offsets` and `timestamps`, and `header_offsets`, one more: the first header of each row."""

    offsets: Buffer
    timestamps: Buffer
    header_offsets: Buffer
    keys: Binary
    values: Binary
    names: Binary
    contents: Binary
    header_count: int


class Written(NamedTuple):
    """Bytes that were written, the row behind the last one of them, their greatest time."""

    size_bytes: int
    row: int
    max_timestamp_ms: int
