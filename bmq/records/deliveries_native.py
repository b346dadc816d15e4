"""Due records and their delivery, in C: calls of native/deliveries.c. They take microseconds or few milliseconds, and keep the lock."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records.delay_layout import ENTRY_BYTES
from bmq.records.held_row_layout import BODY_BYTES, DELIVERED_BYTES_MAX, ROW_FIELDS, DueTerms
from bmq.records.native import structures
from bmq.records.native.calls import brief_function, checked
from bmq.records.native.memory import Pins
from bmq.records.records_twin import Damage

_Int64: Final = ctypes.c_int64
_Pointer: Final = ctypes.c_void_p

_due_rows = brief_function("bmq_due_rows", _Pointer, _Int64, *(_Pointer,) * 5)
_delivered_records = brief_function(
    "bmq_delivered_records", _Pointer, _Pointer, _Int64, _Pointer, _Int64, _Pointer, _Int64
)


def due_rows(entries: Buffer, bodies: Buffer, terms: DueTerms) -> tuple[array[int], bytearray]:
    """As deliveries.due_rows."""
    count = len(entries) // ENTRY_BYTES
    rows, taken, taken_bytes = array("q", bytes(8 * ROW_FIELDS * count)), bytearray(len(bodies)), _Int64()
    of_terms = structures.DueTerms(terms.base_offset, len(bodies), terms.start, *terms.above, *terms.until)
    with Pins() as pins:
        found = checked(
            _due_rows(
                *(pins.address(entries), count, pins.address(bodies), ctypes.byref(of_terms)),
                *(pins.address(rows), pins.address(taken), ctypes.byref(taken_bytes)),
            )
        )
    del rows[ROW_FIELDS * found :]
    del taken[taken_bytes.value :]
    return rows, taken


def delivered_records(rows: array[int], part_of: array[int], parts: Sequence[Buffer]) -> bytearray:
    """As deliveries.delivered_records."""
    count = len(part_of)
    if len(rows) != ROW_FIELDS * count:
        raise ValueError("numbers that contradict each other")
    lengths = rows[BODY_BYTES::ROW_FIELDS]
    if lengths and not 0 <= min(lengths) <= max(lengths) <= max(map(len, parts), default=0):
        raise ValueError("numbers that contradict each other")
    out = bytearray(sum(lengths) + DELIVERED_BYTES_MAX * count)
    with Pins() as pins:
        of_parts = (structures.DeliveredPart * len(parts))(
            *(structures.DeliveredPart(pins.address(part), len(part)) for part in parts)
        )
        size = checked(
            _delivered_records(
                *(pins.address(rows), pins.address(part_of), count, ctypes.addressof(of_parts), len(parts)),
                *(pins.address(out), len(out)),
            )
        )
    if size < 0:
        raise Damage(-size)
    del out[size:]
    return out
