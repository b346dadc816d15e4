"""Metrics of share groups by name: locked records, and the age of the oldest open record. Pure.

Names of groups are labels, so their number is bounded: groups that hold something up come first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

GROUPS_MAX: Final = 200
"""Groups that metrics name."""


class PartitionFigures(NamedTuple):
    """Of one share partition. `oldest_s`: since when its oldest record that was given and is not done is the oldest."""

    group_id: str
    locked: int
    locks: int
    delayed: int
    archiving: int
    oldest_s: float


class GroupFigures(NamedTuple):
    """Of all partitions of a group here. `oldest_s`: the greatest."""

    group_id: str
    locked: int
    oldest_s: float


def by_group(partitions: Iterable[PartitionFigures]) -> list[GroupFigures]:
    """The groups with records that are locked or open, the longest open first; GROUPS_MAX at most."""
    found: dict[str, GroupFigures] = {}
    for one in partitions:
        before = found.get(one.group_id, GroupFigures(one.group_id, 0, 0.0))
        found[one.group_id] = GroupFigures(one.group_id, before.locked + one.locked, max(before.oldest_s, one.oldest_s))
    open_ones = [one for one in found.values() if one.locked or one.oldest_s]
    return sorted(open_ones, key=lambda one: (-one.oldest_s, -one.locked, one.group_id))[:GROUPS_MAX]
