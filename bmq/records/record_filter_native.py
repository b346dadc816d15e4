"""Which records pass a filter, in C: calls of native/record_filter.c."""

from __future__ import annotations

import ctypes
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records.native import structures
from bmq.records.native.calls import brief_function, checked, function
from bmq.records.native.memory import Pins
from bmq.records.record_filter_layout import SHOWN, SHOWN_MAX, TERMS_MAX, FilteredRecords, RecordFilter, ShownBatches
from bmq.records.records_twin import Damage

BRIEF_BYTES_MAX: Final = 32 * 1024
"""Bodies up to this size are looked at in microseconds, with the interpreter's lock."""

SHOW_BRIEF_BYTES_MAX: Final = 128 * 1024
"""As BRIEF_BYTES_MAX, for whole batches: a usual one takes some 10 us."""

_Int64: Final = ctypes.c_int64
_Pointer: Final = ctypes.c_void_p
_TYPES: Final = (_Pointer, _Int64, _Int64, _Int64, _Pointer, _Pointer, _Pointer)

_briefly = brief_function("bmq_passing_records", *_TYPES)
_at_length = function("bmq_passing_records", *_TYPES)
_SHOW_TYPES: Final = (_Pointer, _Int64, _Pointer, _Pointer, _Int64, _Pointer, _Pointer)
_show_briefly = brief_function("bmq_show_batches", *_SHOW_TYPES)
_show_at_length = function("bmq_show_batches", *_SHOW_TYPES)


class ScanBuffers:
    """As record_filter.ScanBuffers."""

    __slots__ = ("found", "out")

    def __init__(self) -> None:
        self.out = bytearray()
        self.found = bytearray(SHOWN.size * SHOWN_MAX)


class CompiledFilter:
    """As record_filter.CompiledFilter."""

    def __init__(self, wanted: RecordFilter) -> None:
        if len(wanted.terms) > TERMS_MAX:
            raise ValueError(f"a filter with {len(wanted.terms)} terms")
        texts, strings, terms = bytearray(), list[int](), list[int]()

        def add(some: tuple[bytes, ...]) -> None:
            terms.extend((len(strings) // 2, len(some)))
            for text in some:
                strings.extend((len(texts), len(text)))
                texts.extend(text)

        for term in wanted.terms:
            add(term.names)
            add(term.values)
        # Kept here as long as the structure that points to them.
        self._texts = ctypes.create_string_buffer(bytes(texts))
        self._strings = (_Int64 * max(len(strings), 1))(*strings)
        self._terms = (_Int64 * max(len(terms), 1))(*terms)
        self._filter = structures.RecordFilter(
            ctypes.addressof(self._texts),
            ctypes.addressof(self._strings),
            ctypes.addressof(self._terms),
            len(wanted.terms),
            wanted.truths,
        )

    def filter_records(self, body: Buffer, last: FilteredRecords, count: int, last_delta: int) -> FilteredRecords:
        """As record_filter.CompiledFilter.filter_records."""
        count = min(count, len(body) + 1)  # a record has a byte at least: one too many is enough to show damage
        runs = (_Int64 * (2 * max(count, 0)))()
        found = structures.FilteredRecords(last.place, last.previous)
        with Pins() as pins:
            status = checked(
                (_briefly if len(body) <= BRIEF_BYTES_MAX else _at_length)(
                    pins.address(body),
                    len(body),
                    count,
                    last_delta,
                    ctypes.byref(self._filter),
                    runs,
                    ctypes.byref(found),
                )
            )
        if status:
            raise Damage(-status)
        bounds = iter(runs[: 2 * found.run_count])
        return FilteredRecords(found.place, found.previous, list(zip(bounds, bounds, strict=True)), found.passed)

    def filter_batches(
        self, data: Buffer, place: int, offset: int, room: ScanBuffers
    ) -> tuple[list[ShownBatches], int]:
        """As record_filter.CompiledFilter.filter_batches."""
        if len(room.out) < len(data):
            room.out = bytearray(len(data))
        showing = structures.Showing(place, offset)
        with Pins() as pins:
            checked(
                (_show_briefly if len(data) - place <= SHOW_BRIEF_BYTES_MAX else _show_at_length)(
                    pins.address(data),
                    len(data),
                    ctypes.byref(self._filter),
                    pins.address(room.found),
                    SHOWN_MAX,
                    pins.address(room.out),
                    ctypes.byref(showing),
                )
            )
        found = memoryview(room.found)[: SHOWN.size * showing.count]
        return [ShownBatches._make(one) for one in SHOWN.iter_unpack(found)], showing.place
