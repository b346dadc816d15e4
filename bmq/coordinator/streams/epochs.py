"""What every heartbeat does to a streams group: a new epoch, a new target, one step of the member.

The group's epoch rises when a member joins, leaves or changes its metadata, and when its topics or the assignor's
configs change. The target is recomputed when it is older than that epoch, but at most once per assignment interval; a
group that was empty first waits for more members to join. Then the member takes one step towards its target
(reconciliation.py). Decisions only (KIP-1071).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from bmq.coordinator.config import StreamsConfig, StreamsTerms
from bmq.coordinator.modern.member_timers import TimerKind
from bmq.coordinator.modern.modern_group import FIRST_TARGET_EPOCH
from bmq.coordinator.modern.subscribed_topics import metadata_hash
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.streams.assignor import AssignedMember, SubtopologySize, assign
from bmq.coordinator.streams.configuration import ConfiguredTopology
from bmq.coordinator.streams.draft import StreamsDraft
from bmq.coordinator.streams.member import MemberState, StreamsMember
from bmq.coordinator.streams.reconciliation import TargetAssignment, reconciled
from bmq.coordinator.streams.streams_group import NO_TOPOLOGY_EPOCH, StreamsGroup, config_records
from bmq.coordinator.streams.tasks import NO_TASKS, TaskId, Tasks
from bmq.coordinator.topics import Topics
from bmq.protocol import streams_group_records as records
from bmq.protocol.streams_group_records import TopologyValue

_FIRST_EPOCH: Final = FIRST_TARGET_EPOCH + 1
"""As in Kafka: a member that waits for its first target has the epoch of the empty one."""
STANDBY_REPLICAS: Final = "num.standby.replicas"


class StreamsGroupContext(NamedTuple):
    """Everything a decision depends on besides the group.

    `is_stale`: topics have changed since the group last looked. `is_delayed`: the first target waits for more members.
    `endpoint_epoch`, `shutdown_by`: as earlier decisions left them. `configure`: configured(), perhaps cached.
    `creation_error`: why topics could not be created; empty: no error is known.
    """

    topics: Topics
    config: StreamsConfig
    terms: StreamsTerms
    now: Moment
    is_stale: bool
    is_delayed: bool
    endpoint_epoch: int
    shutdown_by: str | None
    configure: Callable[[TopologyValue, Topics], ConfiguredTopology]
    creation_error: str = ""

    @property
    def assignment_configs(self) -> Mapping[str, str]:
        return {STANDBY_REPLICAS: str(self.terms.standby_replicas)}


def bump_if_needed(
    draft: StreamsDraft, configured: ConfiguredTopology, context: StreamsGroupContext, *, must: bool
) -> None:
    """Raise the group's epoch if `must`, or if its topics or the assignor's configs have changed."""
    group = draft.existing
    current_hash = group.metadata_hash
    if must or context.is_stale:
        current_hash = metadata_hash(group.required_topics, context.topics)
        draft.is_refreshed = True
    validated_epoch = configured.epoch if configured.is_ready else NO_TOPOLOGY_EPOCH
    configs = context.assignment_configs
    as_it_was = group.metadata_hash, group.validated_epoch, group.assignment_configs
    if must or (current_hash, validated_epoch, configs) != as_it_was:
        draft.write(
            records.EpochKey(group=group.group_id),
            records.EpochValue(
                epoch=group.epoch + 1 if group.epoch else _FIRST_EPOCH,
                metadata_hash=current_hash,
                validated_topology_epoch=validated_epoch,
                assignment_configs=config_records(configs),
            ),
        )


def update_target(draft: StreamsDraft, configured: ConfiguredTopology, context: StreamsGroupContext) -> None:
    """Compute the target of the group's epoch."""
    draft.require_writable()
    group = draft.existing
    sizes = {}
    if configured.is_ready:
        sizes = {
            name: SubtopologySize(subtopology.task_count, subtopology.is_stateful)
            for name, subtopology in (configured.subtopologies or {}).items()
        }
    members = [
        AssignedMember(member.member_id, member.process_id, group.target_of(member.member_id))
        for member in group.members.values()
    ]
    for member_id, target in assign(members, sizes, context.terms.standby_replicas).items():
        if group.targets.get(member_id) != target:
            draft.write(records.TargetKey(group=group.group_id, member_id=member_id), target.record())
    draft.write(
        records.TargetEpochKey(group=group.group_id),
        records.TargetEpochValue(epoch=group.epoch, timestamp_ms=context.now.wall_ms),
    )


def step(draft: StreamsDraft, member_id: str, owned: Tasks | None, *, is_delayed: bool) -> StreamsMember:
    """The member after its step. Raises KafkaError FENCED_MEMBER_EPOCH."""
    group = draft.existing
    member = group.members[member_id]
    target = NO_TASKS if is_delayed else group.target_of(member_id)
    others = _Others(group, member)
    wanted = TargetAssignment(group.target_epoch, target, others.is_active, others.is_in_process)
    moved = reconciled(member, wanted, owned)
    if moved is member:
        return member
    draft.write(records.CurrentKey(group=group.group_id, member_id=member_id), moved.current_value())
    if moved.state is MemberState.UNREVOKED:
        draft.start(TimerKind.REBALANCE, member_id, max(moved.rebalance_timeout_ms, 0), moved.epoch)
    else:
        draft.stop(TimerKind.REBALANCE, member_id)
    return moved


class _Others:
    """Tasks that the group's other members have or still have to revoke; computed on first use."""

    def __init__(self, group: StreamsGroup, member: StreamsMember) -> None:
        self._group = group
        self._member = member
        self._found: tuple[set[TaskId], set[TaskId]] | None = None

    def is_active(self, task: TaskId) -> bool:
        return task in self._sets[0]

    def is_in_process(self, task: TaskId) -> bool:
        return task in self._sets[1]

    @property
    def _sets(self) -> tuple[set[TaskId], set[TaskId]]:
        """(tasks active in any process, tasks in any role in the member's process)."""
        if self._found is None:
            active: set[TaskId] = set()
            near: set[TaskId] = set()
            for other in self._group.members.values():
                if other.member_id == self._member.member_id:
                    continue
                for held in (other.tasks, other.pending):
                    active.update(held.active)
                    if other.process_id == self._member.process_id:
                        near.update(held.active, held.passive)
            self._found = active, near
        return self._found
