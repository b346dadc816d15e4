"""A sound segment has no findings; whatever is wrong with one is found where it is, and what follows is still checked."""

from __future__ import annotations

import struct
from array import array
from dataclasses import replace
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.log.origin import Origin
from bmq.log.padding import padded_end
from bmq.log.segment_index import IndexBuilder, SegmentIndex
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.record_batch import BatchHeader
from bmq.spark.jobs.segment_check import FINDINGS_MAX, Finding, Kind, SegmentCheck
from tests.support.flagged_batch import flagged_batch

pytestmark = pytest.mark.unit

ORIGIN = Origin("orders", 3, "00000000.log", 0)
_LENGTH_AT = 8
_CRC_AT = 17
_CRC_BEGINS = 21


def batch(
    base_offset: int, count: int = 3, codec: Compression = Compression.NONE, timestamp_ms: int = 1000
) -> bytearray:
    records = [
        Record(key=b"k", value=b"v" * 50, headers=(("h", b"x"),), timestamp_ms=timestamp_ms + n, offset=0)
        for n in range(count)
    ]
    return encode_batch(records, base_offset=base_offset, leader_epoch=2, compression=codec)


class Segment:
    """A file and the index that a broker would have made of it."""

    def __init__(self, batches: list[bytearray], *, alignment_bytes: int = 1) -> None:
        base_offset = BatchHeader.parse(batches[0]).base_offset
        builder = IndexBuilder(2, 0, 9, base_offset, interval_bytes=200)
        self.places: list[int] = []
        data = bytearray()
        for each in batches:
            header = BatchHeader.parse(each)
            builder.add(header, header.base_offset, len(data))
            self.places.append(len(data))
            data += each
            data += bytes(padded_end(len(data), alignment_bytes) - len(data))
        self.data = data
        self.base_offset = base_offset
        self.index = builder.build(len(data))

    def check(self, *, piece_bytes: int = 1 << 20, index: SegmentIndex | None = None, **more: Any) -> SegmentCheck:
        check = SegmentCheck(ORIGIN, self.base_offset, **{"is_compacted": False, **more})
        position, rest, at, missing = 0, b"", 0, 0
        while at < len(self.data):
            fresh = self.data[at : at + max(piece_bytes, missing)]
            at += len(fresh)
            data = rest + fresh
            used, missing = check.take(position, memoryview(data))
            position += used
            rest = bytes(data[used:])
        check.compare(index or self.index)
        return check


def sound(count: int = 6) -> list[bytearray]:
    return [batch(3 * n, codec=list(Compression)[n % 5], timestamp_ms=1000 + 7 * n) for n in range(count)]


def texts(check: SegmentCheck) -> list[tuple[Kind, int | None]]:
    return [(finding.kind, finding.offset) for finding in check.findings]


@settings(deadline=None)
@given(st.integers(1, 500), st.sampled_from([1, 512]), st.integers(1, 9))
def test_a_sound_segment_has_no_findings(piece_bytes: int, alignment_bytes: int, count: int) -> None:
    segment = Segment(sound(count), alignment_bytes=alignment_bytes)
    check = segment.check(piece_bytes=piece_bytes)
    assert check.findings == []
    assert (check.batch_count, check.record_count, check.end_offset) == (count, 3 * count, 3 * count)
    assert check.bytes == sum(map(len, sound(count)))


@settings(deadline=None)
@given(st.integers(0, 5), st.integers(0, 10_000), st.integers(1, 255), st.integers(50, 600))
def test_a_flipped_byte_of_any_batch_is_found(number: int, at: int, bits: int, piece_bytes: int) -> None:
    segment = Segment(sound())
    size = len(sound()[number])
    place = at % size
    if 12 <= place < 16:
        return  # the leader epoch is not under the checksum
    segment.data[segment.places[number] + place] ^= bits
    check = segment.check(piece_bytes=piece_bytes)
    assert check.findings


def test_a_damaged_batch_is_named_and_the_others_are_counted() -> None:
    segment = Segment(sound())
    segment.data[segment.places[2] + 70] ^= 1
    segment.data[segment.places[4] + 70] ^= 1
    check = segment.check()
    assert texts(check) == [(Kind.BATCH, 6), (Kind.BATCH, 12)]
    assert [finding.position_bytes for finding in check.findings] == [segment.places[2], segment.places[4]]
    assert "checksum" in check.findings[0].reason
    assert check.batch_count == 6


def test_an_impossible_header_is_passed_over_by_its_length() -> None:
    segment = Segment(sound())
    segment.data[segment.places[1] + 16] = 9  # magic
    check = segment.check(index=segment.index)
    assert (Kind.BATCH, 3) in texts(check)
    assert check.end_offset == 18


