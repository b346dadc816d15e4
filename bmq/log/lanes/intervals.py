"""Which records of a partition a base group sees and which its lanes see: intervals of offsets in which a lane is taken. Pure.

Each record is seen once. In no interval of its lane: by the base group. In an interval, below `kept`: by the lane's group.
From `kept` to the end of an interval that has ended: by the base group, in a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

NO_END: Final = 2**63 - 1


class Interval(NamedTuple):
    """Offsets `start` … `end - 1` in which the lane is taken.

    `end`: NO_END while it is open. `kept`: what the lane's group had committed when the interval ended, within its bounds;
    NO_END while it is open.
    """

    lane: str
    start: int
    end: int = NO_END
    kept: int = NO_END

    @property
    def is_open(self) -> bool:
        return self.end == NO_END

    @property
    def left_over(self) -> range:
        """Offsets whose records of this lane are copied for the base group."""
        return range(0) if self.is_open else range(self.kept, self.end)


def is_of_base(intervals: Iterable[Interval], lane: str, offset: int) -> bool:
    """Whether the base group sees a record of `lane` (empty: none) at its own offset."""
    return not any(one.lane == lane and one.start <= offset < one.end for one in intervals)


def is_of_lane(intervals: Iterable[Interval], lane: str, offset: int) -> bool:
    """Whether the lane's group sees a record of its lane at this offset."""
    return any(one.lane == lane and one.start <= offset < one.kept for one in intervals)


def concerning(intervals: Iterable[Interval], first: int, last: int) -> Sequence[Interval]:
    """Those that have one of the offsets `first` … `last`."""
    return [one for one in intervals if one.start <= last and first < one.end]


def open_interval(intervals: Iterable[Interval], lane: str) -> Interval | None:
    """The lane's interval that has not ended; there is one at most."""
    return next((one for one in intervals if one.lane == lane and one.is_open), None)


def opened(intervals: Sequence[Interval], lane: str, high_watermark: int) -> Interval:
    """The interval that makes the lane taken from `high_watermark` on, read after the decision to open it.

    An interval that ended just there and left nothing over goes on: it replaces the one with the same lane and start.
    Raises ValueError if the lane is taken.
    """
    if open_interval(intervals, lane) is not None:
        raise ValueError(f"the lane {lane} is taken")
    ended = [one for one in intervals if one.lane == lane]
    start = max([high_watermark, *(one.end for one in ended)])
    for one in ended:
        if one.end == start and one.kept == one.end:
            return Interval(lane, one.start)
    return Interval(lane, start)


def closed(interval: Interval, high_watermark: int, committed: int | None) -> Interval:
    """The interval, ended at `high_watermark`, of whose records the lane's group had done those below `committed`.

    None: it has committed nothing in this partition.
    """
    end = max(high_watermark, interval.start)
    kept = interval.start if committed is None else min(max(committed, interval.start), end)
    return interval._replace(end=end, kept=kept)
