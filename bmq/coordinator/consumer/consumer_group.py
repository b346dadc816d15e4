"""A consumer group of the new protocol (KIP-848): everything its records say. Only `apply` changes it.

Heartbeats and timers are decided elsewhere, on a `Draft` (draft.py).

Empty         it has no members
Assigning     the target is older than the group's epoch
Reconciling   some member does not have its target yet
Stable        all members have their targets
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from enum import StrEnum
from itertools import chain
from typing import ClassVar, Final, NamedTuple
from uuid import UUID

from bmq.coordinator.consumer.member import ConsumerMember
from bmq.coordinator.consumer.partition_sets import NOTHING, Owned, Target, target_of, target_parts
from bmq.coordinator.modern.modern_group import ModernGroup
from bmq.protocol import consumer_group_records as records
from bmq.protocol.consumer_group_records import ConsumerKey, ConsumerValue

CONSUMER: Final = "consumer"
"""The group type, which is also its protocol type."""


class ConsumerGroupState(StrEnum):
    """Names as Kafka shows them to clients."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ResolvedRegex(NamedTuple):
    """Topics that a regular expression matches in the metadata of `version`, resolved at `timestamp_ms`."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int

    def record(self) -> records.RegexValue:
        return records.RegexValue(
            topics=tuple(sorted(self.topics)), version=self.version, timestamp_ms=self.timestamp_ms
        )


class ConsumerGroup(ModernGroup[ConsumerMember, Target]):
    """See the module."""

    record_types: ClassVar = records.RECORD_TYPES

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.regexes: dict[str, ResolvedRegex] = {}
        self._holders: dict[UUID, dict[int, str]] = {}  # topic -> partition -> member
        self._name_counts: Counter[str] = Counter()  # how many members are subscribed by this name
        self._regex_counts: Counter[str] = Counter()
        self._assignor_counts: Counter[str] = Counter()
        self.classic_count = 0  # members of the classic protocol

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    # ---------------------------------------------------------------- who and what

    def holder(self, topic_id: UUID, partition: int) -> str | None:
        """The member that has this partition, or still has to revoke it."""
        return self._holders.get(topic_id, {}).get(partition)

    def target_of(self, member_id: str) -> Target:
        return self.targets.get(member_id, NOTHING)

    # ---------------------------------------------------------------- subscriptions

    @property
    def subscribed_regexes(self) -> Set[str]:
        return self._regex_counts.keys()

    @property
    def subscribed_names(self) -> Set[str]:
        """Topics that some member is subscribed to, whether they exist or not."""
        if not self._regex_counts:
            return self._name_counts.keys()
        return set(self._name_counts).union(*(self.matches(regex) for regex in self._regex_counts))

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether some member is subscribed to it."""
        return topic in self._name_counts or any(topic in self.matches(regex) for regex in self._regex_counts)

    def is_member_subscribed_to(self, member: ConsumerMember, topic: str) -> bool:
        return topic in member.topic_names or (bool(member.topic_regex) and topic in self.matches(member.topic_regex))

    def names_of(self, member: ConsumerMember) -> Set[str]:
        """Topics this member is subscribed to; a regular expression matches nothing until it is resolved."""
        if not member.topic_regex:
            return member.topic_names
        return member.topic_names | self.matches(member.topic_regex)

    def matches(self, regex: str) -> frozenset[str]:
        resolved = self.regexes.get(regex)
        return frozenset() if resolved is None else resolved.topics

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics."""
        count = len(self.members)
        if not self._regex_counts:
            return all(subscribed == count for subscribed in self._name_counts.values())
        return not self._name_counts and list(self._regex_counts.values()) == [count]

    def preferred_assignor(self, assignors: Sequence[str]) -> str:
        """The one that most members prefer; the first on a tie, or if no member has a preference."""
        return max(assignors, key=lambda name: self._assignor_counts[name])

    # ---------------------------------------------------------------- the log

    def apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """Apply a record; None deletes."""
        match key, value:
            case records.EpochKey(), records.EpochValue():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case records.EpochKey(), _:
                self.epoch = self.metadata_hash = 0
            case records.RegexKey(regex=regex), records.RegexValue():
                self.regexes[regex] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp_ms)
            case records.RegexKey(regex=regex), _:
                self.regexes.pop(regex, None)
            case _:
                super().apply(key, value)

    def fork(self) -> ConsumerGroup:
        """A copy that can change without changing this group."""
        fork = super().fork()
        fork.regexes = self.regexes.copy()
        fork._holders = {topic_id: holders.copy() for topic_id, holders in self._holders.items()}  # noqa: SLF001 of the same class
        fork._name_counts = self._name_counts.copy()  # noqa: SLF001 of the same class
        fork._regex_counts = self._regex_counts.copy()  # noqa: SLF001 of the same class
        fork._assignor_counts = self._assignor_counts.copy()  # noqa: SLF001 of the same class
        fork.classic_count = self.classic_count
        return fork

    # ---------------------------------------------------------------- inside

    def _new_member(self, member_id: str) -> ConsumerMember:
        return ConsumerMember(member_id)

    def _target_of_record(self, value: records.TargetValue) -> Target:
        return target_of(value.topic_partitions)

    def _record_of_target(self, target: Target) -> records.TargetValue:
        return records.TargetValue(topic_partitions=target_parts(target))

    def _own_records(self) -> Iterator[tuple[ConsumerKey, ConsumerValue]]:
        group = self.group_id
        yield records.EpochKey(group=group), records.EpochValue(epoch=self.epoch, metadata_hash=self.metadata_hash)
        for regex, resolved in self.regexes.items():
            yield records.RegexKey(group=group, regex=regex), resolved.record()

    def _own_keys(self) -> Iterator[ConsumerKey]:
        for regex in self.regexes:
            yield records.RegexKey(group=self.group_id, regex=regex)
        yield records.TopicsKey(group=self.group_id)

    def _put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
        super()._put(member)
        for owned in (member.assigned, member.pending):
            for topic_id, partitions in owned.items():
                self._holders.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.member_id))
        self._name_counts.update(member.topic_names)
        if member.topic_regex:
            self._regex_counts[member.topic_regex] += 1
        if member.server_assignor is not None:
            self._assignor_counts[member.server_assignor] += 1
        self.classic_count += member.classic is not None

    def _remove(self, member_id: str) -> None:
        member = self.members.get(member_id)
        super()._remove(member_id)
        if member is not None:
            self._release(member)

    def _release(self, member: ConsumerMember) -> None:
        """Undo what `_put` recorded for a member."""
        for topic_id, partition in chain(_places(member.assigned), _places(member.pending)):
            holders = self._holders.get(topic_id, {})
            if holders.get(partition) == member.member_id:
                del holders[partition]
                if not holders:
                    del self._holders[topic_id]
        for name in member.topic_names:
            _count_down(self._name_counts, name)
        if member.topic_regex:
            _count_down(self._regex_counts, member.topic_regex)
        if member.server_assignor is not None:
            _count_down(self._assignor_counts, member.server_assignor)
        self.classic_count -= member.classic is not None


def _places(owned: Owned) -> Iterator[tuple[UUID, int]]:
    for topic_id, partitions in owned.items():
        for partition in partitions:
            yield topic_id, partition


def _count_down(counts: Counter[str], name: str) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
