"""Records out of fetched batches: filters, room, what readers do not see."""

from __future__ import annotations

import pytest

from bmq.admin.fetched_records import ALL, HEADER_BYTES, RecordFilter, Room, size_of, take
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.record_batch import TRANSACTIONAL, CorruptRecords

pytestmark = pytest.mark.unit

MUCH = Room(1_000, 1_000_000)


def values(base_offset: int, *found: bytes, **fields: int) -> bytes:
    return bytes(encode_batch([Record(b"k", one) for one in found], base_offset=base_offset, **fields))  # type: ignore[arg-type]


def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
    content = EndTransactionMarker(kind, 0)
    return bytes(
        encode_end_transaction_marker(
            content, producer_id=producer_id, producer_epoch=0, timestamp_ms=1, base_offset=offset
        )
    )


def test_records_are_taken_from_an_offset_within_a_batch() -> None:
    data = values(5, b"a", b"b", b"c", compression=Compression.GZIP) + values(8, b"d")
    taken = take(data, (), 6, ALL, MUCH)
    assert [(one.offset, one.value) for one in taken.records] == [(6, b"b"), (7, b"c"), (8, b"d")]
    assert (taken.next_offset, taken.scanned) == (9, 3)


@pytest.mark.parametrize(
    ("room", "count"), [(Room(2, 1_000), 2), (Room(1_000, 3), 2), (Room(1_000, 0), 1), (Room(1_000, 2), 1)]
)
def test_what_has_no_room_is_where_the_next_call_goes_on(room: Room, count: int) -> None:
    data = values(0, b"a", b"b", b"c", b"d")  # two bytes each
    found, offset = [], 0
    for _ in range(9):
        taken = take(data, (), offset, ALL, room)
        assert len(taken.records) <= count
        found += taken.records
        offset = taken.next_offset
        if offset == 4:
            break
    assert [one.value for one in found] == [b"a", b"b", b"c", b"d"]


def test_scanning_is_bounded_though_nothing_passes() -> None:
    data = values(0, *[b"x"] * 50)
    taken = take(data, (), 0, RecordFilter(value=b"y"), MUCH, 20)
    assert (taken.records, taken.next_offset, taken.scanned) == ([], 20, 20)


def test_filters_find_parts_of_keys_values_and_headers() -> None:
    records = [
        Record(b"user-1", b"red", (("trace", b"abc"),)),
        Record(None, b"blue", (("trace", None),)),
        Record(b"user-2", None, (("other", b"abc"),)),
    ]
    data = bytes(encode_batch(records))

    def offsets(wanted: RecordFilter) -> list[int]:
        return [one.offset for one in take(data, (), 0, wanted, MUCH).records]

    assert offsets(RecordFilter(key=b"user")) == [0, 2]
    assert offsets(RecordFilter(value=b"e")) == [0, 1]
    assert offsets(RecordFilter(header_name="trace")) == [0, 1]
    assert offsets(RecordFilter(header_name="trace", header_value=b"b")) == [0]
    assert offsets(RecordFilter(key=b"2", value=b"red")) == []


def test_readers_of_committed_records_see_no_aborted_ones_and_nobody_sees_markers() -> None:
    data = (
        values(0, b"aborted", attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0)
        + values(1, b"plain")
        + marker(2, 7, ControlType.ABORT)
        + values(3, b"committed", attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0)
        + marker(4, 7, ControlType.COMMIT)
    )
    committed = take(data, ((7, 0),), 0, ALL, MUCH)
    assert [one.value for one in committed.records] == [b"plain", b"committed"]
    assert committed.next_offset == 5
    assert [one.value for one in take(data, (), 0, ALL, MUCH).records] == [b"aborted", b"plain", b"committed"]


def test_a_batch_that_is_none_is_told() -> None:
    data = bytearray(values(0, b"a", b"b"))
    data[60] = 200  # the count of records
    with pytest.raises(CorruptRecords):
        take(bytes(data), (), 0, ALL, MUCH)
    assert take(b"", (), 3, ALL, MUCH) == ([], 3, 0)


def test_the_size_of_a_record_counts_its_headers() -> None:
    assert size_of(Record(b"12", b"345", (("name", b"67"), ("n", None)))) == 12 + 2 * HEADER_BYTES


def test_many_small_headers_take_room() -> None:
    record = Record(None, b"v", (("h", b""),) * 100)
    data = bytes(encode_batch([record] * 10))
    taken = take(data, (), 0, ALL, Room(1_000, 3 * 100 * HEADER_BYTES))
    assert (len(taken.records), taken.next_offset) == (3, 3)
