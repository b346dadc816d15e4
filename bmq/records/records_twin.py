"""The kernel's reading of batches and records in Python: what runs where there is no compiler, and the oracle of its tests. Pure.

Each function gives what the function of the same name in native/ gives, for any bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from bmq.protocol.compression import Buffer
from bmq.protocol.record_batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES
from bmq.records import batch_layout as layout
from bmq.records.batch_layout import BATCH, Bodies, Scanned

_HEADER: Final = Struct(">qiibIhiqqqhii")
_LENGTH: Final = Struct(">8xI")
_INT32_MAX: Final = (1 << 31) - 1
_UINT64_MAX: Final = (1 << 64) - 1
_OFFSET_MAX: Final = (1 << 63) - (1 << 32)
_CODEC_MASK: Final = 7
_CODEC_MAX: Final = 4
_VARINT_SHIFT_MAX: Final = 63


class Damage(Exception):
    """A record that cannot be read; `kind` as in batch_layout."""

    def __init__(self, kind: int) -> None:
        super().__init__(layout.REASONS[kind])
        self.kind = kind


class RecordPlaces(NamedTuple):
    """Where a record's parts begin. A length of -1 is null; what was not wanted is 0."""

    begin: int
    stop: int
    timestamp_delta: int
    behind_timestamp: int
    offset_delta: int
    key: int
    key_bytes: int
    value: int
    value_bytes: int
    headers: int
    header_count: int


def wrapped(value: int) -> int:
    """A sum or difference of int64, wrapped as the kernel's are."""
    return ((value + (1 << 63)) & _UINT64_MAX) - (1 << 63)


def varint(data: Buffer, place: int, end: int) -> tuple[int, int]:
    """(value, where it ends) of the zigzag varint of up to 64 bits. Raises Damage."""
    raw = shift = 0
    while True:
        if place >= end:
            raise Damage(layout.CUT)
        byte = data[place]
        place += 1
        if shift == _VARINT_SHIFT_MAX and byte > 1:
            raise Damage(layout.LONG_VARINT)
        raw |= (byte & 127) << shift
        if byte < 128:
            return (raw >> 1) ^ -(raw & 1), place
        shift += 7


def append_varint(out: bytearray, value: int) -> None:
    """Append the zigzag varint of an int64."""
    raw = (value << 1 ^ value >> 63) & _UINT64_MAX
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)


def _field(data: Buffer, place: int, stop: int) -> tuple[int, int, int]:
    """(where it begins, its length, where it ends)."""
    length, place = varint(data, place, stop)
    if not -1 <= length <= stop - place:
        raise Damage(layout.BAD_LENGTH)
    return place, length, place + max(length, 0)


def _headers_end(data: Buffer, place: int, stop: int) -> tuple[int, int]:
    """(how many, where they end) of the record headers at `place`."""
    count, place = varint(data, place, stop)
    if not 0 <= count <= stop - place:
        raise Damage(layout.BAD_HEADERS)
    for _ in range(count):
        length, place = varint(data, place, stop)
        if not 0 <= length <= stop - place:
            raise Damage(layout.BAD_HEADERS)
        length, place = varint(data, place + length, stop)
        if not -1 <= length <= stop - place:
            raise Damage(layout.BAD_HEADERS)
        place += max(length, 0)
    return count, place


def record_places(
    data: Buffer, place: int, end: int, count: int, last_delta: int, wanted: int
) -> Iterator[RecordPlaces]:
    """The `count` records of the body data[place:end], as far as `wanted` (batch_layout.WANTS_…) says. Raises Damage."""
    for places in record_places_from(data, place, end, count, last_delta, wanted, -1):
        place = places.stop
        yield places
    if place != end:
        raise Damage(layout.BYTES_LEFT)


