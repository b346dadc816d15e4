"""The columns of a log are what the plain decoder reads of it; damage, bombs and cut buffers are told as such."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.arrow_records.batch_headers import markers, scan
from bmq.arrow_records.decoder import OFFSET_MAX, Decoded, Limits, Selection, decode
from bmq.arrow_records.layout import COLUMNS, Layout
from bmq.log.batch_bodies import Scratch
from bmq.log.origin import DamagedBatch, Origin
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression, compress
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import BatchHeader, assemble_batch, batches, rewrite_log_append_time
from bmq.records.batch_layout import LONG_VARINT, REASONS
from tests.support.flagged_batch import flagged_batch
from tests.unit.arrow_records.strategies import ORIGIN, batches_in, expected_rows, logs, one_batch

pytestmark = pytest.mark.unit

ALL = Layout()
LAYOUTS = st.lists(st.sampled_from(COLUMNS), unique=True).map(lambda names: Layout(tuple(names)))
BATCH_BYTES_MAX = 1 << 20


def options_of(given: dict[str, int]) -> dict[str, Any]:
    """The arguments of `decode` for fields of Selection and of Limits."""
    selection = {name: value for name, value in given.items() if name in Selection._fields}
    limits = {name: value for name, value in given.items() if name in Limits._fields}
    assert len(selection) + len(limits) == len(given)
    return {"selection": Selection(**selection), "limits": Limits(**limits)}  # type: ignore[arg-type]


def rows_of(log: bytes, layout: Layout = ALL, **options: Any) -> list[dict[str, Any]]:
    """All tables of a log, one after the other."""
    tables = []
    scratch = Scratch()
    place, end = -1, 0
    while place < end < len(log):
        place = end
        decoded = decode(log, ORIGIN, layout, place=place, scratch=scratch, **options_of(options))
        decoded.table.validate(full=True)
        assert decoded.table.schema == layout.schema
        tables.append(decoded.table)
        end = decoded.end
    # Looked at when the scratch has been used again.
    return [row for table in tables for row in table.to_pylist()]


def sample(**options: Any) -> bytearray:
    return flagged_batch([Record(b"k%d" % i, b"v" * 50, (("h", b"x"),), 1_000 + i) for i in range(3)], **options)


def only(log: bytes | bytearray, layout: Layout = ALL, **options: Any) -> pa.RecordBatch:
    is_verified = options.pop("is_verified", False)
    return decode(log, ORIGIN, layout, **options_of(options), is_verified=is_verified).table


@given(log=logs())
def test_columns_are_what_the_plain_decoder_reads(log: bytes) -> None:
    decoded = decode(log, ORIGIN, ALL)
    assert rows_of(log) == expected_rows(log)
    assert (decoded.end, decoded.missing_bytes) == (len(log), 0)
    found = batches_in(log)
    assert decoded.next_offset == (BatchHeader.parse(found[-1]).end_offset if found else None)


def test_a_scan_finds_more_batches_than_there_is_room_for_at_once() -> None:
    batch = bytes(encode_batch([Record(None, None, (), 5)]))
    room = 65_536
    count = 2 * room + 5
    log = np.tile(np.frombuffer(batch, np.uint8), (count, 1))
    log[:, :8] = np.arange(count, dtype=">i8").view(np.uint8).reshape(count, 8)
    data = log.tobytes()
    limits = {"rows_max": OFFSET_MAX, "bytes_max": OFFSET_MAX, "batch_bytes_max": BATCH_BYTES_MAX}
    found = scan(data, ORIGIN, 0, **limits)
    assert (len(found.places), found.end, found.missing_bytes) == (count, len(data), 0)
    for limit in (room, room + 7):
        assert len(scan(data, ORIGIN, 0, **limits | {"rows_max": limit}).places) == limit
        assert len(scan(data, ORIGIN, 0, **limits | {"bytes_max": limit * len(batch)}).places) == limit
    cut = scan(data[:-1], ORIGIN, 0, **limits)
    assert (len(cut.places), cut.end, cut.missing_bytes) == (count - 1, len(data) - len(batch), 1)


@given(log=logs(), layout=LAYOUTS, view=st.booleans(), rows_max=st.integers(1, 20), bytes_max=st.integers(1, 500))
def test_fewer_columns_and_smaller_tables_hold_the_same(
    log: bytes, layout: Layout, view: bool, rows_max: int, bytes_max: int
) -> None:
    layout = Layout(layout.columns, content=pa.binary_view() if view else pa.binary())
    rows = rows_of(log, layout, rows_max=rows_max, bytes_max=bytes_max)
    expected = expected_rows(log)
    if layout.columns:
        assert rows == [{name: row[name] for name in layout.columns} for row in expected]


@given(log=logs(), layout=LAYOUTS, low=st.integers(-2, 30), count=st.integers(0, 30))
def test_a_range_of_offsets(log: bytes, layout: Layout, low: int, count: int) -> None:
    first = BatchHeader.parse(log).base_offset if log else 0
    low = max(0, first + low)
    layout = Layout((*(name for name in layout.columns if name != "offset"), "offset"))
    found = [row["offset"] for row in rows_of(log, layout, from_offset=low, to_offset=low + count)]
    assert found == [row["offset"] for row in expected_rows(log) if low <= row["offset"] < low + count]


@given(log=logs(), layout=LAYOUTS)
def test_what_is_left_out_is_not_opened(log: bytes, layout: Layout) -> None:
    damaged = bytearray(log)
    place = 0
    for batch in batches_in(log):
        place = log.index(batch, place)
        if BatchHeader.parse(batch).is_control:
            damaged[place + 17] ^= 1  # its checksum
        place += len(batch)
    layout = Layout((*(name for name in layout.columns if name != "is_control"), "is_control"))
    found = rows_of(bytes(damaged), layout, leaves_out=markers)
    assert len(found) == sum(not row["is_control"] for row in expected_rows(log))


@given(log=logs(), cut=st.integers(0, 5000), position_bytes=st.integers(0, 3).map(lambda blocks: blocks * 512))
def test_a_cut_batch_is_left_and_says_what_it_needs(log: bytes, cut: int, position_bytes: int) -> None:
    origin = ORIGIN._replace(position_bytes=position_bytes)
    end = min(cut, len(log))
    place = 0
    rows: list[dict[str, Any]] = []
    for _ in range(100):
        decoded = decode(log[:end], origin, ALL, place=place)
        rows += decoded.table.to_pylist()
        place = decoded.end
        if not decoded.missing_bytes:
            assert place == end
            if end == len(log):
                break
            end += 1
        else:
            assert end + decoded.missing_bytes <= len(log)
            end += decoded.missing_bytes
    assert (place, rows) == (len(log), expected_rows(log))


@given(batch=one_batch(5, records_min=1), layout=LAYOUTS)
def test_one_bit_is_noticed(batch: bytearray, layout: Layout) -> None:
    for place in (21, 40, len(batch) - 1):
        damaged = bytearray(batch)
        damaged[place] ^= 1
        with pytest.raises(DamagedBatch):
            decode(damaged, ORIGIN, layout)


def wrapped(value: int) -> int:
    """To 64 bits, as a sum of Java's longs."""
    return (value + 2**63) % 2**64 - 2**63


