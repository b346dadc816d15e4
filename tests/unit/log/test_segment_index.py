"""The index of a segment: what it finds, what it refuses."""

from __future__ import annotations

from array import array
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.aborted_transactions import AbortedEntry, AbortedTransactions
from bmq.log.checksummed_parts import CorruptParts, UnfinishedParts, decode_parts, encode_parts
from bmq.log.index_cache import IndexCache
from bmq.log.partition_log import Location, Span
from bmq.log.segment_index import CorruptIndex, IndexBuilder, SegmentIndex, SegmentSummary, span_from
from bmq.protocol.record_batch import BatchHeader

pytestmark = pytest.mark.unit

MAGIC = b"BMQINDX1"
PARTS = (b"head", b"offs", b"poss", b"time", b"abrt", b"prod")

# (records, bytes behind the header, timestamp) of each batch
BATCHES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 300), st.integers(-1, 1_000)), min_size=1, max_size=40)


def header(count: int, body_bytes: int, timestamp_ms: int) -> BatchHeader:
    return BatchHeader(0, 49 + body_bytes, 0, 2, 0, 0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)


def built(batches: list[tuple[int, int, int]], base_offset: int = 100, interval_bytes: int = 200) -> IndexBuilder:
    builder = IndexBuilder(3, 4, 55, base_offset, interval_bytes=interval_bytes)
    for count, body_bytes, timestamp_ms in batches:
        builder.add(header(count, body_bytes, timestamp_ms), builder.end_offset, builder.valid_bytes)
    return builder


def positions_of(batches: list[tuple[int, int, int]]) -> list[int]:
    return list(accumulate((61 + body_bytes for _, body_bytes, _ in batches), initial=0))


@given(BATCHES, st.data())
def test_an_offset_is_found_at_or_behind_the_position(batches: list[tuple[int, int, int]], data: st.DataObject) -> None:
    builder = built(batches)
    index = builder.build(builder.valid_bytes)
    positions = positions_of(batches)
    offsets = list(accumulate((count for count, _, _ in batches), initial=100))
    assert index.summary.end_offset == offsets[-1]
    assert index.summary.valid_bytes == positions[-1]
    offset = data.draw(st.integers(100, offsets[-1] - 1))
    number = next(n for n, (start, end) in enumerate(pairwise(offsets)) if start <= offset < end)
    found = index.position_of(offset)
    assert found in positions
    assert found <= positions[number]
    # Never more than an interval and a batch away: that is what the table is for.
    assert positions[number] - found < 200 + 361
    assert builder.position_of(offset) == found


@given(BATCHES, st.integers(-1, 1_001))
def test_nothing_young_enough_lies_before_the_position_of_a_timestamp(
    batches: list[tuple[int, int, int]], timestamp_ms: int
) -> None:
    builder = built(batches)
    index = builder.build(builder.valid_bytes)
    positions = positions_of(batches)
    found = index.position_of_timestamp(timestamp_ms)
    assert found in positions
    assert builder.position_of_timestamp(timestamp_ms) == found
    assert all(time < timestamp_ms for (_, _, time), at in zip(batches, positions, strict=False) if at < found)
    greatest = max(time for _, _, time in batches)
    assert index.summary.max_timestamp_ms == greatest
    if greatest >= 0:
        first = next(at for (_, _, time), at in zip(batches, positions, strict=False) if time == greatest)
        assert index.summary.max_timestamp_position == first


def whole_index(batches: list[tuple[int, int, int]], producers: bytes = b"state", tail_bytes: int = 0) -> SegmentIndex:
    builder = built(batches)
    aborted = AbortedTransactions()
    aborted.add(AbortedEntry(9, 100, builder.end_offset - 1, builder.end_offset))
    return builder.build(builder.valid_bytes + tail_bytes, aborted=aborted, producers=producers)


@given(BATCHES, st.binary(max_size=20), st.integers(0, 100))
def test_round_trip(batches: list[tuple[int, int, int]], producers: bytes, tail_bytes: int) -> None:
    index = whole_index(batches, producers, tail_bytes)
    decoded = SegmentIndex.decode(index.encode())
    assert decoded.summary == index.summary
    assert (decoded.offsets, decoded.positions) == (index.offsets, index.positions)
    assert decoded.timestamps_ms == index.timestamps_ms
    assert list(decoded.aborted) == list(index.aborted)
    assert decoded.producers == producers


@given(BATCHES, st.data())
def test_every_flipped_bit_and_cut_is_found(batches: list[tuple[int, int, int]], data: st.DataObject) -> None:
    whole = whole_index(batches).encode()
    damaged = bytearray(whole)
    bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptIndex):
        SegmentIndex.decode(damaged)
    with pytest.raises(UnfinishedParts):
        SegmentIndex.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=200))
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptParts):
        SegmentIndex.decode(data)


GOOD = [(1, 150, 5), (2, 150, 7), (1, 150, 9)]


