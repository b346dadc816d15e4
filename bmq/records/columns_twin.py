"""Columns of records in Python: as native/columns.c, for any bytes. Pure."""

from __future__ import annotations

from struct import Struct
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records import batch_layout as layout
from bmq.records.batch_layout import Bodies, Stopped
from bmq.records.column_layout import DATA_BYTES_MAX, INLINE_BYTES_MAX, Binary, Columns, Table, Written
from bmq.records.records_twin import Body, Damage, append_varint, bodies_of, record_places, varint, wrapped

_LOG_APPEND_TIME: Final = 1 << 3
_INT64: Final = Struct("=q")
_INT32: Final = Struct("=i")
_SHORT: Final = Struct("=i12s")
_LONG: Final = Struct("=i4sii")
_INT32_MAX: Final = (1 << 31) - 1
_CONTRADICTION: Final = "columns, bodies and their sizes contradict each other"


def _view(data: Buffer, place: int, length: int) -> bytes:
    if length > INLINE_BYTES_MAX:
        return _LONG.pack(length, bytes(data[place : place + 4]), 0, place)
    return _SHORT.pack(max(length, 0), bytes(data[place : place + max(length, 0)]))


def _put(column: Buffer, row: int, item: bytes) -> None:
    memoryview(column).cast("B")[row * len(item) : (row + 1) * len(item)] = item


def walk(bodies: Bodies, is_opened: Buffer, wanted: int, columns: Columns) -> Stopped:
    """As columns.walk."""
    if len(bodies.data) > DATA_BYTES_MAX:
        raise ValueError(_CONTRADICTION)
    row = headers_before = 0
    for number, body in enumerate(bodies_of(bodies)):
        count = body.batch[12]
        if count > columns.rows_max - row:
            raise ValueError(_CONTRADICTION)
        if is_opened[number]:
            try:
                headers_before = _walk_body(bodies.data, body, wanted, row, headers_before, columns)
            except Damage as damage:
                return Stopped(-damage.kind, number)
        else:
            for at in range(count):
                _put(columns.offsets, row + at, _INT64.pack(body.batch[0] + at))
                if wanted & layout.WANTS_TIMESTAMP:
                    _put(columns.timestamps, row + at, _INT64.pack(body.batch[8]))
        row += count
    return Stopped(0, bodies.batch_count)


def _walk_body(data: Buffer, body: Body, wanted: int, row: int, headers_before: int, columns: Columns) -> int:
    """How many headers lie behind it."""
    batch = body.batch
    for record in record_places(data, body.start, body.end, batch[12], batch[6], wanted):
        _put(columns.offsets, row, _INT64.pack(batch[0] + record.offset_delta))
        if wanted & layout.WANTS_TIMESTAMP:
            has_append_time = batch[5] & _LOG_APPEND_TIME
            timestamp_ms = batch[8] if has_append_time else wrapped(batch[7] + record.timestamp_delta)
            _put(columns.timestamps, row, _INT64.pack(timestamp_ms))
        if wanted & layout.WANTS_KEY:
            _put(columns.key_nulls, row, bytes((record.key_bytes < 0,)))
            _put(columns.key_views, row, _view(data, record.key, record.key_bytes))
        if wanted & layout.WANTS_VALUE:
            _put(columns.value_nulls, row, bytes((record.value_bytes < 0,)))
            _put(columns.value_views, row, _view(data, record.value, record.value_bytes))
        if wanted & layout.WANTS_HEADERS:
            headers_before += record.header_count
            _put(columns.header_places, row, _INT64.pack(record.headers))
            _put(columns.header_offsets, row + 1, _INT32.pack(headers_before))
        row += 1
    return headers_before


def walk_headers(
    data: Buffer, header_places: Buffer, name_views: Buffer, value_views: Buffer, value_nulls: Buffer
) -> int:
    """As columns.walk_headers."""
    count_max, index, end = memoryview(value_nulls).nbytes, 0, len(data)
    if end > DATA_BYTES_MAX:
        raise ValueError(_CONTRADICTION)
    try:
        for place in memoryview(header_places).cast("B").cast("q"):
            if place < 0:
                raise ValueError(_CONTRADICTION)
            count, at = varint(data, place, end)
            if not 0 <= count <= count_max - index:
                return -layout.BAD_HEADERS
            for _ in range(count):
                length, at = varint(data, at, end)
                if not 0 <= length <= end - at:
                    return -layout.BAD_HEADERS
                _put(name_views, index, _view(data, at, length))
                length, at = varint(data, at + length, end)
                if not -1 <= length <= end - at:
                    return -layout.BAD_HEADERS
                _put(value_nulls, index, bytes((length < 0,)))
                _put(value_views, index, _view(data, at, length))
                at += max(length, 0)
                index += 1
    except Damage:
        return -layout.BAD_HEADERS
    return 0 if index == count_max else -layout.BAD_HEADERS


class _Field:
    """A column of bytes whose entries are encoded one by one."""

    def __init__(self, column: Binary) -> None:
        self._data = memoryview(column.data).cast("B")
        self._offsets = memoryview(column.offsets).cast("B").cast("q")
        self._nulls = memoryview(column.nulls).cast("B")

    def append(self, out: bytearray, index: int) -> None:
        """Raises ValueError when its offsets do not lie in its data."""
        if self._nulls[index]:
            append_varint(out, -1)
            return
        begin, end = self._offsets[index], self._offsets[index + 1]
        if not 0 <= begin <= end <= len(self._data):
            raise ValueError(_CONTRADICTION)
        append_varint(out, end - begin)
        out += self._data[begin:end]


class Writer:
    """As columns.Writer."""

    def __init__(self, table: Table, row_count: int) -> None:
        self._row_count = row_count
        self._offsets, self._timestamps, self._headers = (
            memoryview(column).cast("B").cast("q") for column in table[:3]
        )
        self._columns = [_Field(column) for column in (table.keys, table.values, table.names, table.contents)]
        self._header_count = table.header_count
        if len(self._offsets) < row_count or len(self._timestamps) < row_count or len(self._headers) <= row_count:
            raise ValueError(_CONTRADICTION)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def write(self, row: int, row_end: int, out: bytearray) -> Written:
        """As columns.Writer.write."""
        row_end = min(row_end, self._row_count)
        if not 0 <= row < row_end:
            raise ValueError(_CONTRADICTION)
        offsets, timestamps = self._offsets, self._timestamps
        place, greatest_ms = 0, -(1 << 63)
        first_offset, first_timestamp = offsets[row], timestamps[row]
        while row < row_end:
            offset_delta = wrapped(offsets[row] - first_offset)
            record = self._record(row, offset_delta, wrapped(timestamps[row] - first_timestamp))
            head = bytearray()
            append_varint(head, len(record))
            size = len(head) + len(record)
            if not 0 <= offset_delta <= _INT32_MAX or size > len(out) - place:
                break
            out[place : place + size] = head + record
            place += size
            greatest_ms = max(greatest_ms, timestamps[row])
            row += 1
        return Written(place, row, greatest_ms)

    def _record(self, row: int, offset_delta: int, timestamp_delta: int) -> bytearray:
        first, last = self._headers[row], self._headers[row + 1]
        if not 0 <= first <= last <= self._header_count:
            raise ValueError(_CONTRADICTION)
        keys, values, names, contents = self._columns
        record = bytearray(1)
        append_varint(record, timestamp_delta)
        append_varint(record, offset_delta)
        keys.append(record, row)
        values.append(record, row)
        append_varint(record, last - first)
        for header in range(first, last):
            names.append(record, header)
            contents.append(record, header)
        return record