def outcome(batch: bytearray) -> list[tuple[Any, ...]] | None:
    """What the plain decoder reads; None when it is damaged."""
    try:
        return [(r.offset, wrapped(r.timestamp_ms), r.key, r.value, len(r.headers)) for r in decode_records(batch)]
    except BmqError:
        return None


@st.composite
def hostile(draw: st.DrawFn) -> bytearray:
    """A batch with a right checksum around records that were meddled with, and a header that may not agree with them."""
    batch = draw(one_batch(100))
    header = BatchHeader.parse(batch)
    records = [record._replace(offset=0) for record in decode_records(batch)] or [Record(b"k", b"v")]
    body = bytearray(encode_batch(records)[61:])
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(body)))
        junk = draw(
            st.binary(min_size=1, max_size=3)
            | st.sampled_from(
                [b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\xff" * 11, b"\xfe\xff\xff\xff\x0f", b"\x80" * 5, b"\x01"]
            )
        )
        body[place : place + draw(st.integers(0, len(junk)))] = junk
    codec = draw(st.sampled_from(Compression))
    meddled = header._replace(
        attributes=header.attributes & ~7 | codec,
        record_count=draw(st.just(len(records)) | st.integers(-1, 12) | st.just(2**31 - 1)),
        last_offset_delta=draw(st.integers(-1, 12) | st.just(2**31 - 1)),
        base_timestamp_ms=draw(st.integers(-1, 2**45) | st.just(2**63 - 1) | st.just(-(2**63))),
    )
    return assemble_batch(meddled, compress(codec, body))


@given(batch=hostile())
def test_hostile_records_are_damage_or_what_the_plain_decoder_reads(batch: bytearray) -> None:
    expected = outcome(batch)
    try:
        decoded = decode(batch, ORIGIN, ALL, limits=Limits(batch_bytes_max=BATCH_BYTES_MAX))
    except DamagedBatch as error:
        # Numbers that do not fit into 64 bits, and a batch that ends in front of its beginning, the plain one lets pass.
        assert (
            expected is None
            or error.reason == REASONS[LONG_VARINT]
            or (not expected and BatchHeader.parse(batch).last_offset_delta < 0)
        )
        return
    decoded.table.validate(full=True)
    found = [(r["offset"], r["timestamp"], r["key"], r["value"], len(r["headers"])) for r in decoded.table.to_pylist()]
    assert found == expected


@given(batch=hostile(), layout=LAYOUTS)
def test_hostile_records_never_do_worse_with_fewer_columns(batch: bytearray, layout: Layout) -> None:
    try:
        decode(batch, ORIGIN, layout, limits=Limits(batch_bytes_max=BATCH_BYTES_MAX)).table.validate(full=True)
    except DamagedBatch as error:
        assert error.base_offset == 100


@given(junk=st.binary(max_size=400), is_real=st.booleans(), layout=LAYOUTS)
@example(junk=bytes(20), is_real=False, layout=ALL)
@example(junk=bytes(600), is_real=False, layout=ALL)
@example(junk=bytes(100) + b"x" * 500, is_real=False, layout=ALL)
def test_junk_is_damage_or_cut(junk: bytes, is_real: bool, layout: Layout) -> None:
    log = bytes(sample() if is_real else b"") + junk
    try:
        decode(log, ORIGIN, layout)
    except DamagedBatch as error:
        assert error.position_bytes <= len(log)


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_bomb_is_bounded(codec: Compression) -> None:
    header = BatchHeader.parse(sample(compression=codec))
    bomb = assemble_batch(header, compress(codec, bytes(64 << 20)))
    only(sample(compression=codec))  # so that compiling is not counted
    tracemalloc.start()
    try:
        with pytest.raises(DamagedBatch, match=r"longer than|are allowed"):
            decode(bomb, ORIGIN, ALL, limits=Limits(batch_bytes_max=4 << 20, bytes_max=1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_more_records_than_can_be_are_not_believed() -> None:
    header = BatchHeader.parse(sample(compression=Compression.ZSTD))
    many = header._replace(record_count=2**31 - 1, last_offset_delta=2**31 - 2)
    batch = assemble_batch(many, compress(Compression.ZSTD, b"x"))
    for layout in (ALL, Layout(("offset",))):
        with pytest.raises(DamagedBatch, match="2147483647 records cannot be in"):
            decode(batch, ORIGIN, layout)


def test_an_error_names_topic_partition_offset_and_file() -> None:
    good, bad = sample(base_offset=7), sample(base_offset=10)
    bad[-1] ^= 1
    with pytest.raises(DamagedBatch) as caught:
        decode(good + bad, Origin("orders", 3, "a/0.log", 4096), ALL)
    position = 4096 + len(good)
    assert str(caught.value).startswith(f"orders-3 at offset 10, a/0.log at {position}: record batch checksum")
    assert (caught.value.base_offset, caught.value.position_bytes) == (10, position)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    decoded = decode((good + bad)[: position - 4096], Origin("orders", 3, "a/0.log", 4096), ALL)
    assert decoded.table.num_rows == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"base_offset": -1}, "impossible offset"),
        ({"base_offset": OFFSET_MAX}, "impossible offset"),
        ({"attributes": 5}, "codec"),
        ({"record_count": -1}, "less than no records"),
        ({"record_count": 4}, "more records than offsets"),
        ({"last_offset_delta": -1, "record_count": 0}, "in front of its first"),
    ],
)
def test_an_impossible_header_is_damage(change: dict[str, int], reason: str) -> None:
    batch = sample(base_offset=7)
    changed = assemble_batch(BatchHeader.parse(batch)._replace(**change), batch[61:])
    with pytest.raises(DamagedBatch, match=reason):
        decode(changed, ORIGIN, Layout(("offset",)))


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_another_message_format_is_damage(magic: int) -> None:
    batch = sample(base_offset=7)
    batch[16] = magic  # in front of what the checksum is of
    with pytest.raises(DamagedBatch, match="the message format is not 2"):
        decode(batch, ORIGIN, Layout(("offset",)))


