"""Which topics of a cluster mirrors write, and from which clusters their records came: mirrors must not feed each other.

Each mirror keeps the clusters that a topic's records came from beside its positions, on the cluster where it writes.
MirrorMaker 2 tells it by topic names alone, which works only while all mirrors use one naming policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from bmq.spark.jobs.cluster import Cluster
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.positions import Position

MIRROR_PREFIX: Final = "bmq-mirror-"
"""The prefix of the groups with mirrors' positions, and of their map topics."""
_FIRST_GROUP: Final = ".0"
"""Partition 0's position is in the group of the first wrap-around."""

Origins = Mapping[str, tuple[str, ...]]
"""Topic -> ids of clusters."""


def origins_of(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """The origins of the topics that mirrors write on this cluster. Raises JobFailed, BrokenOff."""
    groups = [name for name in cluster.group_names(MIRROR_PREFIX) if name.endswith(_FIRST_GROUP)]
    found: dict[str, tuple[str, ...]] = {}
    for place in cluster.committed(groups):
        try:
            origins = Position.of(place.offset, place.metadata).origins
        except JobFailed:
            continue  # a group of that name that is no mirror's
        found[place.topic] = tuple(dict.fromkeys((*found.get(place.topic, ()), *origins)))
    return found


def foreign(topics: Iterable[str], origins: Origins, target_id: str) -> list[str]:
    """The topics without those whose records came from the target. Pure."""
    return [name for name in topics if target_id not in origins.get(name, ())]


class KnownOrigins:
    """Remembered origins of a source's topics, so that groups are not listed in every round.

    A mirror commits its first position before its first record. So an empty topic is checked again once it has records, and
    never after that.
    """

    def __init__(self) -> None:
        self._looked: dict[str, tuple[str, bool]] = {}
        self._origins: dict[str, tuple[str, ...]] = {}

    def is_due(self, name: str, topic_id: str, *, has_records: bool) -> bool:
        """Whether this topic has to be checked. `has_records`: read before the origins are."""
        known_id, had_records = self._looked.get(name, ("", False))
        return known_id != topic_id or (has_records and not had_records)

    def note(self, name: str, topic_id: str, origins: Origins, *, has_records: bool) -> None:
        self._looked[name] = topic_id, has_records
        self._origins[name] = origins.get(name, ())

    def of(self, name: str) -> tuple[str, ...]:
        return self._origins.get(name, ())
