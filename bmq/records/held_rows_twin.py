"""Rows of held records in Python: as native/held_rows.c, and the oracle of its tests. Pure."""

from __future__ import annotations

from array import array
from itertools import chain, pairwise
from struct import Struct
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records.held_row_layout import CANCELS, HEAD_BYTES, ROW_FIELDS

_ENTRY: Final = Struct(">qqii")
_HEAD: Final = Struct("<qqqI")
_LENGTH_OF_CANCELS: Final = 2**32 - 1
_OFFSET_MAX: Final = 2**62


def held_rows(entries: Buffer, base_offset: int, bodies_bytes: int, start: int, above: tuple[int, int]) -> array[int]:
    """As held_rows.held_rows."""
    if not (0 <= base_offset <= _OFFSET_MAX and 0 <= start <= _OFFSET_MAX and bodies_bytes >= 0):
        raise ValueError("numbers that contradict each other")
    rows, place = array("q"), 0
    for due_ms, created_ms, delta, length in _ENTRY.iter_unpack(entries):
        if not 0 <= length <= bodies_bytes - place:
            raise ValueError("held records that have other bodies")
        if (due_ms, base_offset + delta) > above:
            rows.extend((due_ms, base_offset + delta, created_ms, start + place, length))
        place += length
    if place != bodies_bytes:
        raise ValueError("held records that have other bodies")
    return rows


def sort_rows(rows: array[int]) -> None:
    """As held_rows.sort_rows."""
    found = sorted(zip(*(iter(rows),) * ROW_FIELDS, strict=True), key=lambda row: row[:2])
    rows[:] = array("q", chain.from_iterable(found))
    if any(one[:2] == other[:2] for one, other in pairwise(found)):
        raise ValueError("two held records have the same due time and name")


def block_rows(block: Buffer, count: int) -> array[int]:
    """As held_rows.block_rows."""
    rows, place, before = array("q"), 0, None
    if count < 0:
        raise ValueError("a block of other records than it says")
    for _ in range(count):
        if len(block) - place < HEAD_BYTES:
            raise ValueError("a block of other records than it says")
        due_ms, name, created_ms, length = _HEAD.unpack_from(block, place)
        place += HEAD_BYTES
        body_bytes = CANCELS if length == _LENGTH_OF_CANCELS else length
        if body_bytes > len(block) - place or (before is not None and before >= (due_ms, name)):
            raise ValueError("a block of other records than it says")
        rows.extend((due_ms, name, created_ms, place, body_bytes))
        place, before = place + max(body_bytes, 0), (due_ms, name)
    if place != len(block):
        raise ValueError("a block of other records than it says")
    return rows


def write_rows(rows: array[int], row: int, bodies: Buffer, block_bytes: int) -> tuple[bytearray, int]:
    """As held_rows.write_rows."""
    count = len(rows) // ROW_FIELDS
    if not 0 <= row <= count:
        raise ValueError("numbers that contradict each other")
    out = bytearray()
    while row < count and len(out) < block_bytes:
        due_ms, name, created_ms, body, length = rows[row * ROW_FIELDS : (row + 1) * ROW_FIELDS]
        row += 1
        if length == CANCELS:
            out += _HEAD.pack(due_ms, name, created_ms, _LENGTH_OF_CANCELS)
            continue
        if not (0 <= length < _LENGTH_OF_CANCELS and 0 <= body <= len(bodies) - length):
            raise ValueError("a held record whose body is not there")
        out += _HEAD.pack(due_ms, name, created_ms, length)
        out += bodies[body : body + length]
    return out, row
