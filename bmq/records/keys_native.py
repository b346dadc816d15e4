"""Keys of records, in C: calls of native/keys.c. They take microseconds, and keep the interpreter's lock."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records.key_layout import HASHES, LOCK_NUMBERS, NO_KEY, SLOTS, SPANS_MAX, KeyWindow, TakenKeys
from bmq.records.native import structures
from bmq.records.native.calls import brief_function, checked
from bmq.records.native.memory import Pins

_Int64: Final = ctypes.c_int64
_Pointer: Final = ctypes.c_void_p
_INT32_MAX: Final = (1 << 31) - 1

_key_hashes = brief_function("bmq_key_hashes", _Pointer, _Int64, _Int64, _Int64, _Int64, _Pointer)
_own_slots = brief_function("bmq_own_slots", _Pointer, _Int64, _Pointer)
_take_keys = brief_function("bmq_take_keys", _Pointer, _Int64, _Pointer, _Int64, _Pointer)


def key_hashes(body: Buffer, record_count: int, last_delta: int) -> tuple[int, array[int]]:
    """As keys.key_hashes."""
    if not 0 <= last_delta <= _INT32_MAX:
        raise ValueError(f"a last offset delta of {last_delta}")
    hashes = array("H", (NO_KEY,)) * (last_delta + 1)
    with Pins() as pins:
        status = _key_hashes(
            pins.address(body), 0, len(body), record_count, last_delta, pins.address(memoryview(hashes).cast("B"))
        )
    return checked(status), hashes


def own_slots(seeds: Sequence[int]) -> array[int]:
    """As keys.own_slots."""
    given, owners = array("Q", seeds), array("H", bytes(2 * SLOTS))
    with Pins() as pins:
        checked(_own_slots(pins.address(given), len(given), pins.address(owners)))
    return owners


def take_keys(window: KeyWindow, low: int, first: int, end: int, records_max: int) -> TakenKeys:
    """As keys.take_keys."""
    spans_max = max(min(records_max, SPANS_MAX), 0)
    spans = array("q", bytes(16 * spans_max))
    taken = structures.KeyTaken()
    with Pins() as pins:
        of_window = structures.KeyWindow(
            pins.address(window.states),
            pins.address(window.numbers, 2 * len(window.states)),
            pins.address(window.hashes),
            pins.address(window.mine, LOCK_NUMBERS),
            pins.address(window.owners, 2 * SLOTS),
            pins.address(bytearray(HASHES)),
            len(window.states),
            len(window.hashes),
            low,
            first,
            end,
            window.me,
        )
        checked(
            _take_keys(
                ctypes.byref(of_window), max(records_max, 0), pins.address(spans), spans_max, ctypes.byref(taken)
            )
        )
    bounds = iter(spans[: 2 * taken.span_count])
    return TakenKeys(list(zip(bounds, bounds, strict=True)), taken.taken, taken.next, taken.unknown, taken.waiting)
