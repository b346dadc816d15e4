"""Batches as the base group and a lane's group see them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.lanes.group_filter import GroupFilter, filter_batches, narrowed_to_batch
from bmq.log.lanes.intervals import Interval, is_of_base, is_of_lane
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Buffer, Compression
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.record_batch import BatchHeader, batches, rewrite, verify_crc
from bmq.records.skipped_offsets import skipped_offsets
from tests.support.shown_records import shown_records

pytestmark = pytest.mark.unit

HEADER = b"x-lane"
OPEN = (Interval("blue", 2),)


def record(value: str, lane: str = "") -> Record:
    headers = [("k", b"1"), ("x-lane", lane.encode())] if lane else [("k", b"1")]
    return Record(b"key", value.encode(), tuple(headers), timestamp_ms=1_700_000_000_000)


def batch_at(offset: int, records: list[Record], codec: Compression = Compression.NONE) -> memoryview:
    data = encode_batch(records, compression=codec, producer_id=9, producer_epoch=2, base_sequence=5)
    rewrite(data, 0, offset, 3)
    return memoryview(data)


def seen(views: list[memoryview], lane: str, intervals: tuple[Interval, ...]) -> list[Buffer]:
    return filter_batches(GroupFilter(lane, HEADER, intervals), memoryview(b"".join(views))).parts


def offsets(found: list[Buffer]) -> list[int]:
    numbers = []
    for one in found:
        header = BatchHeader.parse(one)
        verify_crc(one, 0, header)
        numbers += [read.offset for read in shown_records(one)]
    return numbers


def test_batch_without_lanes_is_the_base_groups_as_it_is() -> None:
    batch = batch_at(0, [record("a"), record("b"), record("c")])
    assert seen([batch], "", OPEN) == [batch]
    assert seen([batch], "", ()) == [batch]


@pytest.mark.parametrize("codec", list(Compression))
def test_records_of_a_lane_that_is_taken_are_the_lanes_and_others_the_base_groups(codec: Compression) -> None:
    lanes = ["blue", "", "blue", "red", "blue", ""]
    batch = batch_at(0, [record(str(number), lane) for number, lane in enumerate(lanes)], codec)
    base, blue, red = (seen([batch], lane, OPEN) for lane in ("", "blue", "red"))
    assert offsets(base) == [0, 1, 3, 5] and offsets(blue) == [2, 4] and red == [skipped_offsets(0, 5, 3)]
    for found in (base, blue):
        header, whole = BatchHeader.parse(found[0]), BatchHeader.parse(batch)
        assert header[:1] + header[6:12] == whole[:1] + whole[6:12] and header.leader_epoch == 3


def test_run_of_batches_without_records_becomes_its_last_one() -> None:
    views = [batch_at(10 * number, [record("a"), record("b", "blue" if number == 2 else "")]) for number in range(5)]
    found = seen([memoryview(b"".join(views[:3])), memoryview(b"".join(views[3:]))], "blue", (Interval("blue", 0),))
    assert [BatchHeader.parse(one).base_offset for one in found] == [10, 20, 40]
    assert offsets(found) == [21]


def test_batches_are_read_across_views() -> None:
    whole = b"".join(batch_at(10 * number, [record("a"), record("b", "blue")]) for number in range(3))
    for cut in range(1, len(whole)):
        found = seen([memoryview(whole[:cut]), memoryview(whole[cut:])], "blue", (Interval("blue", 0),))
        assert offsets(found) == [1, 11, 21]


def test_control_batches_pass() -> None:
    ended = EndTransactionMarker(ControlType.COMMIT, 1)
    marker = memoryview(encode_end_transaction_marker(ended, producer_id=9, producer_epoch=2, timestamp_ms=7))
    assert seen([marker], "blue", OPEN) == [marker]


def test_filters_that_decide_the_same_about_a_batch_are_one() -> None:
    header = BatchHeader.parse(batch_at(5, [record("a"), record("b")]))

    def of(*intervals: Interval) -> GroupFilter | None:
        return narrowed_to_batch(GroupFilter("blue", HEADER, intervals), header)

    assert of(Interval("blue", 2)) == of(Interval("blue", 5, 9, 8)) == of(Interval("blue", 1, 7, 7)) is not None
    assert of(Interval("blue", 6)) != of(Interval("blue", 5)) != of(Interval("blue", 5, 7, 6))
    assert of() is of(Interval("blue", 7)) is of(Interval("blue", 0, 5, 5)) is None


def test_what_is_known_is_not_opened_again() -> None:
    whole = memoryview(b"".join(batch_at(2 * number, [record("a"), record("b", "blue")]) for number in range(3)))
    group_filter = GroupFilter("", HEADER, OPEN)
    first = filter_batches(group_filter, whole)
    assert len(first.opened) == 2, "the first batch lies in front of the interval"
    again = filter_batches(group_filter, whole, first.opened)
    assert (again.parts, again.opened) == (first.parts, {})


@given(
    st.lists(st.lists(st.sampled_from(["", "red", "blue"]), min_size=1, max_size=5), min_size=1, max_size=5),
    st.lists(st.tuples(st.sampled_from(["red", "blue"]), st.integers(0, 25), st.integers(0, 25), st.integers(0, 25))),
    st.sampled_from(list(Compression)),
)
def test_each_group_sees_what_the_intervals_say(
    lanes: list[list[str]], drawn: list[tuple[str, int, int, int]], codec: Compression
) -> None:
    intervals = []
    for lane, *bounds in drawn:
        start, kept, end = sorted(bounds)
        intervals.append(Interval(lane, start, end, kept))
    views: list[memoryview] = []
    flat: list[str] = []
    for some in lanes:
        views.append(batch_at(len(flat), [record("v", lane) for lane in some], codec))
        flat += some
    for reader in ("", "red", "blue"):
        found = seen([memoryview(b"".join(views))], reader, tuple(intervals))
        wanted = [
            offset
            for offset, lane in enumerate(flat)
            if (
                is_of_lane(intervals, lane, offset) and lane == reader
                if reader
                else is_of_base(intervals, lane, offset)
            )
        ]
        assert offsets(found) == wanted
        *_, (_, last) = batches(found[-1])
        assert last.end_offset == len(flat), "the reader's position moves to the end"