def record_places_from(
    data: Buffer, place: int, end: int, count: int, last_delta: int, wanted: int, previous: int
) -> Iterator[RecordPlaces]:
    """As record_places, behind a record with the offset delta `previous`; bytes may be left behind them."""
    for _ in range(count):
        begin = place
        length, place = varint(data, place, end)
        if not 1 <= length <= end - place:
            raise Damage(layout.CUT)
        stop = place + length
        timestamp_delta, place = varint(data, place + 1, stop)
        behind_timestamp = place
        offset_delta, place = varint(data, place, stop)
        if not previous < offset_delta <= last_delta:
            raise Damage(layout.OFFSETS_DO_NOT_GROW)
        previous = offset_delta
        key = key_bytes = value = value_bytes = headers = header_count = 0
        if wanted >= layout.WANTS_KEY:
            key, key_bytes, place = _field(data, place, stop)
        if wanted >= layout.WANTS_VALUE:
            value, value_bytes, place = _field(data, place, stop)
        if wanted >= layout.WANTS_HEADERS:
            headers = place
            header_count, place = _headers_end(data, place, stop)
            if place != stop:
                raise Damage(layout.WRONG_END)
        yield RecordPlaces(
            begin, stop, timestamp_delta, behind_timestamp, offset_delta, key, key_bytes, value, value_bytes, headers,
            header_count,
        )  # fmt: skip
        place = stop


class Body(NamedTuple):
    """One batch of Bodies: its unpacked BATCH, and where its body lies."""

    batch: tuple[int, ...]
    start: int
    end: int


def bodies_of(bodies: Bodies) -> list[Body]:
    """Raises ValueError when they do not lie in the data."""
    batches = BATCH.iter_unpack(memoryview(bodies.batches)[: bodies.batch_count * BATCH.size])
    found = [Body(batch, bodies.starts[number], bodies.ends[number]) for number, batch in enumerate(batches)]
    if any(not 0 <= body.start <= body.end <= len(bodies.data) or body.batch[12] < 0 for body in found):
        raise ValueError("bodies of batches do not lie in their data")
    return found


def scan_batches(
    data: Buffer,
    place: int,
    *,
    rows_max: int,
    bytes_max: int,
    batch_bytes_max: int,
    last_offset: int,
    batches_max: int,
) -> Scanned:
    """As records.reading.scan_batches."""
    found = bytearray()
    begin, end = place, len(data)
    count = rows = size = 0
    while True:
        if place == end:
            why = layout.SCANNED_ALL
            break
        if count == batches_max or (count and (rows >= rows_max or place - begin >= bytes_max)):
            why = layout.SCANNED_ENOUGH
            break
        if end - place < LENGTH_OVERHEAD_BYTES:
            why, size = layout.BATCH_IS_CUT, LENGTH_OVERHEAD_BYTES
            break
        length = _LENGTH.unpack_from(data, place)[0]
        if not length:
            why = layout.NO_LENGTH
            break
        size = length + LENGTH_OVERHEAD_BYTES
        if not HEADER_BYTES <= size <= batch_bytes_max or length > _INT32_MAX:
            why = layout.BAD_BATCH_LENGTH
            break
        if size > end - place:
            why = layout.BATCH_IS_CUT
            break
        header = _HEADER.unpack_from(data, place)
        if wrong := _impossible(header, last_offset):
            why, size = layout.BAD_HEADER + wrong, 0
            break
        found += BATCH.pack(*header, 0, place)
        last_offset = header[0] + header[6]
        count += 1
        rows += header[12]
        place += size
        size = 0
    return Scanned(found, count, rows, place, size, last_offset, why)


def _impossible(header: tuple[int, ...], last_offset: int) -> int:
    """Which check of IMPOSSIBLE failed; 0: none."""
    base_offset, last_delta, count = header[0], header[6], header[12]
    checks = (
        header[3] != 2,
        not 0 <= base_offset <= _OFFSET_MAX,
        last_delta < 0,
        count < 0,
        count > last_delta + 1,
        header[5] & _CODEC_MASK > _CODEC_MAX,
        base_offset <= last_offset,
    )
    return next((number for number, failed in enumerate(checks, 1) if failed), 0)


def headers_of(body: bytes, record: RecordPlaces) -> list[tuple[bytes, bytes | None]]:
    """The headers of a record that `record_places` has found, with WANTS_HEADERS."""
    place, headers = varint(body, record.headers, record.stop)[1], []
    for _ in range(record.header_count):
        length, place = varint(body, place, record.stop)
        name = body[place : place + length]
        length, place = varint(body, place + length, record.stop)
        headers.append((name, None if length < 0 else body[place : place + length]))
        place += max(length, 0)
    return headers
