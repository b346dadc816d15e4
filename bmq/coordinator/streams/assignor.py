"""Assigns tasks to members: the sticky assignor (KIP-1071). Decisions only.

Active tasks stay with their member, or go to one that already follows their state, while that member is below its
share; the rest go to the process with the fewest tasks per member. Stateful tasks are assigned before stateless ones,
so that both are spread evenly. Standby tasks follow likewise, never two copies of a task in one process. The same input
gives the same result, and assigning again from a result does not change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from heapq import heapify, heapreplace
from typing import Final, NamedTuple

from bmq.coordinator.streams.tasks import TaskId, Tasks
from bmq.dataclass import dataclass

NAME: Final = "sticky"


class AssignedMember(NamedTuple):
    """`previous`: its last target."""

    member_id: str
    process_id: str
    previous: Tasks


class SubtopologySize(NamedTuple):
    """`is_stateful`: it has changelogs, which standby tasks can follow."""

    task_count: int
    is_stateful: bool


class _Quota:
    """Even shares of a number of tasks; a member that reaches its share takes no more."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._tasks = task_count
        self._members = member_count

    @property
    def share(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def count(self, count: int) -> None:
        """A member now has `count` tasks."""
        share = self.share
        if self._members and count == share:
            self._tasks -= share
            self._members -= 1


@dataclass(slots=True)
class _Process:
    process_id: str
    counts: dict[str, int] = field(default_factory=dict)  # tasks by member
    tasks: set[TaskId] = field(default_factory=set)

    @property
    def load(self) -> tuple[float, int, str]:
        """Sort key, least loaded first; on a tie the process with more members."""
        return len(self.tasks) / len(self.counts), -len(self.counts), self.process_id

    def least_loaded(self) -> str:
        return min(self.counts, key=lambda member_id: (self.counts[member_id], member_id))


class _Assignment:
    """The tasks assigned so far."""

    def __init__(self, members: Sequence[AssignedMember], task_count: int) -> None:
        self.processes: dict[str, _Process] = {}
        self.process_of: dict[str, _Process] = {}
        for member in members:
            process = self.processes.setdefault(member.process_id, _Process(member.process_id))
            process.counts[member.member_id] = 0
            self.process_of[member.member_id] = process
        self.active: dict[str, set[TaskId]] = {member.member_id: set() for member in members}
        self.standby: dict[str, set[TaskId]] = {member.member_id: set() for member in members}
        self.total = _Quota(task_count, len(members))

    def count_of(self, member_id: str) -> int:
        return self.process_of[member_id].counts[member_id]

    def give(self, member_id: str, task: TaskId, tasks: Mapping[str, set[TaskId]], *quotas: _Quota) -> None:
        process = self.process_of[member_id]
        tasks[member_id].add(task)
        process.tasks.add(task)
        process.counts[member_id] += 1
        for quota in (self.total, *quotas):
            quota.count(process.counts[member_id])

    def least_loaded(self, member_ids: Iterable[str], task: TaskId) -> str | None:
        """The least loaded of these members whose process does not have the task in any role."""
        free = [member_id for member_id in member_ids if task not in self.process_of[member_id].tasks]
        return min(free, key=lambda id_: (self.process_of[id_].load, self.count_of(id_), id_), default=None)


def assign(
    members: Sequence[AssignedMember], subtopologies: Mapping[str, SubtopologySize], standby_count: int
) -> dict[str, Tasks]:
    """Tasks by member id, for every member. `standby_count`: standby copies of each stateful task."""
    if not members:
        return {}
    stateful = [task for name, size in subtopologies.items() if size.is_stateful for task in _tasks(name, size)]
    stateless = [task for name, size in subtopologies.items() if not size.is_stateful for task in _tasks(name, size)]
    active_count = len(stateful) + len(stateless)
    given = _Assignment(members, active_count + len(stateful) * standby_count)
    was_active = {task: member.member_id for member in members for task in member.previous.active}
    was_passive: dict[TaskId, list[str]] = {}
    for member in members:
        for task in (*member.previous.standby, *member.previous.warmup):
            was_passive.setdefault(task, []).append(member.member_id)
    shares = _Quota(active_count, len(members))
    _assign_active(given, stateful, was_active, was_passive, _Quota(len(stateful), len(members)), shares)
    _assign_active(given, stateless, was_active, was_passive, shares)
    if standby_count:
        _assign_standby(given, stateful, was_active, was_passive, standby_count)
    return {
        member.member_id: Tasks(frozenset(given.active[member.member_id]), frozenset(given.standby[member.member_id]))
        for member in members
    }


def _assign_active(
    given: _Assignment,
    tasks: Sequence[TaskId],
    was_active: Mapping[TaskId, str],
    was_passive: Mapping[TaskId, Sequence[str]],
    quota: _Quota,
    *more: _Quota,
) -> None:
    """No member keeps more than `quota` allows; `more`: further quotas that count these tasks."""
    left = []
    for task in sorted(tasks, key=_by_partition):
        holder = was_active.get(task)
        if holder is not None and given.count_of(holder) < quota.share:
            given.give(holder, task, given.active, quota, *more)
        else:
            left.append(task)
    new = []
    for task in left:
        follower = given.least_loaded(was_passive.get(task, ()), task)
        if follower is not None and given.count_of(follower) < quota.share:
            given.give(follower, task, given.active, quota, *more)
        else:
            new.append(task)
    heap = [(process.load, process) for process in given.processes.values()]
    heapify(heap)
    for task in sorted(new):
        process = heap[0][1]
        given.give(process.least_loaded(), task, given.active, quota, *more)
        heapreplace(heap, (process.load, process))


def _assign_standby(
    given: _Assignment,
    tasks: Sequence[TaskId],
    was_active: Mapping[TaskId, str],
    was_passive: Mapping[TaskId, Sequence[str]],
    standby_count: int,
) -> None:
    """Fewer copies than `standby_count` if there are too few processes."""
    wanted: list[tuple[TaskId, int]] = []
    for task in sorted(tasks, key=_by_partition, reverse=True):
        missing = standby_count
        # A former active member has all of the task's state.
        for candidates in ([was_active[task]] if task in was_active else (), was_passive.get(task, ())):
            while missing:
                holder = given.least_loaded(candidates, task)
                if holder is None or given.count_of(holder) >= given.total.share:
                    break
                given.give(holder, task, given.standby)
                missing -= 1
        wanted.append((task, missing))
    for task, missing in sorted(wanted, reverse=True):
        for _ in range(missing):
            free = [process for process in given.processes.values() if task not in process.tasks]
            if not free:
                break
            given.give(min(free, key=lambda process: process.load).least_loaded(), task, given.standby)


def _tasks(subtopology: str, size: SubtopologySize) -> list[TaskId]:
    return [TaskId(subtopology, partition) for partition in range(size.task_count)]


def _by_partition(task: TaskId) -> tuple[int, str]:
    return task.partition, task.subtopology
