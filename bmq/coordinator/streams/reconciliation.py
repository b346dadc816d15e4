"""How a member moves from its tasks to its target, heartbeat by heartbeat. Decisions only (KIP-1071).

An active task is not assigned while a member of any process has it or has not confirmed its revocation, and no process
has a task twice, in any roles. A member that has to revoke tasks stays at its epoch (UNREVOKED) until it confirms; then
it advances to the target's epoch with all tasks that are free (STABLE), and gets the rest once others have released
them (UNRELEASED). A standby or warm-up task that becomes active on the same member changes its role as soon as no other
has it active, without giving up its state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from bmq.coordinator.streams.member import MemberState, StreamsMember
from bmq.coordinator.streams.tasks import NOTHING_HELD, HeldTasks, TaskId, Tasks
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


class TargetAssignment(NamedTuple):
    """What a member has to reach. Both predicates are about other members' tasks, held or pending revocation.

    `is_active`: whether any has the task active; `is_in_process`: whether one in the same process has it in any role.
    """

    epoch: int
    target: Tasks
    is_active: Callable[[TaskId], bool]
    is_in_process: Callable[[TaskId], bool]


def reconciled(member: StreamsMember, wanted: TargetAssignment, owned: Tasks | None) -> StreamsMember:
    """The member after a heartbeat that names `owned` tasks; None: it names none.

    Raises KafkaError FENCED_MEMBER_EPOCH for a state that a later server wrote: the member has to rejoin.
    """
    match member.state:
        case MemberState.STABLE if member.epoch == wanted.epoch:
            return member
        case MemberState.UNREVOKED if _may_have_any(owned, member.pending):
            return member
        case MemberState.UNKNOWN if owned is None or not owned.is_empty:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
            )
        case _:
            return _next(member, wanted, owned)


def _next(member: StreamsMember, wanted: TargetAssignment, owned: Tasks | None) -> StreamsMember:
    target = wanted.target
    following = target.standby | target.warmup | target.active
    revoked = HeldTasks(
        {task: since for task, since in member.tasks.active.items() if task not in target.active},
        member.tasks.standby - following,
        member.tasks.warmup - following,
    )
    if not revoked.is_empty and _may_have_any(owned, revoked):
        # It may still be processing these, so it stays at its epoch and may go on committing their offsets.
        kept = HeldTasks(
            {task: since for task, since in member.tasks.active.items() if task in target.active},
            member.tasks.standby & following,
            member.tasks.warmup & following,
        )
        return _moved(member, member.epoch, MemberState.UNREVOKED, kept, revoked)
    active: dict[TaskId, int] = {}
    waiting: set[TaskId] = set()
    for task in target.active:
        since = member.tasks.active.get(task)
        if since is not None:
            active[task] = since
        elif wanted.is_active(task) or wanted.is_in_process(task):
            waiting.add(task)
        else:
            active[task] = wanted.epoch
    passive = member.tasks.passive
    standby = {task for task in target.standby if task in passive or not wanted.is_in_process(task)}
    warmup = {task for task in target.warmup if task in passive or not wanted.is_in_process(task)}
    is_waiting = bool(waiting) or len(standby) + len(warmup) < len(target.standby) + len(target.warmup)
    # It goes on following the tasks that it waits for.
    standby |= member.tasks.standby & waiting
    warmup |= member.tasks.warmup & waiting
    state = MemberState.UNRELEASED if is_waiting else MemberState.STABLE
    return _moved(member, wanted.epoch, state, HeldTasks(active, frozenset(standby), frozenset(warmup)), NOTHING_HELD)


def _may_have_any(owned: Tasks | None, tasks: HeldTasks) -> bool:
    return owned is None or tasks.has_any_of(owned)


def _moved(
    member: StreamsMember, epoch: int, state: MemberState, tasks: HeldTasks, pending: HeldTasks
) -> StreamsMember:
    if (epoch, state, tasks, pending) == (member.epoch, member.state, member.tasks, member.pending):
        return member  # it waits: nothing to write
    return replace(member, epoch=epoch, previous_epoch=member.epoch, state=state, tasks=tasks, pending=pending)
