"""A share group (KIP-932): everything its records say. Only `apply` changes it. Decisions only.

A partition is assigned only once its state is initialized: the group's records say which are (`initialized`), which are on
their way (`initializing`), and whose state is being deleted (`deleting`). Heartbeats and timers are decided elsewhere, on a
`ShareDraft` (draft.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, TypeVar
from uuid import UUID

from bmq.coordinator.modern.modern_group import ModernGroup
from bmq.coordinator.share_membership.assignor import Target
from bmq.coordinator.share_membership.member import NOTHING, ShareMember, parts_of, target_of
from bmq.protocol import share_group_records as records
from bmq.protocol.share_group_records import ShareKey, ShareValue

SHARE: Final = "share"
"""The group type, which is also its protocol type."""


class ShareGroupState(StrEnum):
    """Names as Kafka shows them to clients."""

    EMPTY = "Empty"
    STABLE = "Stable"


class StateTopic(NamedTuple):
    """Partitions of a topic."""

    name: str
    partitions: frozenset[int]


StateTopics = Mapping[UUID, StateTopic]
_NO_TOPICS: Final[StateTopics] = MappingProxyType({})
_NO_PARTITIONS: Final[Mapping[int, int]] = MappingProxyType({})
T = TypeVar("T")
_NO_NAMES: Final[Mapping[UUID, str]] = MappingProxyType({})


class StatePartitions(NamedTuple):
    """The share partitions of the group by what is known of their state."""

    initializing: StateTopics = _NO_TOPICS
    initialized: StateTopics = _NO_TOPICS
    deleting: Mapping[UUID, str] = _NO_NAMES

    def record(self) -> records.StatePartitionsValue:
        """In the order of topic ids."""
        return records.StatePartitionsValue(
            initializing=_topic_records(self.initializing),
            initialized=_topic_records(self.initialized),
            deleting=tuple(
                records.DeletingTopic(topic_id=topic_id, topic_name=self.deleting[topic_id])
                for topic_id in sorted(self.deleting, key=_bytes_of)
            ),
        )

    @classmethod
    def of_record(cls, value: records.StatePartitionsValue | None) -> StatePartitions:
        """None: no partition has state."""
        if value is None:
            return cls()
        deleting = {one.topic_id: one.topic_name for one in value.deleting if one.topic_id is not None}
        return cls(_topics_of(value.initializing), _topics_of(value.initialized), deleting)

    def known(self, topic_id: UUID) -> frozenset[int]:
        """Partitions whose state is initialized, or being so."""
        found: frozenset[int] = frozenset()
        for topics in (self.initializing, self.initialized):
            topic = topics.get(topic_id)
            if topic is not None:
                found |= topic.partitions
        return found

    def beginning(self, topics: StateTopics) -> StatePartitions:
        """With these on their way, too."""
        return self._replace(initializing=_added(self.initializing, topics))

    def initializing_done(self, topics: StateTopics) -> StatePartitions:
        """With these initialized, as far as they are still waited for: a deleted topic is not."""
        done = {
            topic_id: StateTopic(topic.name, topic.partitions & self.initializing[topic_id].partitions)
            for topic_id, topic in topics.items()
            if topic_id in self.initializing
        }
        return self._replace(initializing=_without(self.initializing, done), initialized=_added(self.initialized, done))

    def deletion_begun(self, topics: Mapping[UUID, str]) -> StatePartitions:
        """With the state of whole topics on its way out."""
        gone = {topic_id: StateTopic(name, self.known(topic_id)) for topic_id, name in topics.items()}
        return StatePartitions(
            _without(self.initializing, gone), _without(self.initialized, gone), {**self.deleting, **topics}
        )

    def deletion_done(self, topic_ids: Iterable[UUID]) -> StatePartitions:
        gone = frozenset(topic_ids)
        return self._replace(deleting={one: name for one, name in self.deleting.items() if one not in gone})


class ShareGroup(ModernGroup[ShareMember, Target]):
    """See the module. `settled_at`: the version of the group's surroundings (ShareContext) in which a decision has found that all
    partitions are given; -1: none has since the members, their targets or the states changed.
    """

    record_types: ClassVar = records.RECORD_TYPES

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.states = StatePartitions()
        self.settled_at = -1
        self._name_counts: Counter[str] = Counter()  # how many members are subscribed to it
        self._given: dict[UUID, Counter[int]] = {}  # topic -> partition -> how many targets have it

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def may_expire_offsets(self) -> bool:
        return False

    def target_of(self, member_id: str) -> Target:
        return self.targets.get(member_id, NOTHING)

    @property
    def subscribed_names(self) -> Set[str]:
        """Of all members together."""
        return self._name_counts.keys()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._name_counts

    def has_given(self, topic_id: UUID, partitions: Set[int]) -> bool:
        """Whether each of these partitions is in some member's target."""
        return partitions <= self._given.get(topic_id, _NO_PARTITIONS).keys()

    # ---------------------------------------------------------------- the log

    def apply(self, key: ShareKey, value: ShareValue | None) -> None:
        """Apply a record; None deletes."""
        match key, value:
            case records.EpochKey(), records.EpochValue() | None:
                value = value or records.EpochValue()
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case records.StatePartitionsKey(), records.StatePartitionsValue() | None:
                self.states = StatePartitions.of_record(value)
                self.settled_at = -1
            case records.TargetKey(member_id=member_id), _:
                self._count_target(member_id, -1)
                super().apply(key, value)
                self._count_target(member_id, 1)
                self.settled_at = -1
            case _:
                super().apply(key, value)

    def fork(self) -> ShareGroup:
        """A copy that can change without changing this group."""
        fork = super().fork()
        fork.states = self.states
        fork.settled_at = self.settled_at
        fork._name_counts = self._name_counts.copy()  # noqa: SLF001 of the same class
        fork._given = {topic_id: counts.copy() for topic_id, counts in self._given.items()}  # noqa: SLF001 of the same class
        return fork

    def drop_leftovers(self) -> None:
        """Call once all records were replayed: drop what belongs to members that are gone."""
        super().drop_leftovers()
        self._given = {}
        for member_id in self.targets:
            self._count_target(member_id, 1)
        self.settled_at = -1

    # ---------------------------------------------------------------- inside

    def _new_member(self, member_id: str) -> ShareMember:
        return ShareMember(member_id)

    def _target_of_record(self, value: records.TargetValue) -> Target:
        return target_of(value.topic_partitions)

    def _record_of_target(self, target: Target) -> records.TargetValue:
        return records.TargetValue(topic_partitions=parts_of(target))

    def _put(self, member: ShareMember) -> None:
        before = self.members.get(member.member_id)
        if before is None or before.topic_names != member.topic_names:
            self._count_names(before, -1)
            self._count_names(member, 1)
        super()._put(member)

    def _remove(self, member_id: str) -> None:
        self._count_names(self.members.get(member_id), -1)
        super()._remove(member_id)

    def _count_names(self, member: ShareMember | None, change: int) -> None:
        if member is None:
            return
        self.settled_at = -1
        for name in member.topic_names:
            _count(self._name_counts, name, change)

    def _count_target(self, member_id: str, change: int) -> None:
        for topic_id, partitions in self.target_of(member_id).items():
            counts = self._given.setdefault(topic_id, Counter())
            for number in partitions:
                _count(counts, number, change)
            if not counts:
                del self._given[topic_id]

    def _own_records(self) -> Iterator[tuple[ShareKey, ShareValue]]:
        yield (
            records.EpochKey(group=self.group_id),
            records.EpochValue(epoch=self.epoch, metadata_hash=self.metadata_hash),
        )
        if self.states != StatePartitions():
            yield records.StatePartitionsKey(group=self.group_id), self.states.record()

    def _own_keys(self) -> Iterator[ShareKey]:
        if self.states != StatePartitions():
            yield records.StatePartitionsKey(group=self.group_id)