def test_offsets_that_go_back_are_damage() -> None:
    with pytest.raises(DamagedBatch, match="begins in front of the end"):
        decode(sample(base_offset=7) + sample(base_offset=9), ORIGIN, ALL)


def test_a_checksum_that_was_looked_at_is_not_looked_at_again() -> None:
    batch = sample()
    batch[17] ^= 1
    assert only(batch, is_verified=True).num_rows == 3


def test_offsets_and_the_logs_times_are_read_without_opening() -> None:
    """Of a batch that has a record for each offset: its body is no records at all here."""
    header = BatchHeader.parse(sample(base_offset=7, compression=Compression.GZIP))
    batch = assemble_batch(header, b"not to be decompressed")
    rewrite_log_append_time(batch, 0, BatchHeader.parse(batch), 5_000)
    rows = only(batch, Layout(("offset", "timestamp", "producer_id"))).to_pylist()
    assert rows == [{"offset": 7 + i, "timestamp": 5_000, "producer_id": -1} for i in range(3)]


def test_views_of_an_uncompressed_batch_lie_in_the_buffer() -> None:
    log = bytes(sample())
    values = only(log, Layout(("value",), content=pa.binary_view())).column("value")
    assert values.buffers()[2].address == np.frombuffer(log, np.uint8).ctypes.data


