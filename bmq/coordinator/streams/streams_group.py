"""A streams group (KIP-1071): everything its records say. Only `apply` changes it.

Heartbeats and timers are decided elsewhere, on a `StreamsDraft` (draft.py).

Empty         it has no members
NotReady      topics that its topology needs are missing, or have the wrong number of partitions
Assigning     the target is older than the group's epoch
Reconciling   some member does not have its target yet
Stable        all members have their targets
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import ClassVar, Final

from bmq.coordinator.modern.modern_group import ModernGroup
from bmq.coordinator.streams.member import StreamsMember
from bmq.coordinator.streams.tasks import NO_TASKS, Tasks
from bmq.coordinator.streams.topology import required_topics, source_topics
from bmq.protocol import streams_group_records as records
from bmq.protocol.streams_group_records import StreamsKey, StreamsValue, TopologyValue

STREAMS: Final = "streams"
"""The group type, which is also its protocol type."""
NO_TOPOLOGY_EPOCH: Final = -1


class StreamsGroupState(StrEnum):
    """Names as Kafka shows them to clients."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsGroup(ModernGroup[StreamsMember, Tasks]):
    """`assignment_configs`: the assignor's configs at the last epoch.

    `validated_epoch`: epoch of the topology whose topics all existed then. See the module.
    """

    record_types: ClassVar = records.RECORD_TYPES

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.validated_epoch = NO_TOPOLOGY_EPOCH
        self.assignment_configs: Mapping[str, str] = {}
        self.topology: TopologyValue | None = None
        self._required: frozenset[str] = frozenset()
        self._subtopologies: Mapping[str, str] = {}  # by source topic

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
        """All topics that its topology needs."""
        return self._required

    def subtopology_of(self, topic: str) -> str | None:
        """The subtopology that reads from this topic."""
        return self._subtopologies.get(topic)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether it has members and its topology needs the topic."""
        return bool(self.members) and topic in self._required

    # ---------------------------------------------------------------- the log

    def apply(self, key: StreamsKey, value: StreamsValue | None) -> None:
        """Apply a record; None deletes."""
        match key, value:
            case records.EpochKey(), records.EpochValue() | None:
                value = value or records.EpochValue()
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
                self.validated_epoch = value.validated_topology_epoch
                self.assignment_configs = {one.key: one.value for one in value.assignment_configs or ()}
            case records.TopologyKey(), records.TopologyValue() | None:
                self._set_topology(value)
            case _:
                super().apply(key, value)

    def epoch_record(self, epoch: int) -> records.EpochValue:
        """The record of an epoch that begins only because a member left."""
        return records.EpochValue(
            epoch=epoch,
            metadata_hash=self.metadata_hash,
            validated_topology_epoch=self.validated_epoch,
            assignment_configs=config_records(self.assignment_configs),
        )

    def fork(self) -> StreamsGroup:
        """A copy that can change without changing this group."""
        fork = super().fork()
        fork.validated_epoch, fork.assignment_configs = self.validated_epoch, self.assignment_configs
        fork.topology, fork._required, fork._subtopologies = self.topology, self._required, self._subtopologies  # noqa: SLF001 of the same class
        return fork

    # ---------------------------------------------------------------- inside

    def _new_member(self, member_id: str) -> StreamsMember:
        return StreamsMember(member_id)

    def _target_of_record(self, value: records.TargetValue) -> Tasks:
        return Tasks.of_record(value)

    def _record_of_target(self, target: Tasks) -> records.TargetValue:
        return target.record()

    def _own_records(self) -> Iterator[tuple[StreamsKey, StreamsValue]]:
        yield records.EpochKey(group=self.group_id), self.epoch_record(self.epoch)
        if self.topology is not None:
            yield records.TopologyKey(group=self.group_id), self.topology

    def _own_keys(self) -> Iterator[StreamsKey]:
        if self.topology is not None:
            yield records.TopologyKey(group=self.group_id)

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