def _count(counts: Counter[T], what: T, change: int) -> None:
    counts[what] += change
    if not counts[what]:
        del counts[what]


def _topic_records(topics: StateTopics) -> tuple[records.StateTopic, ...]:
    return tuple(
        records.StateTopic(
            topic_id=topic_id,
            topic_name=topics[topic_id].name,
            partitions=tuple(sorted(topics[topic_id].partitions)),
        )
        for topic_id in sorted(topics, key=_bytes_of)
    )


def _topics_of(parts: Iterable[records.StateTopic]) -> StateTopics:
    return {part.topic_id: StateTopic(part.topic_name, frozenset(part.partitions)) for part in parts if part.topic_id}


def _added(topics: StateTopics, more: StateTopics) -> StateTopics:
    found = dict(topics)
    for topic_id, topic in more.items():
        before = found.get(topic_id)
        partitions = topic.partitions if before is None else before.partitions | topic.partitions
        if partitions:
            found[topic_id] = StateTopic(topic.name, partitions)
    return found


def _without(topics: StateTopics, less: StateTopics) -> StateTopics:
    found = {}
    for topic_id, topic in topics.items():
        left = topic.partitions - (less[topic_id].partitions if topic_id in less else frozenset())
        if left:
            found[topic_id] = StateTopic(topic.name, left)
    return found


def _bytes_of(topic_id: UUID) -> bytes:
    return topic_id.bytes
