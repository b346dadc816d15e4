"""Columns of records: the kernel in C and its twin in Python give the same answers, whatever the bytes say."""

from __future__ import annotations

from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.record_batch import NO_TIMESTAMP_MS
from bmq.records import batch_layout as layout
from bmq.records import columns_native, columns_twin, reading_native, records_twin
from bmq.records.batch_layout import BATCH, Bodies
from bmq.records.column_layout import VIEW_BYTES, Binary, Columns, Table
from tests.unit.arrow_records.strategies import logs
from tests.unit.records.hostile_bodies import bodies, damaged

pytestmark = pytest.mark.unit

BATCH_BYTES_MAX = 1 << 20


def room(rows: int) -> Columns:
    return Columns(
        rows,
        bytearray(8 * rows),
        bytearray(8 * rows),
        bytearray(VIEW_BYTES * rows),
        bytearray(rows),
        bytearray(VIEW_BYTES * rows),
        bytearray(rows),
        bytearray(8 * rows),
        bytearray(4 * rows + 4),
    )


@st.composite
def scanned(draw: st.DrawFn) -> bytes:
    return draw(damaged(draw(logs(batches_max=4))))


@given(
    log=scanned(),
    place=st.sampled_from([0, 0, 0, 1, 61]),
    rows_max=st.integers(0, 10),
    bytes_max=st.integers(0, 700),
    batch_bytes_max=st.sampled_from([60, 100, BATCH_BYTES_MAX]),
    last_offset=st.sampled_from([layout.NO_OFFSET_BEFORE, 5, 2**41]),
    batches_max=st.integers(0, 5),
)
def test_the_same_batches_are_found(
    log: bytes, place: int, rows_max: int, bytes_max: int, batch_bytes_max: int, last_offset: int, batches_max: int
) -> None:
    found = [
        scan(
            log,
            min(place, len(log)),
            rows_max=rows_max,
            bytes_max=bytes_max,
            batch_bytes_max=batch_bytes_max,
            last_offset=last_offset,
            batches_max=batches_max,
        )
        for scan in (reading_native.scan_batches, records_twin.scan_batches)
    ]
    assert found[0] == found[1]


def test_a_header_is_read_field_by_field() -> None:
    batch = bytearray(encode_batch([Record(b"k", b"v", timestamp_ms=7)], base_offset=9, producer_id=2**40))
    batch[12:16] = b"\xff\xff\xff\xfe"
    for scan in (reading_native.scan_batches, records_twin.scan_batches):
        found = scan(
            b"x" + batch,
            1,
            rows_max=9,
            bytes_max=999,
            batch_bytes_max=999,
            last_offset=layout.NO_OFFSET_BEFORE,
            batches_max=2,
        )
        fields = BATCH.unpack(found.batches)
        assert fields[:4] == (9, len(batch) - 12, -2, 2)
        assert fields[5:] == (0, 0, 7, 7, 2**40, -1, -1, 1, 0, 1)
        assert (found.place, found.rows, found.last_offset, found.why) == (len(batch) + 1, 1, 9, layout.SCANNED_ALL)


@given(found=bodies(), opened=st.binary(min_size=4, max_size=4), wanted=st.integers(0, 15), spare=st.integers(0, 2))
def test_the_same_columns_are_filled(found: Bodies, opened: bytes, wanted: int, spare: int) -> None:
    rows = sum(batch[12] for batch in BATCH.iter_unpack(found.batches)) + spare
    is_opened = bytes(byte & 1 for byte in opened)
    ours, theirs = room(rows), room(rows)
    stopped = columns_native.walk(found, is_opened, wanted, ours)
    assert stopped == columns_twin.walk(found, is_opened, wanted, theirs)
    if stopped.status:
        return
    assert ours == theirs
    if wanted & layout.WANTS_HEADERS and all(is_opened[: found.batch_count]):
        count = int.from_bytes(ours.header_offsets[4 * (rows - spare) : 4 * (rows - spare) + 4], "little")
        views = [[bytearray(VIEW_BYTES * count), bytearray(VIEW_BYTES * count), bytearray(count)] for _ in range(2)]
        places = ours.header_places[: 8 * (rows - spare)]
        assert columns_native.walk_headers(found.data, places, *views[0]) == 0
        assert columns_twin.walk_headers(found.data, places, *views[1]) == 0
        assert views[0] == views[1]


