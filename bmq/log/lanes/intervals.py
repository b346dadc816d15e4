"""Which records of a partition a base group sees and which its lanes see: intervals of offsets in which a lane is taken. Pure.

Each record is seen by one group. The base group sees records outside of the intervals of their lane. The lane's group sees
those inside an interval, below `kept`. Records from `kept` to the end of an ended interval are copied for the base group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

NO_END: Final = 2**63 - 1


class Interval(NamedTuple):
    """Offsets `start` … `end - 1` in which the lane is taken.

    `end`: NO_END while it is open. `kept`: the offset that the lane's group had committed when the interval ended, limited to the
    interval's bounds; NO_END while it is open.
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
    """The intervals that overlap the offsets `first` … `last`."""
    return [one for one in intervals if one.start <= last and first < one.end]


def open_interval(intervals: Iterable[Interval], lane: str) -> Interval | None:
    """The lane's open interval; there is at most one."""
    return next((one for one in intervals if one.lane == lane and one.is_open), None)


def opened(intervals: Sequence[Interval], lane: str, high_watermark: int) -> Interval:
    """A new interval, in which the lane is taken from `high_watermark` on (as read after the decision to open it).

    If the lane's last interval ended right there and left nothing over, the result is that interval, open again: it has the same
    lane and start, so it replaces the ended one. Raises ValueError if the lane is taken.
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
    """The interval, ended at `high_watermark`. The lane's group has consumed its records below `committed`.

    `committed` None: the group has committed no offset in this partition.
    """
    end = max(high_watermark, interval.start)
    kept = interval.start if committed is None else min(max(committed, interval.start), end)
    return interval._replace(end=end, kept=kept)