def test_a_length_that_leads_nowhere_ends_the_check() -> None:
    segment = Segment(sound())
    struct.pack_into(">i", segment.data, segment.places[1] + _LENGTH_AT, -5)
    check = segment.check(piece_bytes=100)
    assert check.findings[0].kind is Kind.BATCH
    assert check.findings[0].position_bytes == segment.places[1]
    assert check.batch_count == 1


def test_a_hole_between_batches_is_found_unless_the_topic_is_compacted() -> None:
    batches = [batch(0), batch(3), batch(9)]
    segment = Segment(batches)
    check = segment.check()
    assert texts(check) == [(Kind.OFFSETS, 9)]
    assert "it begins at 9, 6 was due" in check.findings[0].reason
    assert segment.check(is_compacted=True).findings == []


def test_a_segment_that_begins_elsewhere_than_it_should_is_found() -> None:
    segment = Segment([batch(3), batch(6)])
    segment.base_offset = 0
    assert (Kind.OFFSETS, 3) in texts(segment.check())


def test_a_batch_with_fewer_records_than_offsets_is_found() -> None:
    records = [Record(key=b"k", value=b"v", headers=(), timestamp_ms=5, offset=offset) for offset in (0, 2)]
    sparse = flagged_batch(records, base_offset=0, last_offset=3, leader_epoch=2)
    segment = Segment([sparse, batch(4)])
    check = segment.check()
    assert texts(check) == [(Kind.OFFSETS, 0)]
    assert "4 offsets has 2 records" in check.findings[0].reason
    assert segment.check(is_compacted=True).findings == []


def test_records_that_do_not_fill_their_batch_are_found() -> None:
    """The checksum is right, and what it is of is not."""
    segment = Segment([batch(0), batch(3), batch(6)])
    place = segment.places[1]
    segment.data[place + 61] = 0x7F  # the length of the first record
    end = segment.places[2]
    struct.pack_into(">I", segment.data, place + _CRC_AT, crc32c(bytes(segment.data[place + _CRC_BEGINS : end])))
    check = segment.check()
    assert texts(check) == [(Kind.BATCH, 3)]
    assert "checksum" not in check.findings[0].reason


@pytest.mark.parametrize("table", ["offsets", "positions", "timestamps_ms"])
def test_an_index_entry_that_is_not_true_is_found(table: str) -> None:
    segment = Segment(sound())
    numbers = array("q", getattr(segment.index, table))
    numbers[1] += 1
    check = segment.check(index=replace(segment.index, **{table: numbers}))  # type: ignore[arg-type]
    assert {finding.kind for finding in check.findings} == {Kind.INDEX}
    assert len(check.findings) == 1


@pytest.mark.parametrize("name", ["base_offset", "end_offset", "max_timestamp_ms", "max_timestamp_position"])
def test_a_head_of_the_index_that_is_not_true_is_found(name: str) -> None:
    segment = Segment(sound())
    summary = replace(segment.index.summary, **{name: getattr(segment.index.summary, name) + 1})
    check = segment.check(index=replace(segment.index, summary=summary))
    assert [finding.kind for finding in check.findings] == [Kind.INDEX]


def test_a_compacted_segment_begins_where_those_did_that_it_replaces() -> None:
    segment = Segment([batch(3), batch(9)])
    index = replace(segment.index, summary=replace(segment.index.summary, base_offset=0))
    segment.base_offset = 0
    assert segment.check(index=index, is_compacted=True).findings == []
    later = replace(index, summary=replace(index.summary, base_offset=1))
    assert texts(segment.check(index=later, is_compacted=True)) == [(Kind.INDEX, None)]


def test_findings_beyond_the_limit_are_counted() -> None:
    check = SegmentCheck(ORIGIN, 0, is_compacted=False)
    for number in range(FINDINGS_MAX + 7):
        check.found(Kind.BATCH, "x", offset=number)
    assert (len(check.findings), check.finding_count) == (FINDINGS_MAX, FINDINGS_MAX + 7)


@pytest.mark.parametrize("says_ms", [-1, 0, 1000, 5000])
@pytest.mark.parametrize("codec", list(Compression))
def test_a_header_with_another_time_than_its_records_is_found(says_ms: int, codec: Compression) -> None:
    """Batches that were stored before they were read: look-ups by time and retention go by their headers."""
    lying = batch(3, codec=codec)
    struct.pack_into(">q", lying, 35, says_ms)
    struct.pack_into(">I", lying, _CRC_AT, crc32c(bytes(lying[_CRC_BEGINS:])))
    segment = Segment([batch(0), lying, batch(6)])
    (finding,) = segment.check().findings
    assert (finding.kind, finding.offset, finding.position_bytes) == (Kind.BATCH, 3, segment.places[1])
    assert finding.reason == f"the header's greatest time is {says_ms}, that of the records 1002"


def test_a_finding_survives_json() -> None:
    one = Finding(Kind.REPLICA, "t", 1, "f", "why", 3, 4, "node:1")
    assert Finding.from_json(one.to_json()) == one
