"""Tasks of a streams group: immutable values, and their forms in records and answers (KIP-1071).

A task processes one partition of a subtopology's topics. An active task processes records; a standby or warm-up task
follows its changelogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import field
from typing import NamedTuple, Protocol, Self

from bmq.dataclass import dataclass
from bmq.protocol.streams_group_records import CurrentValue, TargetValue, TaskIds


class TaskId(NamedTuple):
    """One task."""

    subtopology: str
    partition: int


class PartitionsOfSubtopology(Protocol):
    """Tasks of one subtopology, in a record or in a request."""

    @property
    def subtopology_id(self) -> str: ...
    @property
    def partitions(self) -> Iterable[int]: ...


@dataclass(frozen=True, slots=True)
class Tasks:
    """A member's target, or the tasks that it says it has."""

    active: Set[TaskId] = frozenset()
    standby: Set[TaskId] = frozenset()
    warmup: Set[TaskId] = frozenset()

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    @classmethod
    def of_record(cls, value: TargetValue) -> Self:
        return cls(task_ids(value.active), task_ids(value.standby), task_ids(value.warmup))

    def record(self) -> TargetValue:
        return TargetValue(active=_parts(self.active), standby=_parts(self.standby), warmup=_parts(self.warmup))


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """A member's tasks, or those it has to revoke. `active`: task -> epoch since which the member has it (KIP-1251)."""

    active: Mapping[TaskId, int] = field(default_factory=dict)
    standby: Set[TaskId] = frozenset()
    warmup: Set[TaskId] = frozenset()

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    @property
    def passive(self) -> Set[TaskId]:
        """Standby and warm-up tasks."""
        return self.standby | self.warmup

    @property
    def without_epochs(self) -> Tasks:
        return Tasks(frozenset(self.active), self.standby, self.warmup)

    def has_any_of(self, reported: Tasks) -> bool:
        """Whether any task of `reported` is among these in the same role."""
        return not (
            reported.active.isdisjoint(self.active)
            and reported.standby.isdisjoint(self.standby)
            and reported.warmup.isdisjoint(self.warmup)
        )

    def has_all_of(self, reported: Tasks) -> bool:
        """Whether all tasks of `reported` are among these in the same role."""
        return (
            reported.active <= self.active.keys()
            and reported.standby <= self.standby
            and reported.warmup <= self.warmup
        )


NO_TASKS = Tasks()
NOTHING_HELD = HeldTasks()


def task_ids(parts: Iterable[PartitionsOfSubtopology]) -> frozenset[TaskId]:
    """From a record or a request; a subtopology may be named more than once."""
    return frozenset(TaskId(part.subtopology_id, partition) for part in parts for partition in part.partitions)


def partitions_of(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    """By subtopology, sorted, so that the same tasks always give the same bytes."""
    parts: dict[str, list[int]] = {}
    for task in sorted(tasks):
        parts.setdefault(task.subtopology, []).append(task.partition)
    return parts


def assigned_of(value: CurrentValue) -> HeldTasks:
    """From a record."""
    return HeldTasks(_since(value.active, value.epoch), task_ids(value.standby), task_ids(value.warmup))


def pending_of(value: CurrentValue) -> HeldTasks:
    """From a record: the tasks still to be revoked."""
    return HeldTasks(
        _since(value.active_pending_revocation, value.epoch),
        task_ids(value.standby_pending_revocation),
        task_ids(value.warmup_pending_revocation),
    )


def current_value(epoch: int, previous_epoch: int, state: int, assigned: HeldTasks, pending: HeldTasks) -> CurrentValue:
    """For a record."""
    return CurrentValue(
        epoch=epoch,
        previous_epoch=previous_epoch,
        state=state,
        active=_parts_since(assigned.active),
        standby=_parts(assigned.standby),
        warmup=_parts(assigned.warmup),
        active_pending_revocation=_parts_since(pending.active),
        standby_pending_revocation=_parts(pending.standby),
        warmup_pending_revocation=_parts(pending.warmup),
    )


def _since(parts: Iterable[TaskIds], epoch: int) -> dict[TaskId, int]:
    """`epoch` is used where an older server's record lacks the assignment epochs."""
    since: dict[TaskId, int] = {}
    for part in parts:
        epochs = part.assignment_epochs
        if epochs is None or len(epochs) != len(part.partitions):
            epochs = (epoch,) * len(part.partitions)
        for partition, started in zip(part.partitions, epochs, strict=True):
            since[TaskId(part.subtopology_id, partition)] = started
    return since


def _parts(tasks: Iterable[TaskId]) -> tuple[TaskIds, ...]:
    return tuple(
        TaskIds(subtopology_id=subtopology, partitions=tuple(partitions))
        for subtopology, partitions in partitions_of(tasks).items()
    )


def _parts_since(tasks: Mapping[TaskId, int]) -> tuple[TaskIds, ...]:
    return tuple(
        TaskIds(
            subtopology_id=subtopology,
            partitions=tuple(partitions),
            assignment_epochs=tuple(tasks[TaskId(subtopology, partition)] for partition in partitions),
        )
        for subtopology, partitions in partitions_of(tasks).items()
    )
