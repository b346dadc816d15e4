"""Who gets a record, in words."""

from __future__ import annotations

import pytest

from bmq.log.lanes.explanation import LaneExplanation, ReadTopic, explained
from bmq.log.lanes.intervals import Interval, is_of_base, is_of_lane

pytestmark = pytest.mark.unit

READ = ReadTopic(
    "g", "t", [Interval("blue", 5, 8, 6), Interval("blue", 20), Interval("red", 0, 9, 9)], {"red": "no one"}
)


def said(offset: int | None, *lanes: bytes) -> LaneExplanation:
    return explained(READ, [(b"x-lane", lane) for lane in lanes], offset, b"x-lane")


@pytest.mark.parametrize(
    ("offset", "lanes", "reader", "group", "topic", "why"),
    [
        (None, (), "base", "g", "t", "it has no lane"),
        (None, (b"blue",), "lane", "g@blue", "t", "the lane blue is taken from offset 20 on"),
        (5, (b"blue",), "lane", "g@blue", "t", "the lane blue is taken from offset 5 to 7"),
        (6, (b"blue",), "copy", "g", "t.retry.g", "had consumed the records below offset 6 only"),
        (8, (b"blue",), "base", "g", "t", "the lane blue is not taken at offset 8"),
        (None, (b"red",), "base", "g", "t", "the lane red is not taken now: no one"),
        (9, (b"red",), "base", "g", "t", "the lane red is not taken at offset 9"),
        (None, (b"green",), "base", "g", "t", "the lane green is not taken now"),
        (5, (b"a@b",), "base", "g", "t", "it has no lane: 'a@b' is no lane"),
        (5, (b"blue", b"red"), "base", "g", "t", "it has no lane: the header x-lane is in the record more than once"),
    ],
)
def test_reader_and_reason(
    offset: int | None, lanes: tuple[bytes, ...], reader: str, group: str, topic: str, why: str
) -> None:
    found = said(offset, *lanes)
    assert (found.reader, found.group, found.topic) == (reader, group, topic)
    assert why in found.why


def test_it_says_what_the_filter_does() -> None:
    for lane in ("blue", "red"):
        for offset in range(30):
            reader = said(offset, lane.encode()).reader
            assert (reader == "base") == is_of_base(READ.intervals, lane, offset)
            assert (reader == "lane") == is_of_lane(READ.intervals, lane, offset)
