"""BatchCheck by the kernel: native/record_check.c called through ctypes."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from bmq.protocol.record_batch import HEADER_BYTES
from bmq.records.buffers import Buffer, address_of
from bmq.records.native.library import Library
from bmq.records.record_check import Details, RefusalKind, RefusedRecord, Result, Rules

_REFUSED: Final = int(Result.REFUSED)  # a plain number compares four times as fast
_GOES_ON: Final = int(Result.GOES_ON)
BRIEF_BYTES_MAX: Final = 64 * 1024
"""Longer bodies are read without the interpreter's lock: that takes longer than other threads should wait."""


class _RefusedRecord(ctypes.Structure):
    _fields_ = (("index", ctypes.c_int64), ("kind", ctypes.c_int64), ("timestamp_ms", ctypes.c_int64))


class _Check(ctypes.Structure):
    _fields_ = (
        ("before_max_ms", ctypes.c_int64),
        ("after_max_ms", ctypes.c_int64),
        ("rules", ctypes.c_int64),
        ("refused", ctypes.c_void_p),
        ("refused_max", ctypes.c_int64),
        ("max_timestamp_ms", ctypes.c_int64),
        ("max_timestamp_index", ctypes.c_int64),
        ("refused_count", ctypes.c_int64),
        ("failed_index", ctypes.c_int64),
        ("failed_position", ctypes.c_int64),
    )


class _Walk(ctypes.Structure):
    """struct bmq_record_walk: nothing of it is read here."""

    _fields_ = (("words", ctypes.c_int64 * 14),)


_address_of = ctypes.addressof
_first_byte_of = ctypes.c_char.from_buffer


class NativeCheck:
    """BatchCheck by the kernel."""

    __slots__ = (
        "_address",
        "_check",
        "_check_batch",
        "_check_batch_at_length",
        "_check_opened",
        "_check_opened_at_length",
        "_check_part",
        "_header",
        "_last",
        "_now_ms",
        "_refused",
        "_walk",
        "costs_per_record_ns",
        "records_max",
    )

    def __init__(self, library: Library, rules: Rules, before_max_ms: int, after_max_ms: int) -> None:
        self.costs_per_record_ns = 20
        self.records_max = 2**31 - 1
        self._check = _Check(before_max_ms, after_max_ms, int(rules))
        self._address = _address_of(self._check)
        self._check_batch, self._check_opened = _functions(library.briefly)
        self._check_batch_at_length, self._check_opened_at_length = _functions(library.at_length)
        self._check_part = _part_function(library.at_length)
        self._walk = _Walk()
        self._header: ctypes.Array[ctypes.c_char] | None = None
        self._now_ms = 0
        self._refused: ctypes.Array[_RefusedRecord] | None = None  # of a batch in parts
        self._last: tuple[Buffer, Buffer, int] = (b"", b"", 0)

    def batch(self, batch: memoryview, now_ms: int) -> int:
        size_bytes = len(batch)
        if not size_bytes or size_bytes > BRIEF_BYTES_MAX or batch.readonly:
            return self._unusual_batch(batch, now_ms)
        result: int = self._check_batch(_address_of(_first_byte_of(batch)), size_bytes, now_ms, self._address)
        if result == _REFUSED:
            self._remember(batch, batch[HEADER_BYTES:], now_ms)
        return result

    def _unusual_batch(self, batch: memoryview, now_ms: int) -> int:
        address, _keep = address_of(batch)
        result: int = self._check_batch_at_length(address, len(batch), now_ms, self._address)
        if result == _REFUSED:
            self._remember(batch, batch[HEADER_BYTES:], now_ms)
        return result

    def opened(self, header: Buffer, body: Buffer, now_ms: int) -> int:
        if len(header) < HEADER_BYTES:
            return Result.NO_HEADER
        header_address, _keep_header = address_of(header)
        body_address, _keep_body = address_of(body)
        call = self._check_opened if len(body) <= BRIEF_BYTES_MAX else self._check_opened_at_length
        result: int = call(header_address, body_address or header_address, len(body), now_ms, self._address)
        if result == _REFUSED:
            self._remember(header, body, now_ms)
        return result

    def _remember(self, header: Buffer, body: Buffer, now_ms: int) -> None:
        """For naming its refused records. A batch in parts that was left is forgotten, and its memory not written to any more."""
        self._last = (header, body, now_ms)
        if self._refused is not None:
            self._check.refused, self._check.refused_max = None, 0
            self._refused = None

    def begin(self, header: Buffer, now_ms: int, refused_max: int) -> None:
        self._header = ctypes.create_string_buffer(bytes(memoryview(header)[:HEADER_BYTES]), HEADER_BYTES)
        self._now_ms = now_ms
        self._walk = _Walk()
        self._refused = (_RefusedRecord * max(refused_max, 1))()
        self._check.refused, self._check.refused_max = _address_of(self._refused), refused_max

    def part(self, part: Buffer, *, is_last: bool) -> int:
        header, check = self._header, self._check
        assert header is not None, "no batch is begun"
        header_address = _address_of(header)
        address, _keep = address_of(part)
        result: int = self._check_part(
            header_address,
            address or header_address,
            len(part),
            is_last,
            self._now_ms,
            self._address,
            _address_of(self._walk),
        )
        if result != _GOES_ON:
            self._header = None
            check.refused, check.refused_max = None, 0
            if result != _REFUSED:
                self._refused = None
        return result

    def details(self) -> Details:
        check = self._check
        return Details(
            check.max_timestamp_ms,
            check.max_timestamp_index,
            check.refused_count,
            check.failed_index,
            check.failed_position,
        )

    def refused(self, count_max: int) -> list[RefusedRecord]:
        check, known = self._check, self._refused
        count = min(check.refused_count, count_max)
        if known is not None:
            self._refused = None
            return _records_of(known[:count])
        room = (_RefusedRecord * max(count, 1))()
        header, body, now_ms = self._last
        check.refused, check.refused_max = _address_of(room), count
        try:
            self.opened(header, body, now_ms)
        finally:
            check.refused, check.refused_max = None, 0
            self._last = (b"", b"", 0)
        return _records_of(room[:count])


def _records_of(refused: list[_RefusedRecord]) -> list[RefusedRecord]:
    return [RefusedRecord(one.index, RefusalKind(one.kind), one.timestamp_ms) for one in refused]


def _part_function(library: ctypes.CDLL) -> Any:
    function = library.bmq_check_part
    address, size, time, flag = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int32
    function.argtypes = (address, address, size, flag, time, address, address)
    function.restype = ctypes.c_int32
    return function


def _functions(library: ctypes.CDLL) -> tuple[Any, Any]:
    check_batch, check_opened = library.bmq_check_batch, library.bmq_check_opened
    address, size, time = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
    check_batch.argtypes = (address, size, time, address)
    check_opened.argtypes = (address, address, size, time, address)
    check_batch.restype = check_opened.restype = ctypes.c_int32
    return check_batch, check_opened
