"""The kernel's part of compaction, in C: calls of native/cleaning.c. The interpreter's lock is released meanwhile."""

from __future__ import annotations

import ctypes
from array import array
from struct import Struct
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records import batch_layout as layout
from bmq.records.batch_layout import KEPT, Bodies, Chosen, Hashed, KeyTable, Noted, Retained
from bmq.records.native import structures
from bmq.records.native.calls import body_structure, checked, function
from bmq.records.native.memory import Pins

_SEED: Final = Struct("<2Q")
_Int64: Final = ctypes.c_int64
_Pointer: Final = ctypes.c_void_p
_Uint64: Final = ctypes.c_uint64

_note_keys = function("bmq_note_keys", _Pointer, _Pointer, _Int64, _Pointer, _Pointer)
_hash_keys = function(
    "bmq_hash_keys",
    *(_Pointer, _Pointer, _Int64, _Uint64, _Uint64, _Int64, _Pointer, _Pointer, _Pointer, _Pointer, _Pointer),
)
_note_hashes = function("bmq_note_hashes", _Pointer, _Pointer, _Pointer, _Pointer, _Int64, _Int64)
_choose = function(
    "bmq_choose_survivors", _Pointer, _Pointer, _Int64, _Int64, _Pointer, _Int64, _Pointer, _Pointer, _Pointer
)
_write_survivors = function(
    "bmq_write_survivors", _Pointer, _Int64, _Pointer, _Int64, _Int64, _Pointer, _Int64, _Pointer
)


def _map(table: KeyTable, pins: Pins) -> structures.KeyMap:
    slots = pins.address(table.slots, table.slot_count * layout.SLOT.size)
    return structures.KeyMap(
        slots, table.slot_count, table.count, table.count_max, table.base_offset, *_SEED.unpack(table.seed)
    )


def note_keys(bodies: Bodies, skipped: Buffer, dirty_offset: int, table: KeyTable) -> Noted:
    """As key_compaction.note_keys."""
    with Pins() as pins:
        of_table, noting = _map(table, pins), structures.Noting()
        status = _note_keys(
            ctypes.byref(body_structure(bodies, pins)),
            pins.address(skipped, bodies.batch_count),
            dirty_offset,
            ctypes.byref(of_table),
            ctypes.byref(noting),
        )
    table.count = of_table.count
    return Noted(checked(status), noting.number, noting.full_offset)


def hash_keys(bodies: Bodies, skipped: Buffer, dirty_offset: int, seed: bytes) -> Hashed:
    """As key_compaction.hash_keys."""
    rows = _rows(bodies)
    first, second, offsets = array("Q", bytes(8 * rows)), array("Q", bytes(8 * rows)), array("q", bytes(8 * rows))
    taken, number = _Int64(), _Int64()
    with Pins() as pins:
        status = _hash_keys(
            ctypes.byref(body_structure(bodies, pins)),
            pins.address(skipped, bodies.batch_count),
            dirty_offset,
            *_SEED.unpack(seed),
            rows,
            *(pins.address(memoryview(one)) for one in (first, second, offsets)),
            ctypes.byref(taken),
            ctypes.byref(number),
        )
    for column in (first, second, offsets):
        del column[taken.value :]
    return Hashed(checked(status), number.value, first, second, offsets)


def note_hashes(table: KeyTable, first: Buffer, second: Buffer, offsets: Buffer, end_offset: int) -> int:
    """As key_compaction.note_hashes."""
    with Pins() as pins:
        of_table = _map(table, pins)
        count = memoryview(offsets).nbytes // 8
        noted = _note_hashes(
            ctypes.byref(of_table),
            pins.address(first, 8 * count),
            pins.address(second, 8 * count),
            pins.address(offsets),
            count,
            end_offset,
        )
    table.count = of_table.count
    return checked(noted)


def choose_survivors(bodies: Bodies, discarded: Buffer, noted_offset: int, now_ms: int, table: KeyTable) -> Chosen:
    """As key_compaction.choose_survivors."""
    keep, kept = bytearray(_rows(bodies)), bytearray(KEPT.size * bodies.batch_count)
    number = _Int64()
    with Pins() as pins:
        status = _choose(
            ctypes.byref(body_structure(bodies, pins)),
            pins.address(discarded, bodies.batch_count),
            noted_offset,
            now_ms,
            ctypes.byref(_map(table, pins)),
            len(keep),
            pins.address(keep),
            pins.address(kept),
            ctypes.byref(number),
        )
    return Chosen(checked(status), number.value, keep, kept)


def write_survivors(
    bodies: Bodies, number: int, keep: Buffer, base_timestamp_ms: int | None, out: bytearray
) -> Retained:
    """As key_compaction.write_survivors."""
    written = structures.Retained(base_timestamp_ms=base_timestamp_ms or 0)
    with Pins() as pins:
        status = _write_survivors(
            ctypes.byref(body_structure(bodies, pins)),
            number,
            pins.address(keep),
            len(keep),
            base_timestamp_ms is not None,
            pins.address(out),
            len(out),
            ctypes.byref(written),
        )
    return Retained(checked(status), written.bytes, written.count, written.base_timestamp_ms, written.max_timestamp_ms)


def _rows(bodies: Bodies) -> int:
    batches = memoryview(bodies.batches)[: bodies.batch_count * layout.BATCH.size]
    return sum(batch[12] for batch in layout.BATCH.iter_unpack(batches))
