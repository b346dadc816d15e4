"""The kernel's scan of batches, in C: calls of native/columns.c. The interpreter's lock is released meanwhile."""

from __future__ import annotations

import ctypes
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records.batch_layout import BATCH, Scanned
from bmq.records.native import structures
from bmq.records.native.calls import checked, function
from bmq.records.native.memory import Pins

_Int64: Final = ctypes.c_int64
_Pointer: Final = ctypes.c_void_p

_scan = function("bmq_scan", _Pointer, _Int64, _Int64, _Int64, _Int64, _Pointer, _Int64, _Pointer)


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
    """As reading.scan_batches."""
    found = bytearray(batches_max * BATCH.size)
    state = structures.Scan(place=place, last_offset=last_offset)
    with Pins() as pins:
        checked(
            _scan(
                pins.address(data),
                len(data),
                rows_max,
                bytes_max,
                batch_bytes_max,
                pins.address(found),
                batches_max,
                ctypes.byref(state),
            )
        )
    del found[state.count * BATCH.size :]
    return Scanned(found, state.count, state.rows, state.place, state.size_bytes, state.last_offset, state.why)
