"""Delayed records, in C: calls of native/delays.c. They take microseconds, and keep the interpreter's lock."""

from __future__ import annotations

import ctypes
from array import array
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records.delay_layout import ENTRY_BYTES, DelayedSplit, DelayTerms
from bmq.records.native import structures
from bmq.records.native.calls import brief_function, checked
from bmq.records.native.memory import Pins

_Int64: Final = ctypes.c_int64
_Pointer: Final = ctypes.c_void_p

_split_delays = brief_function(
    "bmq_split_delays",
    *(_Pointer, _Int64, _Int64, _Int64, _Pointer),
    *(_Pointer, _Pointer, _Pointer, _Pointer),
)


def split_delays(body: Buffer, record_count: int, last_delta: int, terms: DelayTerms) -> DelayedSplit | None:
    """As delays.split_delays."""
    levels = array("q", terms.levels_ms)
    entries, bodies, kept = bytearray(ENTRY_BYTES * max(record_count, 0)), bytearray(len(body)), bytearray(len(body))
    split = structures.DelaySplit()
    with Pins() as pins:
        of_terms = structures.DelayTerms(
            pins.address(memoryview(levels).cast("B")),
            len(levels),
            terms.now_ms,
            terms.delay_max_ms,
            terms.time_max_ms,
            terms.floor_ms,
            terms.base_timestamp_ms,
            terms.append_time_ms or 0,
            terms.append_time_ms is not None,
        )
        status = checked(
            _split_delays(
                pins.address(body),
                len(body),
                record_count,
                last_delta,
                ctypes.byref(of_terms),
                pins.address(entries),
                pins.address(bodies),
                pins.address(kept),
                ctypes.byref(split),
            )
        )
    if status:
        return None
    return DelayedSplit(
        split.held_count,
        memoryview(entries)[: ENTRY_BYTES * split.held_count],
        memoryview(bodies)[: split.held_bytes],
        split.kept_count,
        memoryview(kept)[: split.kept_bytes],
        split.newest_ms,
    )
