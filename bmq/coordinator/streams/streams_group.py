"""A streams group (KIP-1071): all that its records say. Changed by `apply` alone.

`apply` takes any record in any order, also of members and groups that are gone: what is left of a key is what its last
record says, so that a log that was compacted, or is loaded from its middle, gives the same group. What heartbeats and
timers do to a group is decided elsewhere, on a `StreamsDraft` (draft.py).

Empty         nobody is in it
NotReady      topics that its topology needs are missing, or have the wrong number of partitions
Assigning     the target is older than the group's epoch
Reconciling   somebody has not yet what the target says
Stable        everybody has
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from bmq.coordinator.streams.member import StreamsMember
from bmq.coordinator.streams.tasks import NO_TASKS, Tasks
from bmq.coordinator.streams.topology import required_topics, source_topics
from bmq.protocol import streams_group_records as records
from bmq.protocol.streams_group_records import StreamsKey, StreamsRecord, StreamsValue, TopologyValue

STREAMS: Final = "streams"
"""Type of the group, and its protocol type."""
NO_TOPOLOGY_EPOCH: Final = -1


class StreamsGroupState(StrEnum):
    """As Kafka names them to clients."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsGroup:
    """`epoch` is 0 for one that no record says exists. `assignment_configs`: those the last epoch was decided on.

    `validated_epoch`: of the topology whose topics were all there at that time. See the module.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.validated_epoch = NO_TOPOLOGY_EPOCH
        self.assignment_configs: Mapping[str, str] = {}
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, Tasks] = {}
        self.topology: TopologyValue | None = None
        self._loose: dict[str, records.CurrentValue] = {}  # of members whose own record has not come yet
        self._required: frozenset[str] = frozenset()
        self._subtopologies: Mapping[str, str] = {}  # by source topic

    @property
    def exists(self) -> bool:
        """Whether a record says so, and not only ones of its members."""
        return self.epoch > 0

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.validated_epoch != self.topology.epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    # ---------------------------------------------------------------- who and what

    def target_of(self, member_id: str) -> Tasks:
        return self.targets.get(member_id, NO_TASKS)

    @property
    def required_topics(self) -> frozenset[str]:
        """All topics without which its topology cannot work."""
        return self._required

    def subtopology_of(self, topic: str) -> str | None:
        """Which subtopology reads from this topic."""
        return self._subtopologies.get(topic)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether anybody in it would miss it."""
        return bool(self.members) and topic in self._required

    # ---------------------------------------------------------------- its offsets

    @property
    def may_expire_offsets(self) -> bool:
        return True

    @property
    def empty_since_ms(self) -> int | None:
        """None: the retention of its offsets counts from each commit, whenever it became empty."""
        return None

    # ---------------------------------------------------------------- the log

    def apply(self, key: StreamsKey, value: StreamsValue | None) -> None:
        """Become what a record says; None deletes."""
        match key, value:
            case records.EpochKey(), records.EpochValue() | None:
                value = value or records.EpochValue()
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
                self.validated_epoch = value.validated_topology_epoch
                self.assignment_configs = {one.key: one.value for one in value.assignment_configs or ()}
            case records.TargetEpochKey(), records.TargetEpochValue() | None:
                value = value or records.TargetEpochValue()
                self.target_epoch, self.target_timestamp_ms = value.epoch, value.timestamp_ms
            case records.MemberKey(member_id=member_id), records.MemberValue():
                member = self.members.get(member_id) or StreamsMember(member_id).having(
                    self._loose.pop(member_id, None)
                )
                self.members[member_id] = member.saying(value)
            case records.MemberKey(member_id=member_id), _:
                self.members.pop(member_id, None)
            case records.CurrentKey(member_id=member_id), records.CurrentValue() | None:
                self._set_current(member_id, value)
            case records.TargetKey(member_id=member_id), records.TargetValue():
                self.targets[member_id] = Tasks.of_record(value)
            case records.TargetKey(member_id=member_id), _:
                self.targets.pop(member_id, None)
            case records.TopologyKey(), records.TopologyValue() | None:
                self._set_topology(value)

    def as_records(self) -> Iterator[tuple[StreamsKey, StreamsValue]]:
        """Records from which the same group comes."""
        group = self.group_id
        for member in self.members.values():
            yield records.MemberKey(group=group, member_id=member.member_id), member.said()
        yield records.EpochKey(group=group), self.epoch_record(self.epoch)
        if self.topology is not None:
            yield records.TopologyKey(group=group), self.topology
        for member_id, target in self.targets.items():
            yield records.TargetKey(group=group, member_id=member_id), target.record()
        yield (
            records.TargetEpochKey(group=group),
            records.TargetEpochValue(epoch=self.target_epoch, timestamp_ms=self.target_timestamp_ms),
        )
        for member in self.members.values():
            yield records.CurrentKey(group=group, member_id=member.member_id), member.has()

    def encoded_records(self) -> Iterator[tuple[bytes, bytes]]:
        for key, value in self.as_records():
            yield records.encode_key(key), records.encode_value(value)

    def epoch_record(self, epoch: int) -> records.EpochValue:
        """Of an epoch that begins for no other reason than members that left."""
        return records.EpochValue(
            epoch=epoch,
            metadata_hash=self.metadata_hash,
            validated_topology_epoch=self.validated_epoch,
            assignment_configs=config_records(self.assignment_configs),
        )

    def tombstones(self) -> Iterator[StreamsRecord]:
        """Records that delete it, in Kafka's order."""
        group = self.group_id
        for member_id in self.members:
            yield records.CurrentKey(group=group, member_id=member_id), None
        for member_id in self.targets:
            yield records.TargetKey(group=group, member_id=member_id), None
        yield records.TargetEpochKey(group=group), None
        for member_id in self.members:
            yield records.MemberKey(group=group, member_id=member_id), None
        if self.topology is not None:
            yield records.TopologyKey(group=group), None
        yield records.EpochKey(group=group), None

    def drop_leftovers(self) -> None:
        """Once all records were seen: what belongs to members that are gone."""
        self._loose.clear()
        self.targets = {member_id: target for member_id, target in self.targets.items() if member_id in self.members}

    def fork(self) -> StreamsGroup:
        """The same group, to be changed without changing this one."""
        fork = StreamsGroup(self.group_id)
        fork.epoch, fork.metadata_hash = self.epoch, self.metadata_hash
        fork.validated_epoch, fork.assignment_configs = self.validated_epoch, self.assignment_configs
        fork.target_epoch, fork.target_timestamp_ms = self.target_epoch, self.target_timestamp_ms
        fork.members = self.members.copy()
        fork.targets = self.targets.copy()
        fork.topology, fork._required, fork._subtopologies = self.topology, self._required, self._subtopologies
        fork._loose = self._loose.copy()
        return fork

    # ---------------------------------------------------------------- inside

    def _set_current(self, member_id: str, value: records.CurrentValue | None) -> None:
        member = self.members.get(member_id)
        if member is not None:
            self.members[member_id] = member.having(value)
        elif value is None:
            self._loose.pop(member_id, None)
        else:
            self._loose[member_id] = value

    def _set_topology(self, topology: TopologyValue | None) -> None:
        self.topology = topology
        self._required = frozenset() if topology is None else required_topics(topology)
        self._subtopologies = {
            topic: subtopology.subtopology_id
            for subtopology in (() if topology is None else topology.subtopologies)
            for topic in source_topics(subtopology)
        }


def config_records(configs: Mapping[str, str]) -> tuple[records.KeyValue, ...]:
    return tuple(records.KeyValue(key=key, value=value) for key, value in sorted(configs.items()))
