"""The kernel and its twin read each record of a batch, and give the same answers whatever the bytes are."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.protocol.batch_records import Record, decode_records, varint_bytes
from bmq.protocol.record_batch import HEADER_BYTES, TimestampType
from bmq.records.native.library import kernel
from bmq.records.record_check import BatchCheck, Details, RefusalKind, RefusedRecord, Result, Rules
from bmq.records.record_check_native import NativeCheck
from bmq.records.record_check_twin import TwinCheck
from tests.support.flagged_batch import flagged_batch

pytestmark = pytest.mark.unit

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
FOREVER_MS = 2**63 - 1
Make = Callable[[Rules, int, int], BatchCheck]


def native(rules: Rules, before_max_ms: int, after_max_ms: int) -> BatchCheck:
    library = kernel().library
    assert library is not None, kernel().reason
    return NativeCheck(library, rules, before_max_ms, after_max_ms)


@pytest.fixture(params=[native, TwinCheck], ids=["native", "twin"])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def batch(*records: Record, **fields: Any) -> bytearray:
    return flagged_batch(records or (Record(b"k", b"v", timestamp_ms=NOW_MS),), **fields)


def with_max_timestamp(data: bytearray, timestamp_ms: int) -> bytearray:
    struct.pack_into(">q", data, 35, timestamp_ms)
    return data


def with_body(body: bytes, record_count: int = 1) -> bytearray:
    """A header that counts so many records at NOW_MS, and this behind it."""
    data = batch()[:HEADER_BYTES]
    struct.pack_into(">i", data, 57, record_count)
    return data + body


def record(*fields: bytes, length: int | None = None) -> bytes:
    """A record of these bytes behind its attributes; `length`: another one than it has."""
    body = b"\0" + b"".join(fields)
    return varint_bytes(len(body) if length is None else length) + body


def check(make: Make, data: bytearray, rules: Rules = Rules.NONE) -> Result:
    return Result(make(rules, FOREVER_MS, HOUR_MS).batch(memoryview(data), NOW_MS))


V = varint_bytes
GOOD = (V(0), V(0), V(1), b"k", V(1), b"v")


def test_records_as_a_producer_makes_them_are_right(make: Make) -> None:
    records = [
        Record(None, None, timestamp_ms=NOW_MS),
        Record(b"", b"", (("h", None), ("", b"x")), timestamp_ms=NOW_MS + 1),
        Record(b"k" * 1000, b"v" * 70_000, timestamp_ms=NOW_MS - 500),
    ]
    assert check(make, batch(*records)) == Result.RIGHT


@pytest.mark.parametrize("wrong_ms", [-1, 0, NOW_MS, NOW_MS + 10_000_000])
def test_the_greatest_time_is_that_of_the_records(make: Make, wrong_ms: int) -> None:
    data = batch(*(Record(b"k", b"v", timestamp_ms=NOW_MS + delta) for delta in (0, 5000, 1000, 5000)))
    checker = make(Rules.NONE, FOREVER_MS, HOUR_MS)
    assert checker.batch(memoryview(with_max_timestamp(data, wrong_ms)), NOW_MS) == Result.OTHER_TIME
    details = checker.details()
    assert (details.max_timestamp_ms, details.max_timestamp_index) == (NOW_MS + 5000, 1)


def test_a_topic_that_is_compacted_wants_keys(make: Make) -> None:
    data = batch(*(Record(key, b"v", timestamp_ms=NOW_MS) for key in (b"k", None, b"", None)))
    checker = make(Rules.NEEDS_KEY, FOREVER_MS, HOUR_MS)
    assert checker.batch(memoryview(data), NOW_MS) == Result.REFUSED
    assert checker.details().refused_count == 2
    assert checker.refused(10) == [
        RefusedRecord(1, RefusalKind.NO_KEY, NOW_MS),
        RefusedRecord(3, RefusalKind.NO_KEY, NOW_MS),
    ]
    assert check(make, data) == Result.RIGHT


def test_refused_records_are_named_up_to_a_count(make: Make) -> None:
    data = batch(*(Record(None, b"v", timestamp_ms=NOW_MS) for _ in range(5)))
    checker = make(Rules.NEEDS_KEY, FOREVER_MS, HOUR_MS)
    checker.batch(memoryview(data), NOW_MS)
    assert [one.batch_index for one in checker.refused(3)] == [0, 1, 2]
    assert checker.details().refused_count == 5


@pytest.mark.parametrize("header_says_ms", [-1, NOW_MS, NOW_MS - 10_000])
def test_a_record_ahead_is_found_whatever_the_header_says(make: Make, header_says_ms: int) -> None:
    times_ms = (NOW_MS, NOW_MS + HOUR_MS, NOW_MS + HOUR_MS + 1, NOW_MS - 5000, NOW_MS - 5001, -1)
    data = batch(*(Record(b"k", b"v", timestamp_ms=time_ms) for time_ms in times_ms))
    checker = make(Rules.NONE, 5000, HOUR_MS)
    assert checker.batch(memoryview(with_max_timestamp(data, header_says_ms)), NOW_MS) == Result.REFUSED
    assert checker.refused(9) == [
        RefusedRecord(2, RefusalKind.TIME, NOW_MS + HOUR_MS + 1),
        RefusedRecord(4, RefusalKind.TIME, NOW_MS - 5001),
    ]


def test_log_append_time_has_no_bounds(make: Make) -> None:
    data = batch(Record(b"k", b"v", timestamp_ms=5))
    assert make(Rules.IS_APPEND_TIME, 1000, 1000).batch(memoryview(data), NOW_MS) == Result.RIGHT


@pytest.mark.parametrize(
    ("rules", "header_ms", "kinds"),
    [
        (Rules.IS_APPEND_TIME, NOW_MS, [RefusalKind.STAMPED]),
        (Rules.NONE, -1, [RefusalKind.STAMPED]),
        (Rules.NONE, NOW_MS, []),
        (Rules.NONE, NOW_MS + HOUR_MS + 1, [RefusalKind.TIME]),
    ],
)
def test_a_producer_may_not_stamp_its_batch(make: Make, rules: Rules, header_ms: int, kinds: list[RefusalKind]) -> None:
    data = batch(Record(b"k", b"v", timestamp_ms=NOW_MS), timestamp_type=TimestampType.LOG_APPEND_TIME)
    checker = make(rules, FOREVER_MS, HOUR_MS)
    result = checker.batch(memoryview(with_max_timestamp(data, header_ms)), NOW_MS)
    assert result == (Result.REFUSED if kinds else Result.RIGHT)
    assert [one.kind for one in checker.refused(9)] == kinds


def test_a_batch_that_is_cut_at_any_byte_is_not_right(make: Make) -> None:
    records = [
        Record(b"k" * 3, b"v" * 200, (("name", b"value"), ("n", None)), timestamp_ms=NOW_MS),
        Record(None, b"", timestamp_ms=NOW_MS + 1_000_000),
    ]
    data = batch(*records)
    for length in range(len(data)):
        expected = Result.NO_HEADER if length < HEADER_BYTES else Result.CUT_SHORT
        assert check(make, data[:length]) == expected, length
    assert check(make, data + b"\0") == Result.BYTES_LEFT


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"\x7f" * 40, Result.BAD_LENGTH),
        (record(*GOOD, V(0)), Result.RIGHT),
        (record(*GOOD, V(0), length=-1), Result.BAD_LENGTH),
        (record(*GOOD, V(0), length=2**31 - 1), Result.CUT_SHORT),
        (record(*GOOD, V(0), length=9) + b"\0", Result.LONGER),
        (record(*GOOD, V(0), length=6), Result.FIELD_TOO_LONG),
        (record(*GOOD, V(0), length=7), Result.BAD_VARINT),
        (b"\x00", Result.BAD_VARINT),
        (b"\x80\x80\x80\x80\x10" + bytes(9), Result.BAD_VARINT),
        (b"\x80" * 10 + bytes(9), Result.BAD_VARINT),
        (b"\x90\x80\x00" + record(*GOOD, V(0))[1:], Result.RIGHT),
        (record(b"\xff" * 9 + b"\x01", *GOOD[1:], V(0)), Result.RIGHT),
        (record(b"\xff" * 9 + b"\x02", *GOOD[1:], V(0)), Result.BAD_VARINT),
        (record(b"\xff" * 10, *GOOD[1:], V(0)), Result.BAD_VARINT),
        (record(V(0), V(1), *GOOD[2:], V(0)), Result.BAD_OFFSET),
        (record(V(0), V(-1), *GOOD[2:], V(0)), Result.BAD_OFFSET),
        (record(V(0), V(0), V(-1), V(-1), V(0)), Result.RIGHT),
        (record(V(0), V(0), V(-2), V(-1), V(0)), Result.BAD_LENGTH),
        (record(V(0), V(0), V(-1), V(-(2**31)), V(0)), Result.BAD_LENGTH),
        (record(*GOOD, V(1), V(1), b"h", V(-2)), Result.BAD_LENGTH),
        (record(V(0), V(0), V(2**31 - 1), b"k", V(0), V(0)), Result.FIELD_TOO_LONG),
        (record(V(0), V(0), V(1), b"k", V(2), V(0)), Result.FIELD_TOO_LONG),
        (record(*GOOD, V(-1)), Result.BAD_HEADERS),
        (record(*GOOD, V(2**31 - 1)), Result.BAD_HEADERS),
        (record(*GOOD, V(1)), Result.BAD_HEADERS),
        (record(*GOOD, V(1), V(-1), V(0)), Result.BAD_HEADERS),
        (record(*GOOD, V(1), V(1), b"h", V(-1)), Result.RIGHT),
        (record(*GOOD, V(1), V(1), b"h", V(9)), Result.FIELD_TOO_LONG),
        (record(*GOOD, V(2), V(1), b"h", V(-1)), Result.BAD_VARINT),
        (record(*GOOD, V(10_000), *([V(0), V(-1)] * 10_000)), Result.RIGHT),
    ],
)
def test_records_that_cannot_be_read(make: Make, body: bytes, expected: Result) -> None:
    assert check(make, with_max_timestamp(with_body(body), NOW_MS)) in (
        (Result.RIGHT, Result.OTHER_TIME) if expected == Result.RIGHT else (expected,)
    )


@pytest.mark.parametrize(
    ("record_count", "expected"),
    [
        (0, Result.BAD_COUNT),
        (-1, Result.BAD_COUNT),
        (-(2**31), Result.BAD_COUNT),
        (1, Result.BYTES_LEFT),
        (3, Result.CUT_SHORT),
        (2**31 - 1, Result.CUT_SHORT),
    ],
)
def test_counts_that_lie(make: Make, record_count: int, expected: Result) -> None:
    two = record(*GOOD, V(0)) + record(V(0), V(1), *GOOD[2:], V(0))
    assert check(make, with_body(two, record_count)) == expected


def test_opened_records_are_checked_against_the_header_of_their_batch(make: Make) -> None:
    data = batch(Record(b"k", b"v", timestamp_ms=NOW_MS), Record(b"k", b"v", timestamp_ms=NOW_MS + 7))
    checker = make(Rules.NONE, FOREVER_MS, HOUR_MS)
    header, body = bytes(data[:HEADER_BYTES]), bytes(data[HEADER_BYTES:])
    assert checker.opened(header, body, NOW_MS) == Result.RIGHT
    assert checker.opened(memoryview(header), bytearray(body[:-1]), NOW_MS) == Result.CUT_SHORT
    assert checker.opened(header, b"", NOW_MS) == Result.CUT_SHORT
    assert checker.opened(header[:60], body, NOW_MS) == Result.NO_HEADER
    wanting = make(Rules.NONE, FOREVER_MS, 6)
    assert wanting.opened(header, body, NOW_MS) == Result.REFUSED
    assert wanting.refused(2) == [RefusedRecord(1, RefusalKind.TIME, NOW_MS + 7)]


def test_a_batch_longer_than_what_is_read_briefly(make: Make) -> None:
    data = batch(*(Record(b"k", b"v" * 900, timestamp_ms=NOW_MS) for _ in range(200)))
    assert check(make, data) == Result.RIGHT
    data[-1] ^= 0x40
    assert check(make, data) != Result.RIGHT


RECORDS = st.builds(
    Record,
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=200),
    headers=st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=20)), max_size=3).map(tuple),
    timestamp_ms=st.integers(NOW_MS - 10, NOW_MS + 10) | st.integers(-(2**61), 2**61) | st.just(-1),
)
TIMES_MS = st.sampled_from([-1, 0, NOW_MS, NOW_MS + HOUR_MS, 2**63 - 1, -(2**63)])


@st.composite
def damaged_batches(draw: st.DrawFn) -> bytearray:
    """A batch of which some bytes are other ones, or missing; sometimes none."""
    data = batch(*draw(st.lists(RECORDS, min_size=1, max_size=5)), timestamp_type=draw(st.sampled_from(TimestampType)))
    if draw(st.booleans()):
        with_max_timestamp(data, draw(TIMES_MS))
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(
            st.integers(0, 255) | st.sampled_from([0, 1, 2, 127, 128, 255])
        )
    return data[: len(data) - draw(st.integers(0, 3))]


@given(
    damaged_batches() | st.binary(max_size=200).map(bytearray),
    st.sampled_from([Rules.NONE, Rules.NEEDS_KEY, Rules.IS_APPEND_TIME, Rules.NEEDS_KEY | Rules.IS_APPEND_TIME]),
    st.sampled_from([0, 5, HOUR_MS, FOREVER_MS]),
    st.sampled_from([0, 5, HOUR_MS, FOREVER_MS]),
)
@example(with_body(record(*GOOD, V(0), length=2**31 - 1)), Rules.NONE, FOREVER_MS, HOUR_MS)
def test_the_twin_gives_the_kernels_answers(
    data: bytearray, rules: Rules, before_max_ms: int, after_max_ms: int
) -> None:
    one, other = native(rules, before_max_ms, after_max_ms), TwinCheck(rules, before_max_ms, after_max_ms)
    result = one.batch(memoryview(data), NOW_MS)
    assert result == other.batch(memoryview(data), NOW_MS)
    if result != Result.NO_HEADER:
        assert one.details() == other.details()
    if result == Result.REFUSED:
        assert one.refused(3) == other.refused(3)


def in_parts(checker: BatchCheck, data: bytearray, cuts: Sequence[int]) -> tuple[int, Details, list[RefusedRecord]]:
    """What is found of a batch whose body is cut at these places. Each part is overwritten once it is checked."""
    checker.begin(data, NOW_MS, 3)
    body = data[HEADER_BYTES:]
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    result = int(Result.GOES_ON)
    for number, (start, stop) in enumerate(pairwise(places)):
        part = bytearray(body[start:stop])
        result = checker.part(part, is_last=number == len(places) - 2)
        part[:] = b"\xa5" * len(part)
        if result != Result.GOES_ON:
            break
    return result, checker.details(), checker.refused(3) if result == Result.REFUSED else []


def in_one_piece(checker: BatchCheck, data: bytearray) -> tuple[int, Details, list[RefusedRecord]]:
    result = checker.opened(data, data[HEADER_BYTES:], NOW_MS)
    return result, checker.details(), checker.refused(3) if result == Result.REFUSED else []


@given(
    damaged_batches(),
    st.sampled_from([Rules.NONE, Rules.NEEDS_KEY, Rules.IS_APPEND_TIME, Rules.NEEDS_KEY | Rules.IS_APPEND_TIME]),
    st.sampled_from([0, 5, FOREVER_MS]),
    st.lists(st.integers(0, 400), max_size=6) | st.integers(1, 9).map(lambda step: list(range(0, 1_500, step))),
)
def test_a_body_in_parts_is_judged_as_in_one_piece(
    data: bytearray, rules: Rules, bound_ms: int, cuts: list[int]
) -> None:
    if len(data) < HEADER_BYTES:
        return
    for make_one in (native, TwinCheck):
        expected = in_one_piece(make_one(rules, bound_ms, bound_ms), data)
        assert in_parts(make_one(rules, bound_ms, bound_ms), data, cuts) == expected, make_one


@pytest.mark.parametrize(
    "body",
    [
        record(*GOOD, V(2), V(1), b"h", V(-1), V(2), b"hh", V(3), b"abc") + record(V(-300), V(1), *GOOD[2:], V(0)),
        record(b"\xff" * 9 + b"\x01", *GOOD[1:], V(0)) + record(V(0), V(1), *GOOD[2:], V(0)) + b"\0",
        record(*GOOD, V(0)) + b"\x80\x80\x80\x80\x10" + bytes(9),
        record(*GOOD, V(0), length=2**31 - 1),
        record(*GOOD, V(0)) + record(V(0), V(1), V(-2), V(-1), V(0)),
        record(*GOOD, V(0)) + record(V(0), V(1), V(-2), V(-1), V(0))[:-1],
        record(*GOOD, V(0)) + record(V(0), V(1), V(300), V(-1), V(0)),
        record(*GOOD, V(0)) + record(V(0), V(1), V(0), V(0), V(2), V(-1), V(0)),
        record(*GOOD, V(0)) + record(V(0), V(1), V(0), V(0), V(0), b"left"),
        record(*GOOD, V(0)) + record(V(0), V(3), *GOOD[2:], V(0)),
        record(*GOOD, V(0)) + record(V(0), V(1), *GOOD[2:], b"\x80"),
    ],
    ids=["right", "left-over", "varint", "cut", "length", "length-cut", "field", "name", "longer", "offset", "no-end"],
)
def test_a_body_cut_at_each_two_places(make: Make, body: bytes) -> None:
    data = with_body(body, 2)
    expected = in_one_piece(make(Rules.NONE, FOREVER_MS, FOREVER_MS), data)
    for first in range(len(body) + 1):
        for second in range(first, len(body) + 1):
            checker = make(Rules.NONE, FOREVER_MS, FOREVER_MS)
            assert in_parts(checker, data, [first, second]) == expected, (first, second)


def test_a_batch_in_parts_that_was_left_does_not_change_the_next(make: Make) -> None:
    keyless = batch(*(Record(None, b"v", timestamp_ms=NOW_MS) for _ in range(5)))
    checker = make(Rules.NEEDS_KEY, FOREVER_MS, HOUR_MS)
    checker.begin(keyless, NOW_MS, 3)
    assert checker.part(keyless[HEADER_BYTES:-3], is_last=False) == Result.GOES_ON
    assert checker.batch(memoryview(keyless), NOW_MS) == Result.REFUSED
    assert [one.batch_index for one in checker.refused(9)] == [0, 1, 2, 3, 4]
    checker.begin(keyless, NOW_MS, 2)
    assert checker.part(keyless[HEADER_BYTES:], is_last=True) == Result.REFUSED
    assert checker.details().refused_count == 5
    assert [one.batch_index for one in checker.refused(9)] == [0, 1]
    assert in_parts(checker, batch(), [1]) == in_one_piece(make(Rules.NEEDS_KEY, FOREVER_MS, HOUR_MS), batch())


@given(damaged_batches())
@example(with_body(record(V(0), V(0), V(-2), V(-1), V(0))))
def test_what_is_right_can_be_read_by_every_reader(data: bytearray) -> None:
    checker = native(Rules.NONE, FOREVER_MS, FOREVER_MS)
    if len(data) < HEADER_BYTES:
        return
    data[16] = 2
    struct.pack_into(">q", data, 0, 0)
    struct.pack_into(">i", data, 8, len(data) - 12)
    if checker.batch(memoryview(data), NOW_MS) > Result.OTHER_TIME or data[22] & 0x0F:
        return
    (record_count,) = struct.unpack_from(">i", data, 57)
    struct.pack_into(">i", data, 23, record_count - 1)
    records = decode_records(data)
    assert len(records) == record_count
    newest = max(one.timestamp_ms for one in records)
    if min(one.timestamp_ms for one in records) >= -(2**63) and newest < 2**63:
        assert checker.details().max_timestamp_ms == max(newest, -1)


def test_a_batch_is_not_kept_once_it_is_checked(make: Make) -> None:
    """One partition may have a check for as long as the server runs."""
    checker = make(Rules.NEEDS_KEY, FOREVER_MS, HOUR_MS)
    for data in (
        with_max_timestamp(batch(), 0),
        batch()[:-1],
        batch(Record(None, b"v", timestamp_ms=NOW_MS)),
        batch(Record(b"k", bytes(100_000), timestamp_ms=NOW_MS + 1)),
    ):
        checker.batch(memoryview(data), NOW_MS)
        checker.refused(1)
        data.clear()  # raises BufferError while anybody has a view of it
