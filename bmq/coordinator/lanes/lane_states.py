"""The lanes of one shard's groups, as the log has them: intervals by base group, partition, lane and start. Decisions only."""

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
    """One partition, as read by one base group: the key of its intervals."""

    group_id: str
    topic_id: UUID
    partition: int


class SavedLanes(NamedTuple):
    """All intervals of the shard at one moment, for a snapshot; the counterpart of bmq.coordinator.snapshot.SavedGroup."""

    entries: list[tuple[LaneIntervalKey, LaneIntervalValue]]

    def encoded_records(self) -> Iterator[tuple[bytes, bytes]]:
        """Records that restore the intervals."""
        for key, value in self.entries:
            yield encode_key(key), encode_value(value)


def key_of(place: LanePlace, interval: Interval) -> LaneIntervalKey:
    """The key of the interval's record. A later record with the same lane and start replaces it."""
    return LaneIntervalKey(
        group=place.group_id,
        topic_id=place.topic_id,
        partition=place.partition,
        lane=interval.lane,
        start=interval.start,
    )


def place_of(key: LaneIntervalKey) -> LanePlace:
    """The base group and partition that this key's interval belongs to."""
    return LanePlace(key.group, key.topic_id, key.partition)


def is_copied(value: LaneIntervalValue) -> bool:
    """Whether the interval has ended, and all records that it left over were copied."""
    return value.end != NO_END and value.copied >= value.end


class LaneStates:
    """The intervals of all lanes in one shard. `count`: how many there are."""

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
        """Whether the base group has intervals. If so, its members need the mark of lanes in their client ids."""
        return group_id in self._by_group

    def intervals(self, place: LanePlace) -> list[Interval]:
        """The intervals of a partition, ordered by start and lane."""
        found = self._by_group.get(place.group_id, {}).get((place.topic_id, place.partition), {})
        intervals = [Interval(lane, start, value.end, value.kept) for (lane, start), value in found.items()]
        return sorted(intervals, key=lambda one: (one.start, one.lane))

    def entries(self, group_id: str | None = None) -> list[tuple[LaneIntervalKey, LaneIntervalValue]]:
        """All intervals of a base group; None: of all groups."""
        groups = self._by_group if group_id is None else {group_id: self._by_group.get(group_id, {})}
        return [
            (LaneIntervalKey(group=group, topic_id=topic_id, partition=number, lane=lane, start=start), value)
            for group, places in groups.items()
            for (topic_id, number), intervals in places.items()
            for (lane, start), value in intervals.items()
        ]

    def value(self, key: LaneIntervalKey) -> LaneIntervalValue | None:
        """The interval's value in the log, or None."""
        return self._by_group.get(key.group, {}).get((key.topic_id, key.partition), {}).get((key.lane, key.start))

    def copied(self) -> list[SavedLanes]:
        """Copies of all intervals, for a snapshot: later changes of the state do not touch them."""
        return [SavedLanes(self.entries())] if self.count else []
