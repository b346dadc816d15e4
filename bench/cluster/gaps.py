"""Gaps: the longest time between two acknowledgements that followed each other. Pure; times in seconds on one clock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from typing import Final

GAP_UNNOTICED_S: Final = 0.2
"""A gap up to this counts as none, whatever the undisturbed run showed."""
NOISE_FACTOR: Final = 2.0
"""So many times the longest gap of an equally long undisturbed run counts as none."""


def longest_gap(acknowledged_at: Sequence[float], begin: float, end: float) -> float:
    """The longest time between two successive acknowledgements that `begin` … `end` saw some part of.

    `acknowledged_at` ascends. A gap counts from the last acknowledgement before `begin` (from `begin` when there is none),
    and up to `end` when it lasts longer: a stream that never came back has a gap that reaches to the end. Raises ValueError
    for an empty window.
    """
    if end <= begin:
        raise ValueError(f"{begin} … {end} is no window")
    first = max(bisect_right(acknowledged_at, begin) - 1, 0)
    points = list(acknowledged_at[first : bisect_left(acknowledged_at, end)])
    if not points or points[0] > begin:
        points.insert(0, begin)
    points.append(end)
    return max(later - earlier for earlier, later in pairwise(points))


def partition_gaps(acknowledged_at: Mapping[int, Sequence[float]], begin: float, end: float) -> dict[int, float]:
    """The longest gap of each partition."""
    return {partition: longest_gap(times, begin, end) for partition, times in acknowledged_at.items()}


def producer_gap(acknowledged_at: Mapping[int, Sequence[float]], begin: float, end: float) -> float:
    """The longest gap of all partitions taken together: shorter, while some of them go on."""
    return longest_gap(sorted(time for times in acknowledged_at.values() for time in times), begin, end)


def allowed_gap(undisturbed_s: float) -> float:
    """What an equally long run without any fault lets a gap be without counting as one."""
    return max(GAP_UNNOTICED_S, NOISE_FACTOR * undisturbed_s)


def excess_gap(disturbed_s: float, undisturbed_s: float) -> float:
    """What goes beyond that; 0 when nothing does."""
    return max(0.0, disturbed_s - allowed_gap(undisturbed_s))


def lost_or_doubled(
    acknowledged: Mapping[tuple[int, int], int], placeless: Set[int], found: Mapping[tuple[int, int], int]
) -> int:
    """Records that were acknowledged and are not where they were said to be, and records that are there again.

    Both maps are of (partition, offset) to a record's number; `placeless` ones were acknowledged without saying where, and may
    be anywhere.
    """
    numbers = set(found.values())
    lost = sum(found.get(place) != number for place, number in acknowledged.items()) + len(placeless - numbers)
    return lost + len(found) - len(numbers)
