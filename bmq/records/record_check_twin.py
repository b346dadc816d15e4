"""BatchCheck in Python: the answers of native/record_check.c, for installs without a compiler and as its oracle in tests."""

from __future__ import annotations

from struct import Struct
from typing import Final

from bmq.protocol.record_batch import HEADER_BYTES, LOG_APPEND_TIME, NO_TIMESTAMP_MS
from bmq.records.buffers import Buffer
from bmq.records.record_check import Details, RefusalKind, RefusedRecord, Result, Rules
from bmq.records.record_walk_twin import Unreadable, Walk, WalkedRecord, walk_record

RECORDS_MAX: Final = 100_000
"""Half a second to a second, in which other threads get the interpreter's lock late."""
_ATTRIBUTES_PLACE: Final = 21
_TIMES: Final = Struct(">qq")
_TIMES_PLACE: Final = 27
_INT32: Final = Struct(">i")
_RECORD_COUNT_PLACE: Final = 57
_BITS_64: Final = (1 << 64) - 1


class TwinCheck:
    """See BatchCheck."""

    __slots__ = (
        "_after_max_ms",
        "_base_timestamp_ms",
        "_before_max_ms",
        "_bytes_before",
        "_details",
        "_header_timestamp_ms",
        "_now_ms",
        "_record_count",
        "_refused",
        "_refused_max",
        "_rules",
        "_stamp_ms",
        "_walk",
        "costs_per_record_ns",
        "records_max",
    )

    def __init__(self, rules: Rules, before_max_ms: int, after_max_ms: int) -> None:
        self.costs_per_record_ns = 10_000
        self.records_max = RECORDS_MAX
        self._rules = rules
        self._before_max_ms = before_max_ms
        self._after_max_ms = after_max_ms
        self._refused: list[RefusedRecord] = []
        self._details = Details(NO_TIMESTAMP_MS, 0, 0, 0, 0)

    def batch(self, batch: memoryview, now_ms: int) -> int:
        return self.opened(batch, batch[HEADER_BYTES:], now_ms)

    def opened(self, header: Buffer, body: Buffer, now_ms: int) -> int:
        if len(header) < HEADER_BYTES:
            return Result.NO_HEADER
        self.begin(header, now_ms, RECORDS_MAX)
        return self.part(body, is_last=True)

    def begin(self, header: Buffer, now_ms: int, refused_max: int) -> None:
        self._base_timestamp_ms, self._header_timestamp_ms = _TIMES.unpack_from(header, _TIMES_PLACE)
        (self._record_count,) = _INT32.unpack_from(header, _RECORD_COUNT_PLACE)
        self._stamp_ms = self._header_timestamp_ms if header[_ATTRIBUTES_PLACE + 1] & LOG_APPEND_TIME else None
        self._now_ms = now_ms
        self._refused_max = refused_max
        self._refused = []
        self._details = Details(NO_TIMESTAMP_MS, 0, 0, 0, 0)
        self._walk: Walk | None = None
        self._bytes_before = 0

    def part(self, part: Buffer, *, is_last: bool) -> int:
        data = bytes(part)
        place = 0
        max_timestamp_ms, max_timestamp_index, refused_count, index, record_place = self._details
        result = Result.RIGHT if self._record_count > 0 else Result.BAD_COUNT
        while index < self._record_count:
            try:
                record = self._next_record(data, place, is_last)
            except Unreadable as error:
                result = error.result
                break
            if record is None:
                result = Result.CUT_SHORT if is_last else Result.GOES_ON
                break
            end, timestamp_delta, offset_delta, has_key = record
            if offset_delta != index:
                result = Result.BAD_OFFSET
                break
            place, record_place = end, self._bytes_before + end
            timestamp_ms = _wrapped(self._base_timestamp_ms + timestamp_delta)
            if timestamp_ms > max_timestamp_ms:
                max_timestamp_ms, max_timestamp_index = timestamp_ms, index
            refusal = self._refusal(index, timestamp_ms, self._stamp_ms, has_key, self._now_ms)
            if refusal is not None:
                refused_count += 1
                if refused_count <= self._refused_max:
                    self._refused.append(refusal)
            index += 1
        self._bytes_before += len(data)
        self._details = Details(max_timestamp_ms, max_timestamp_index, refused_count, index, record_place)
        if result != Result.RIGHT:
            return result
        if place != len(data):
            return Result.BYTES_LEFT
        if not is_last:
            return Result.GOES_ON
        if refused_count:
            return Result.REFUSED
        return Result.RIGHT if max_timestamp_ms == self._header_timestamp_ms else Result.OTHER_TIME

    def _next_record(self, data: bytes, place: int, is_last: bool) -> tuple[int, int, int, bool] | None:
        """The record that ends next in this part. None: it goes on behind the part. Raises Unreadable."""
        if self._walk is None:
            try:
                return _record_at(data, place)
            except Unreadable as error:
                if is_last or error.result is not Result.CUT_SHORT:
                    raise
            self._walk = walk_record(data, place)
            next(self._walk)  # it takes all that is here
            return None
        try:
            self._walk.send(data)
        except StopIteration as end:
            self._walk = None
            record: WalkedRecord = end.value
            return record
        return None

    def details(self) -> Details:
        return self._details

    def refused(self, count_max: int) -> list[RefusedRecord]:
        return self._refused[:count_max]

    def _refusal(
        self, index: int, timestamp_ms: int, stamp_ms: int | None, has_key: bool, now_ms: int
    ) -> RefusedRecord | None:
        claimed_ms = timestamp_ms if stamp_ms is None else stamp_ms
        is_append_time = bool(self._rules & Rules.IS_APPEND_TIME)
        if self._rules & Rules.NEEDS_KEY and not has_key:
            return RefusedRecord(index, RefusalKind.NO_KEY, claimed_ms)
        if stamp_ms is not None and (is_append_time or claimed_ms == NO_TIMESTAMP_MS):
            return RefusedRecord(index, RefusalKind.STAMPED, claimed_ms)
        if not is_append_time and claimed_ms != NO_TIMESTAMP_MS and self._is_out_of_bounds(claimed_ms, now_ms):
            return RefusedRecord(index, RefusalKind.TIME, claimed_ms)
        return None

    def _is_out_of_bounds(self, timestamp_ms: int, now_ms: int) -> bool:
        return (
            _wrapped(now_ms - timestamp_ms) > self._before_max_ms
            or _wrapped(timestamp_ms - now_ms) > self._after_max_ms
        )