@given(data=st.binary(max_size=40), places=st.lists(st.integers(0, 45), max_size=4), count=st.integers(0, 6))
def test_places_of_headers_that_lie_are_damage(data: bytes, places: list[int], count: int) -> None:
    found = [
        walk_headers(
            data, memoryview(array("q", places)), bytearray(VIEW_BYTES * count), bytearray(VIEW_BYTES * count),
            bytearray(count),
        )
        for walk_headers in (columns_native.walk_headers, columns_twin.walk_headers)
    ]  # fmt: skip
    assert found[0] == found[1]


CONTENTS = st.none() | st.binary(max_size=80)


def binary(contents: list[bytes | None]) -> Binary:
    offsets = accumulate((len(content or b"") for content in contents), initial=0)
    data = b"".join(content or b"" for content in contents)
    nulls = bytes(content is None for content in contents)
    return Binary(data, memoryview(array("q", offsets)), nulls)


@given(
    rows=st.lists(
        st.tuples(CONTENTS, CONTENTS, st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31), st.integers(0, 2)),
        min_size=1,
        max_size=6,
    ),
    headers=st.lists(st.tuples(st.binary(max_size=3), CONTENTS), min_size=12, max_size=12),
    out_bytes=st.integers(0, 400),
    first=st.integers(0, 2),
    count=st.integers(1, 9),
)
def test_the_same_records_are_written(
    rows: list[tuple[bytes | None, bytes | None, int, int, int]],
    headers: list[tuple[bytes, bytes | None]],
    out_bytes: int,
    first: int,
    count: int,
) -> None:
    table = Table(
        memoryview(array("q", accumulate(row[3] for row in rows))),
        memoryview(array("q", [row[2] for row in rows])),
        memoryview(array("q", accumulate((row[4] for row in rows), initial=0))),
        binary([row[0] for row in rows]),
        binary([row[1] for row in rows]),
        binary([name for name, _ in headers]),
        binary([content for _, content in headers]),
        sum(row[4] for row in rows),
    )
    first = min(first, len(rows) - 1)
    row_end = first + count
    outs = [bytearray(out_bytes), bytearray(out_bytes)]
    with columns_native.Writer(table, len(rows)) as ours, columns_twin.Writer(table, len(rows)) as theirs:
        assert ours.write(first, row_end, outs[0]) == theirs.write(first, row_end, outs[1])
    assert outs[0] == outs[1]


@pytest.mark.parametrize("kernel", [columns_native, columns_twin])
def test_a_table_whose_places_lie_outside_of_its_bytes_is_refused(kernel: object) -> None:
    def table(places: list[int], headers: list[int]) -> Table:
        column = Binary(b"abc", memoryview(array("q", places)), b"\0")
        nothing = Binary(b"", bytes(8), b"")
        offsets, times = memoryview(array("q", [5])), memoryview(array("q", [NO_TIMESTAMP_MS]))
        return Table(offsets, times, memoryview(array("q", headers)), column, column, nothing, nothing, 0)

    def write(table: Table, row: int = 0, row_count: int = 1) -> int:
        with kernel.Writer(table, row_count) as writer:  # type: ignore[attr-defined]
            found: int = writer.write(row, row_count, bytearray(100)).row
            return found

    assert write(table([0, 3], [0, 0])) == 1
    for places in ([-1, 2], [2, 1], [1, 4], [2**62, 2**62 + 1]):
        with pytest.raises(ValueError, match="contradict"):
            write(table(places, [0, 0]))
    for headers in ([-1, 0], [1, 0], [0, 1]):
        with pytest.raises(ValueError, match="contradict"):
            write(table([0, 3], headers))
    with pytest.raises(ValueError, match="contradict"):
        write(table([0, 3], [0, 0]), 1)
    with pytest.raises(ValueError, match=r"."):
        write(table([0, 3], [0, 0]), 0, 2)