def test_timestamps_and_names_in_other_types() -> None:
    batch = encode_batch(
        [
            Record(b"k", b"v", (("naïve", b"x"),), 1_700_000_000_123),
            Record(b"k", b"v", (("\udcff!", None),), 2**62),
        ]
    )
    rows = only(batch, Layout(("timestamp", "headers"), timestamp=pa.timestamp("us", "UTC"), header_name=pa.string()))
    assert rows.column("timestamp").cast(pa.int64()).to_pylist() == [1_700_000_000_123_000, (2**63 - 1) // 1000 * 1000]
    assert rows.column("headers").to_pylist() == [
        [{"key": "naïve", "value": b"x"}],
        [{"key": "\ufffd!", "value": None}],
    ]
    plain = only(batch, Layout(("timestamp",), timestamp=pa.timestamp("ms", "UTC"))).column("timestamp")
    assert plain.cast(pa.int64()).to_pylist() == [1_700_000_000_123, 2**62]


@pytest.mark.parametrize(
    "options",
    [
        {"columns": ("offset", "topic")},
        {"columns": ("offset", "offset")},
        {"timestamp": pa.timestamp("ns")},
        {"content": pa.string()},
        {"header_name": pa.binary_view()},
    ],
)
def test_a_layout_that_is_not_there_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Layout(**options)


def test_limits_that_arrow_cannot_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="2 GiB"):
        decode(b"", ORIGIN, ALL, limits=Limits(bytes_max=2**31 - 1))


def test_an_empty_buffer_is_an_empty_table() -> None:
    decoded = decode(b"", ORIGIN, ALL)
    assert decoded == Decoded(decoded.table, 0, None, 0)
    assert decoded.table.schema == ALL.schema


def test_a_table_has_one_batch_more_than_its_limit_at_most() -> None:
    log = b"".join(sample(base_offset=3 * number, compression=Compression.ZSTD) for number in range(20))
    assert only(log, rows_max=7).num_rows == 9
    body_bytes = len(sample()) - 61
    assert only(log, bytes_max=2 * body_bytes + 1).num_rows == 9
    assert (
        only(b"".join(log[p : p + h.size_bytes].ljust(1024, b"\0") for p, h in batches(log)), rows_max=7).num_rows == 9
    )