def _wrapped(value: int) -> int:
    """As a signed 64-bit number, the way Java's sums wrap."""
    value &= _BITS_64
    return value - (1 << 64) if value >> 63 else value


def _record_at(data: bytes, place: int) -> tuple[int, int, int, bool]:
    """(place behind the record, timestamp delta, offset delta, whether it has a key). Raises Unreadable."""
    length, place = _varint(data, place, len(data), 32, Result.CUT_SHORT)
    if length < 0:
        raise Unreadable(Result.BAD_LENGTH)
    end = place + length
    if end > len(data):
        raise Unreadable(Result.CUT_SHORT)
    if not length:
        raise Unreadable(Result.BAD_VARINT)
    timestamp_delta, place = _varint(data, place + 1, end, 64)
    offset_delta, place = _varint(data, place, end, 32)
    has_key, place = _field(data, place, end)
    _, place = _field(data, place, end)
    header_count, place = _varint(data, place, end, 32)
    if not 0 <= header_count <= end - place:
        raise Unreadable(Result.BAD_HEADERS)
    for _ in range(header_count):
        has_name, place = _field(data, place, end)
        if not has_name:
            raise Unreadable(Result.BAD_HEADERS)
        _, place = _field(data, place, end)
    if place != end:
        raise Unreadable(Result.LONGER)
    return end, timestamp_delta, offset_delta, has_key


def _field(data: bytes, place: int, end: int) -> tuple[bool, int]:
    """Whether the field is not null, and the place behind it."""
    length, place = _varint(data, place, end, 32)
    if length < -1:
        raise Unreadable(Result.BAD_LENGTH)
    if length < 0:
        return False, place
    if length > end - place:
        raise Unreadable(Result.FIELD_TOO_LONG)
    return True, place + length


def _varint(data: bytes, place: int, end: int, bits: int, at_end: Result = Result.BAD_VARINT) -> tuple[int, int]:
    value = shift = 0
    while shift < bits:
        if place >= end:
            raise Unreadable(at_end)
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if value >> bits or (byte > 127 and shift + 7 >= bits):
            raise Unreadable(Result.BAD_VARINT)
        if byte < 128:
            return (value >> 1) ^ -(value & 1), place
        shift += 7
    raise Unreadable(Result.BAD_VARINT)