@pytest.mark.parametrize(
    "change",
    [
        {"offsets": array("q", [100])},
        {"offsets": array("q", [101, 101, 103])},
        {"offsets": array("q", [99, 101, 103])},
        {"offsets": array("q", [100, 101, 104])},
        {"positions": array("q", [1, 211, 422])},
        {"positions": array("q", [0, 422, 211])},
        {"positions": array("q", [0, 211, 633])},
        {"timestamps_ms": array("q", [-1, 7, 5])},
    ],
)
def test_tables_that_contradict_each_other_are_refused(change: dict[str, array[int]]) -> None:
    builder = built(GOOD, interval_bytes=1)
    index = builder.build(builder.valid_bytes)
    assert len(index.positions) == 3
    assert SegmentIndex.decode(index.encode()).summary == index.summary
    with pytest.raises(CorruptIndex):
        SegmentIndex.decode(replace(index, **change).encode())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"closed_bytes": 632},
        {"end_offset": 50},
        {"roll": -1},
        {"valid_bytes": 100},
    ],
)
def test_a_head_that_contradicts_itself_is_refused(change: dict[str, object]) -> None:
    builder = built(GOOD, interval_bytes=1)
    index = builder.build(builder.valid_bytes)
    with pytest.raises(CorruptIndex):
        SegmentIndex.decode(replace(index, summary=replace(index.summary, **change)).encode())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (b'"roll":4', b'"roll":"4"'),
        (b'"roll":4', b'"roll":4,"more":1'),
        (b'"file_id":55,', b""),
        (b"[[3,100]]", b"[[3]]"),
    ],
)
def test_a_head_of_other_types_is_refused(field: bytes, value: bytes) -> None:
    parts = decode_parts(MAGIC, whole_index(GOOD).encode(), PARTS)
    head = bytes(parts[b"head"])
    assert field in head
    with pytest.raises(CorruptIndex):
        SegmentIndex.decode(encode_parts(MAGIC, {**parts, b"head": head.replace(field, value)}))


def test_an_index_is_for_one_file_only() -> None:
    index = whole_index(GOOD)
    closed_bytes = index.summary.closed_bytes
    assert index.is_for(3, 4, 55, closed_bytes)
    for other in ((2, 4, 55, closed_bytes), (3, 5, 55, closed_bytes), (3, 4, 56, closed_bytes)):
        assert not index.is_for(*other)
    assert not index.is_for(3, 4, 55, closed_bytes + 1)


def test_an_empty_segment_has_no_index() -> None:
    with pytest.raises(ValueError, match="empty"):
        IndexBuilder(1, 0, 1, 0, interval_bytes=100).build(0)


def test_the_cache_keeps_the_latest_used_within_its_bytes() -> None:
    index = whole_index(GOOD)
    each = index.without_producers().memory_bytes
    cache = IndexCache(bytes_max=3 * each)
    for roll in range(3):
        cache.put(("p", 0, roll), index)
    assert cache.get(("p", 0, 0)) is not None
    cache.put(("q", 0, 3), index)
    assert cache.get(("p", 0, 1)) is None
    assert cache.held_bytes == 3 * each
    kept = cache.get(("p", 0, 0))
    assert kept is not None
    assert kept.producers == b""
    cache.drop_partition("p")
    assert len(cache) == 1
    assert cache.held_bytes == each


@pytest.mark.parametrize("bytes_max", [0, 1])
def test_the_smallest_cache_keeps_the_newest_index(bytes_max: int) -> None:
    tiny = IndexCache(bytes_max)
    tiny.put(("p", 0, 0), whole_index(GOOD))
    tiny.put(("p", 0, 1), whole_index(GOOD))
    assert len(tiny) == 1
    assert tiny.get(("p", 0, 1)) is not None


def test_a_summary_names_what_it_is_for() -> None:
    summary = whole_index(GOOD, tail_bytes=7).summary
    assert summary == SegmentSummary(3, 4, 55, 640, 633, 100, 104, 9, 422, ((3, 100),))


@given(BATCHES, st.data())
def test_a_span_is_whole_batches_within_its_limits(batches: list[tuple[int, int, int]], data: st.DataObject) -> None:
    builder = built(batches)
    offsets = list(accumulate((count for count, _, _ in batches), initial=100))
    positions = positions_of(batches)
    offset = data.draw(st.integers(100, offsets[-1] - 1))
    limit = data.draw(st.integers(0, positions[-1] + 100))
    bound = data.draw(st.integers(offset, offsets[-1] + 10))
    valid = data.draw(st.sampled_from(range(1, len(batches) + 1)))
    start = builder.position_of(offset)
    location = Location("p", 55, start, positions[valid], 100, offsets[valid], is_closed=True)
    span = span_from(location, builder.offsets, builder.positions, limit, bound)
    if span is None:
        return
    end = start + span.length_bytes
    assert span.position == start and 0 < span.length_bytes <= limit and end <= positions[valid]
    assert span.next_offset <= bound
    assert offsets[positions.index(end)] == span.next_offset
    assert span.base_offset == offsets[positions.index(start)]


@given(BATCHES)
def test_a_span_without_a_limit_is_all_that_is_valid(batches: list[tuple[int, int, int]]) -> None:
    builder = built(batches)
    location = Location("p", 55, 0, builder.valid_bytes, 100, builder.end_offset, is_closed=False)
    span = span_from(location, builder.offsets, builder.positions, 10**9, builder.end_offset)
    assert span == Span("p", 55, 0, builder.valid_bytes, 100, builder.end_offset)
