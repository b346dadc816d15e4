"""Which group gets a record with these headers, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from bmq.log.lanes.intervals import NO_END, Interval
from bmq.log.lanes.names import LaneGroup, LaneRefused, copies_topic
from bmq.log.lanes.record_lane import NO_LANE, Headers, lane_of


class LaneReader(StrEnum):
    """The group that gets a record. COPY: the base group, from the topic of copies."""

    BASE = "base"
    LANE = "lane"
    COPY = "copy"


class LaneExplanation(NamedTuple):
    """Which group gets a record: `group`, from `topic`. `lane`: the record's, or NO_LANE. `why`: one sentence."""

    lane: str
    reader: LaneReader
    group: str
    topic: str
    why: str


class ReadTopic(NamedTuple):
    """A topic as a base group and its lanes read it. `untaken`: lane -> why it is not taken though its group reads the topic."""

    base: str
    topic: str
    intervals: Sequence[Interval]
    untaken: dict[str, str]


def explained(read: ReadTopic, headers: Headers, offset: int | None, header: bytes) -> LaneExplanation:
    """Which group gets a record with these headers. `offset` None: a record produced next. `header`: name of the lane header."""
    base = LaneExplanation(NO_LANE, LaneReader.BASE, read.base, read.topic, "it has no lane")
    try:
        lane = lane_of(headers, header)
    except LaneRefused as error:
        return base._replace(why=f"it has no lane: {error}")
    if lane == NO_LANE:
        return base
    place = NO_END - 1 if offset is None else offset
    taken = next((one for one in read.intervals if one.lane == lane and one.start <= place < one.end), None)
    if taken is None:
        where = "now" if offset is None else f"at offset {offset}"
        reason = read.untaken.get(lane) if offset is None else None
        return base._replace(lane=lane, why=f"the lane {lane} is not taken {where}" + (f": {reason}" if reason else ""))
    if place < taken.kept:
        until = "on" if taken.is_open else f"to {taken.end - 1}"
        group = LaneGroup(read.base, lane).group_id
        why = f"the lane {lane} is taken from offset {taken.start} {until}"
        return LaneExplanation(lane, LaneReader.LANE, group, read.topic, why)
    why = f"the lane {lane} has ended, and its group had consumed the records below offset {taken.kept} only"
    return LaneExplanation(lane, LaneReader.COPY, read.base, copies_topic(read.topic, read.base), why)
