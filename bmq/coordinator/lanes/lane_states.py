"""The lanes of one shard's groups, as the log has them: intervals of offsets, by base group, partition, lane and start. Decisions only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from bmq.log.lanes.intervals import NO_END, Interval
from bmq.protocol.lane_records import (
    LaneIntervalKey,
    LaneIntervalValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)


class LanePlace(NamedTuple):
    """A partition as a base group reads it."""

    group_id: str
    topic_id: UUID
    partition: int


class SavedLanes(NamedTuple):
    """All intervals at one moment, as bmq.coordinator.snapshot.SavedGroup."""

    entries: list[tuple[LaneIntervalKey, LaneIntervalValue]]

    def encoded_records(self) -> Iterator[tuple[bytes, bytes]]:
        """Records that restore the intervals."""
        for key, value in self.entries:
            yield encode_key(key), encode_value(value)


def key_of(place: LanePlace, interval: Interval) -> LaneIntervalKey:
    """The key of the interval's record: another one with the same lane and start replaces it."""
    return LaneIntervalKey(
        group=place.group_id,
        topic_id=place.topic_id,
        partition=place.partition,
        lane=interval.lane,
        start=interval.start,
    )


def place_of(key: LaneIntervalKey) -> LanePlace:
    """Where the interval is."""
    return LanePlace(key.group, key.topic_id, key.partition)


def is_copied(value: LaneIntervalValue) -> bool:
    """Whether the interval has ended, and nothing that it left over waits for its copy."""
    return value.end != NO_END and value.copied >= value.end


class LaneStates:
    """`count`: intervals of all groups."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[tuple[UUID, int], dict[tuple[str, int], LaneIntervalValue]]] = {}
        self.count = 0

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a durable record. Raises MalformedMessage."""
        named = decode_key(key)
        told = decode_value(named, value)
        places = self._by_group.setdefault(named.group, {})
        intervals = places.setdefault((named.topic_id, named.partition), {})
        self.count -= len(intervals)
        if told is None:
            intervals.pop((named.lane, named.start), None)
        else:
            intervals[named.lane, named.start] = told
        self.count += len(intervals)
        if not intervals:
            del places[named.topic_id, named.partition]
        if not places:
            del self._by_group[named.group]

    def has_group(self, group_id: str) -> bool:
        """Whether the base group has intervals: then its members need their mark."""
        return group_id in self._by_group

    def intervals(self, place: LanePlace) -> list[Interval]:
        """Those of a partition, by start and lane."""
        found = self._by_group.get(place.group_id, {}).get((place.topic_id, place.partition), {})
        intervals = [Interval(lane, start, value.end, value.kept) for (lane, start), value in found.items()]
        return sorted(intervals, key=lambda one: (one.start, one.lane))

    def entries(self, group_id: str | None = None) -> list[tuple[LaneIntervalKey, LaneIntervalValue]]:
        """All intervals of a base group, or of all of them."""
        groups = self._by_group if group_id is None else {group_id: self._by_group.get(group_id, {})}
        return [
            (LaneIntervalKey(group=group, topic_id=topic_id, partition=number, lane=lane, start=start), value)
            for group, places in groups.items()
            for (topic_id, number), intervals in places.items()
            for (lane, start), value in intervals.items()
        ]

    def value(self, key: LaneIntervalKey) -> LaneIntervalValue | None:
        """As the log has it now."""
        return self._by_group.get(key.group, {}).get((key.topic_id, key.partition), {}).get((key.lane, key.start))

    def copied(self) -> list[SavedLanes]:
        """For a snapshot: no change of the state changes it."""
        return [SavedLanes(self.entries())] if self.count else []
