"""Due records and their delivery in Python: as native/deliveries.c, and the oracle of its tests. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records import batch_layout as layout
from bmq.records.delay_layout import CREATED_HEADER, DUE_HEADER, OFFSET_HEADER
from bmq.records.held_row_layout import ROW_FIELDS, DueTerms
from bmq.records.records_twin import Damage, append_varint, varint

_NAMES: Final = (OFFSET_HEADER, DUE_HEADER, CREATED_HEADER)
_ENTRY: Final = Struct(">qqii")
_OFFSET_MAX: Final = 2**62


def due_rows(entries: Buffer, bodies: Buffer, terms: DueTerms) -> tuple[array[int], bytearray]:
    """As deliveries.due_rows."""
    if not (0 <= terms.base_offset <= _OFFSET_MAX and 0 <= terms.start <= _OFFSET_MAX):
        raise ValueError("numbers that contradict each other")
    rows, taken, place = array("q"), bytearray(), 0
    for due_ms, created_ms, delta, length in _ENTRY.iter_unpack(entries):
        name = terms.base_offset + delta
        if not 0 <= length <= len(bodies) - place:
            raise ValueError("held records that have other bodies")
        if terms.above < (due_ms, name) <= terms.until:
            rows.extend((due_ms, name, created_ms, terms.start + len(taken), length))
            taken += bodies[place : place + length]
        place += length
    if place != len(bodies):
        raise ValueError("held records that have other bodies")
    return rows, taken


def delivered_records(rows: array[int], part_of: array[int], parts: Sequence[Buffer]) -> bytearray:
    """As deliveries.delivered_records."""
    if len(rows) != ROW_FIELDS * len(part_of):
        raise ValueError("numbers that contradict each other")
    out = bytearray()
    for delta, number in enumerate(part_of):
        due_ms, name, created_ms, body, length = rows[delta * ROW_FIELDS : (delta + 1) * ROW_FIELDS]
        if not (0 <= number < len(parts) and length >= 0 and 0 <= body <= len(parts[number]) - length):
            raise ValueError("numbers that contradict each other")
        _append(out, parts[number][body : body + length], delta, (name, due_ms, created_ms))
    return out


def _append(out: bytearray, body: Buffer, delta: int, numbers: tuple[int, int, int]) -> None:
    count_start = _behind_field(body, _behind_field(body, 0))
    count, headers_start = varint(body, count_start, len(body))
    if not 0 <= count <= len(body):
        raise Damage(layout.BAD_HEADERS)
    data = bytearray(b"\0\0")  # attributes, and no time behind the batch's
    append_varint(data, delta)
    data += body[:count_start]
    append_varint(data, count + len(_NAMES))
    data += body[headers_start:]
    for name, number in zip(_NAMES, numbers, strict=True):
        for field in (name, b"%d" % number):
            append_varint(data, len(field))
            data += field
    append_varint(out, len(data))
    out += data


def _behind_field(body: Buffer, place: int) -> int:
    length, place = varint(body, place, len(body))
    if not -1 <= length <= len(body) - place:
        raise Damage(layout.BAD_LENGTH)
    return place + max(length, 0)
