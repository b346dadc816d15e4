"""The loops over records that run as machine code: bytes in, positions, views and bytes out. Pure.

numba compiles a kernel at its first call and keeps it in a cache on disk, from which later processes load it. A kernel
allocates nothing, raises nothing and trusts no length that it reads: it returns a status, and the caller raises the
error. `data` is always a read-only array of uint8, so that each kernel is compiled for one set of types. The
interpreter's lock is released meanwhile.

A view is Arrow's 16 bytes of a binary_view as four int32: the length, then up to 12 bytes themselves, or the first four
bytes, the number of the data buffer (always 0) and the place in it. Source: Arrow columnar format, variable-size binary view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

WANTS_TIMESTAMP: Final = 1
WANTS_KEY: Final = 2
WANTS_VALUE: Final = 4
WANTS_HEADERS: Final = 8
# The columns `walk` fills besides offsets. It also checks a record's bytes before the last of them; with headers all.

# Kinds of damage to a record. Statuses are the negative of these.
CUT: Final = 1
LONG_VARINT: Final = 2
BAD_LENGTH: Final = 3
WRONG_END: Final = 4
OFFSETS_DO_NOT_GROW: Final = 5
BAD_HEADERS: Final = 6
BYTES_LEFT: Final = 7

REASONS: Final = {
    CUT: "a record runs past the end of its batch",
    LONG_VARINT: "a varint of a record is longer than 64 bits",
    BAD_LENGTH: "a field of a record has an impossible length",
    WRONG_END: "a record does not end where it says",
    OFFSETS_DO_NOT_GROW: "offsets of records do not grow, or pass the last one of their batch",
    BAD_HEADERS: "a record with impossible headers",
    BYTES_LEFT: "bytes are left behind the last record of a batch",
}

# Why `scan` stopped.
SCANNED_ALL: Final = 0
SCANNED_ENOUGH: Final = 1
BATCH_IS_CUT: Final = 2
NO_LENGTH: Final = 3  # zero, so maybe padding
BAD_BATCH_LENGTH: Final = 4

_HEADER_BYTES: Final = 61
_LENGTH_OVERHEAD_BYTES: Final = 12
_BIGGEST: Final = 0x7FFF_FFFF_FFFF_FFFF
_INLINE_BYTES_MAX: Final = 12

Bytes = Any
"""A contiguous array of uint8; `Any` because numba's rules for mixing integers are not the type checker's."""
Ints = Any
"""A contiguous array of int64 (or int32, where it says so)."""

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """`function` as machine code, from the cache on disk where there can be one."""
    try:
        return njit(function, cache=True, nogil=True)  # type: ignore[no-any-return]
    except RuntimeError:
        # Neither the package's directory nor the user's cache can be written: compile in each process.
        return njit(function, nogil=True)  # type: ignore[no-any-return]


@intrinsic  # type: ignore[untyped-decorator]
def _copy(typing_context: Any, target: Any, to: Any, source: Any, start: Any, length: Any) -> Any:
    """memcpy from source[start:start + length] to target[to:]: numba's own assignment of slices goes byte by byte."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def pointer(which: int) -> Any:
            array = context.make_array(signature.args[which])(context, builder, arguments[which])
            return builder.gep(array.data, [arguments[which + 1]])

        cgutils.raw_memcpy(builder, pointer(0), pointer(2), arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@compiled
def scan(data: Bytes, place: int, rows_max: int, bytes_max: int, batch_bytes_max: int, positions: Ints) -> Any:
    """Find the starts of the whole batches that lie back to back from `place` on, as far as `positions` has room.

    Stops behind the batch with which `rows_max` or `bytes_max` (of the batches as they lie) is reached.
    (how many, where the next one begins, why it stopped, how many bytes that one has if it is cut, records in all).
    """
    end = len(data)
    start = place
    rows = 0
    for number in range(len(positions)):
        if place == end:
            return number, place, SCANNED_ALL, 0, rows
        if number and (rows >= rows_max or place - start >= bytes_max):
            return number, place, SCANNED_ENOUGH, 0, rows
        if end - place < _LENGTH_OVERHEAD_BYTES:
            return number, place, BATCH_IS_CUT, _LENGTH_OVERHEAD_BYTES, rows
        length = 0
        for at in range(place + 8, place + 12):
            length = length << 8 | data[at]
        if length == 0:
            return number, place, NO_LENGTH, 0, rows
        size = length + _LENGTH_OVERHEAD_BYTES
        if size < _HEADER_BYTES or size > batch_bytes_max:
            return number, place, BAD_BATCH_LENGTH, size, rows
        if size > end - place:
            return number, place, BATCH_IS_CUT, size, rows
        for at in range(place + 57, place + 61):
            # Summed up byte by byte; a negative count is found when the header is checked.
            rows += (data[at] & 255) << 8 * (place + 60 - at)
        positions[number] = place
        place += size
    return len(positions), place, SCANNED_ALL if place == end else SCANNED_ENOUGH, 0, rows


@compiled
def _varint(data: Bytes, place: int, end: int) -> Any:
    """(value, where it ends) of the zigzag varint of up to 64 bits; where it ends is negative if it is damaged."""
    if place >= end:
        return 0, -CUT
    byte = data[place] & 255
    place += 1
    raw = byte & 127
    shift = 7
    while byte > 127:
        if place >= end:
            return 0, -CUT
        byte = data[place] & 255
        place += 1
        if shift == 63 and byte > 1:
            return 0, -LONG_VARINT
        raw |= (byte & 127) << shift
        shift += 7
    return raw >> 1 & _BIGGEST ^ -(raw & 1), place


@compiled
def _put_view(views: Ints, row: int, data: Bytes, place: int, length: int) -> None:
    views[row, 0] = length
    if length > _INLINE_BYTES_MAX:
        views[row, 1] = data[place] | data[place + 1] << 8 | data[place + 2] << 16 | data[place + 3] << 24
        views[row, 2] = 0
        views[row, 3] = place
        return
    for word in range(3):
        content = 0
        for index in range(4 * word, min(4 * word + 4, length)):
            content |= (data[place + index] & 255) << 8 * (index & 3)
        views[row, word + 1] = content


@compiled
def _skip_headers(data: Bytes, place: int, stop: int) -> Any:
    """(how many, where they end) of the record headers at `place`; where they end is negative if they are damaged."""
    count, place = _varint(data, place, stop)
    if place < 0:
        return 0, place
    if count < 0 or count > stop - place:
        return 0, -BAD_HEADERS
    for _ in range(count):
        length, place = _varint(data, place, stop)
        if place < 0:
            return 0, place
        if length < 0 or length > stop - place:
            return 0, -BAD_HEADERS
        place += length
        length, place = _varint(data, place, stop)
        if place < 0:
            return 0, place
        if length < -1 or length > stop - place:
            return 0, -BAD_HEADERS
        if length > 0:
            place += length
    return count, place


@compiled
def walk(
    data: Bytes,
    wanted: int,
    starts: Ints,
    ends: Ints,
    rows: Ints,
    counts: Ints,
    base_offsets: Ints,
    last_deltas: Ints,
    base_timestamps: Ints,
    append_times: Ints,
    has_append_time: Bytes,
    offsets: Ints,
    timestamps: Ints,
    key_views: Ints,
    key_nulls: Bytes,
    value_views: Ints,
    value_nulls: Bytes,
    header_places: Ints,
    header_offsets: Ints,
) -> Any:
    """Go through the records of batches, whose bodies lie in `data` at [starts, ends), into columns from `rows` on.

    One entry per batch in the arrays from `starts` to `has_append_time`, one per row behind these. Views and nulls (1
    where it is null) of what is not `wanted` may be empty. `header_places`: where a record's first header begins;
    `header_offsets` (int32, one more than rows, the first one 0): how many headers lie in front, for batches of all rows
    in order. (status, which batch), the status 0 or the negative of what is wrong.
    """
    headers_before = 0
    for batch in range(len(starts)):
        place = starts[batch]
        end = ends[batch]
        row = rows[batch]
        previous = -1
        for row in range(rows[batch], rows[batch] + counts[batch]):
            length, place = _varint(data, place, end)
            if place < 0:
                return place, batch
            if length < 1 or length > end - place:
                return -CUT, batch
            stop = place + length
            delta, place = _varint(data, place + 1, stop)
            if place < 0:
                return place, batch
            if wanted & WANTS_TIMESTAMP:
                # The sum wraps as Kafka's does, so that any two timestamps fit into one batch.
                timestamps[row] = append_times[batch] if has_append_time[batch] else base_timestamps[batch] + delta
            delta, place = _varint(data, place, stop)
            if place < 0:
                return place, batch
            if delta <= previous or delta > last_deltas[batch]:
                return -OFFSETS_DO_NOT_GROW, batch
            previous = delta
            offsets[row] = base_offsets[batch] + delta
            if wanted >= WANTS_KEY:
                length, place = _varint(data, place, stop)
                if place < 0:
                    return place, batch
                if length < -1 or length > stop - place:
                    return -BAD_LENGTH, batch
                if wanted & WANTS_KEY:
                    key_nulls[row] = length < 0
                    _put_view(key_views, row, data, place, max(length, 0))
                place += max(length, 0)
            if wanted >= WANTS_VALUE:
                length, place = _varint(data, place, stop)
                if place < 0:
                    return place, batch
                if length < -1 or length > stop - place:
                    return -BAD_LENGTH, batch
                if wanted & WANTS_VALUE:
                    value_nulls[row] = length < 0
                    _put_view(value_views, row, data, place, max(length, 0))
                place += max(length, 0)
            if wanted >= WANTS_HEADERS:
                header_places[row] = place
                count, place = _skip_headers(data, place, stop)
                if place < 0:
                    return place, batch
                if place != stop:
                    return -WRONG_END, batch
                headers_before += count
                header_offsets[row + 1] = headers_before
            place = stop
        if place != end:
            return -BYTES_LEFT, batch
    return 0, 0


@compiled
def walk_headers(data: Bytes, header_places: Ints, name_views: Ints, value_views: Ints, value_nulls: Bytes) -> None:
    """Fill in names and values of all headers of records that `walk` went through: one entry per header, not per row."""
    end = len(data)
    index = 0
    for row in range(len(header_places)):
        count, place = _varint(data, header_places[row], end)
        for _ in range(count):
            length, place = _varint(data, place, end)
            _put_view(name_views, index, data, place, length)
            length, place = _varint(data, place + length, end)
            value_nulls[index] = length < 0
            length = max(length, 0)
            _put_view(value_views, index, data, place, length)
            place += length
            index += 1


@compiled
def _varint_bytes(value: int) -> int:
    raw = value << 1 ^ value >> 63
    count = 1
    while raw > 127 or raw < 0:
        raw = raw >> 7 & 0x01FF_FFFF_FFFF_FFFF
        count += 1
    return count


@compiled
def _put_varint(out: Bytes, place: int, value: int) -> int:
    """Where it ends."""
    raw = value << 1 ^ value >> 63
    while raw > 127 or raw < 0:
        out[place] = raw & 127 | 128
        raw = raw >> 7 & 0x01FF_FFFF_FFFF_FFFF
        place += 1
    out[place] = raw
    return place + 1


@compiled
def _field_bytes(offsets: Ints, nulls: Bytes, index: int) -> Any:
    if nulls[index]:
        return 1
    length = offsets[index + 1] - offsets[index]
    return _varint_bytes(length) + length


@compiled
def _put_field(out: Bytes, place: int, data: Bytes, offsets: Ints, nulls: Bytes, index: int) -> Any:
    if nulls[index]:
        return _put_varint(out, place, -1)
    length = offsets[index + 1] - offsets[index]
    place = _put_varint(out, place, length)
    _copy(out, place, data, offsets[index], length)
    return place + length


@compiled
def write(
    out: Bytes,
    row: int,
    row_end: int,
    offsets: Ints,
    timestamps: Ints,
    keys: Bytes,
    key_offsets: Ints,
    key_nulls: Bytes,
    values: Bytes,
    value_offsets: Ints,
    value_nulls: Bytes,
    header_offsets: Ints,
    names: Bytes,
    name_offsets: Ints,
    name_nulls: Bytes,
    contents: Bytes,
    content_offsets: Ints,
    content_nulls: Bytes,
) -> Any:
    """Encode rows from `row` on as the body of one batch, as many as fit into `out`, with deltas from the first one.

    (bytes written, the row behind the last one). None is written when `out` is too small for the first one. Offsets of
    binary columns have one entry more than there are rows, or headers.
    """
    first_offset = offsets[row]
    first_timestamp = timestamps[row]
    place = 0
    while row < row_end:
        offset_delta = offsets[row] - first_offset
        if offset_delta > 0x7FFF_FFFF:
            break
        timestamp_delta = timestamps[row] - first_timestamp
        first, last = header_offsets[row], header_offsets[row + 1]
        size = 1 + _varint_bytes(timestamp_delta) + _varint_bytes(offset_delta) + _varint_bytes(last - first)
        size += _field_bytes(key_offsets, key_nulls, row) + _field_bytes(value_offsets, value_nulls, row)
        for header in range(first, last):
            size += _field_bytes(name_offsets, name_nulls, header)
            size += _field_bytes(content_offsets, content_nulls, header)
        if place + _varint_bytes(size) + size > len(out):
            break
        place = _put_varint(out, place, size)
        out[place] = 0
        place = _put_varint(out, place + 1, timestamp_delta)
        place = _put_varint(out, place, offset_delta)
        place = _put_field(out, place, keys, key_offsets, key_nulls, row)
        place = _put_field(out, place, values, value_offsets, value_nulls, row)
        place = _put_varint(out, place, last - first)
        for header in range(first, last):
            place = _put_field(out, place, names, name_offsets, name_nulls, header)
            place = _put_field(out, place, contents, content_offsets, content_nulls, header)
        row += 1
    return place, row


@compiled
def retain(data: Bytes, keep: Bytes, timestamps: Ints, base_timestamp: int, out: Bytes) -> Any:
    """Write the records of one body that `keep` (one per record, 0 or 1) names, with deltas from another base timestamp.

    `walk` has been through `data` and filled `timestamps`. Bytes behind a record's timestamp are copied unchanged.
    `out` has room for ten bytes a record more than `data`. Returns the number of bytes written.
    """
    end = len(data)
    place = 0
    written = 0
    for row in range(len(keep)):
        length, place = _varint(data, place, end)
        stop = place + length
        if keep[row]:
            _, rest = _varint(data, place + 1, stop)
            delta = timestamps[row] - base_timestamp
            written = _put_varint(out, written, 1 + _varint_bytes(delta) + stop - rest)
            out[written] = data[place]
            written = _put_varint(out, written + 1, delta)
            _copy(out, written, data, rest, stop - rest)
            written += stop - rest
        place = stop
    return written


def read_only(buffer: Any) -> Bytes:
    """The bytes of a buffer as `data`, not copied."""
    return np.frombuffer(memoryview(buffer).toreadonly(), np.uint8)
