"""Rows of held records, in C: calls of native/held_rows.c. They take microseconds or few milliseconds, and keep the lock."""

from __future__ import annotations

import ctypes
from array import array
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records.delay_layout import ENTRY_BYTES
from bmq.records.held_row_layout import HEAD_BYTES, ROW_FIELDS
from bmq.records.native.calls import brief_function, checked
from bmq.records.native.memory import Pins

_Int64: Final = ctypes.c_int64
_Pointer: Final = ctypes.c_void_p

_held_rows = brief_function("bmq_held_rows", _Pointer, *(_Int64,) * 6, _Pointer)
_sort_rows = brief_function("bmq_sort_rows", _Pointer, _Int64, _Pointer)
_block_rows = brief_function("bmq_block_rows", _Pointer, _Int64, _Int64, _Pointer)
_write_rows = brief_function(
    "bmq_write_rows", _Pointer, _Int64, _Int64, _Pointer, _Int64, _Int64, _Pointer, _Int64, _Pointer
)


def held_rows(entries: Buffer, base_offset: int, bodies_bytes: int, start: int, above: tuple[int, int]) -> array[int]:
    """As held_rows.held_rows."""
    count = len(entries) // ENTRY_BYTES
    rows = array("q", bytes(8 * ROW_FIELDS * count))
    with Pins() as pins:
        found = checked(
            _held_rows(pins.address(entries), count, base_offset, bodies_bytes, start, *above, pins.address(rows))
        )
    del rows[ROW_FIELDS * found :]
    return rows


def sort_rows(rows: array[int]) -> None:
    """As held_rows.sort_rows."""
    room = array("q", bytes(8 * len(rows)))
    with Pins() as pins:
        has_twice = _sort_rows(pins.address(rows), len(rows) // ROW_FIELDS, pins.address(room))
    if has_twice:
        raise ValueError("two held records have the same due time and name")


def block_rows(block: Buffer, count: int) -> array[int]:
    """As held_rows.block_rows."""
    if not 0 <= count * HEAD_BYTES <= len(block):
        raise ValueError("a block of other records than it says")
    rows = array("q", bytes(8 * ROW_FIELDS * count))
    with Pins() as pins:
        checked(_block_rows(pins.address(block), len(block), count, pins.address(rows)))
    return rows


def write_rows(rows: array[int], row: int, bodies: Buffer, block_bytes: int) -> tuple[bytearray, int]:
    """As held_rows.write_rows."""
    behind = _Int64()
    out = bytearray(block_bytes)
    while True:
        with Pins() as pins:
            size = checked(
                _write_rows(
                    *(pins.address(rows), len(rows) // ROW_FIELDS, row, pins.address(bodies), len(bodies), block_bytes),
                    *(pins.address(out), len(out), ctypes.byref(behind)),
                )
            )
        if size <= len(out):
            del out[size:]
            return out, behind.value
        out = bytearray(size)
