"""StreamsGroupHeartbeat: one request to join, stay and leave. Decisions only (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from bmq.coordinator.classic.effects import GroupState
from bmq.coordinator.modern.member_timers import NOBODY, TimerKind
from bmq.coordinator.streams.configuration import ConfiguredSubtopology, ConfiguredTopology, StatusCode
from bmq.coordinator.streams.departures import remove_member, write_removal
from bmq.coordinator.streams.draft import StreamsDraft
from bmq.coordinator.streams.endpoints import partitions_by_endpoint
from bmq.coordinator.streams.epochs import (
    StreamsGroupContext,
    bump_if_needed,
    step,
    update_target,
)
from bmq.coordinator.streams.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    MemberState,
    StreamsMember,
)
from bmq.coordinator.streams.tasks import NOTHING_HELD, TaskId, Tasks, partitions_of, task_ids
from bmq.coordinator.streams.topology import topology_of
from bmq.protocol import streams_group_records as records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.create_topics_request import CreatableTopic
from bmq.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from bmq.protocol.messages.streams_group_heartbeat_response import Status, StreamsGroupHeartbeatResponse, TaskIds
from bmq.protocol.streams_group_records import TopologyValue

UNCHANGED_MS: Final = -1


class CheckedHeartbeat(NamedTuple):
    """A request that `check` has passed; `topology`: the request's."""

    request: StreamsGroupHeartbeatRequest
    topology: TopologyValue | None
    client_id: str
    client_host: str

    @property
    def owned(self) -> Tasks | None:
        asked = self.request
        if asked.active_tasks is None or asked.standby_tasks is None or asked.warmup_tasks is None:
            return None
        return Tasks(task_ids(asked.active_tasks), task_ids(asked.standby_tasks), task_ids(asked.warmup_tasks))


class Answered(NamedTuple):
    """`missing`: topics to be created for the application."""

    response: StreamsGroupHeartbeatResponse
    missing: Sequence[CreatableTopic] = ()


def check(asked: StreamsGroupHeartbeatRequest) -> TopologyValue | None:
    """Checks that need no group; returns the request's topology.

    Raises KafkaError INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY.
    """
    epoch = asked.member_epoch
    for name, text in (
        ("MemberId", asked.member_id),
        ("GroupId", asked.group_id),
        ("InstanceId", asked.instance_id),
        ("RackId", asked.rack_id),
    ):
        if text is not None and not text.strip():
            raise _invalid(f"{name} can't be empty.")
    if epoch == STATIC_LEAVE_EPOCH and asked.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    if epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    sent = asked.active_tasks, asked.standby_tasks, asked.warmup_tasks
    if epoch == JOIN_EPOCH:
        if asked.rebalance_timeout_ms == UNCHANGED_MS:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if asked.topology is None:
            raise _invalid("Topology must be non-null when (re-)joining.")
        for name, tasks in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), sent, strict=True):
            if tasks is None or tasks:
                raise _invalid(f"{name} must be empty when (re-)joining.")
    elif asked.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")
    if None in sent and sent != (None, None, None):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    return None if asked.topology is None else topology_of(asked.topology)


def heartbeat(draft: StreamsDraft, checked: CheckedHeartbeat, context: StreamsGroupContext) -> Answered:
    """Raises KafkaError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    UNRELEASED_INSTANCE_ID, FENCED_MEMBER_EPOCH, INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY.
    """
    asked = checked.request
    if asked.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
        return _leave(draft, asked)
    if draft.group is None:
        _make_group(draft, is_joining=asked.member_epoch == JOIN_EPOCH)
    was_empty = not draft.existing.members
    before = _member(draft, checked, context.config.max_size)
    after = _with_request(StreamsMember(asked.member_id) if before is None else before, checked)
    topology, is_new = _topology(draft, checked)
    configured = context.configure(topology, context.topics)
    if configured.is_ready and checked.owned is not None:
        _require_tasks(configured.subtopologies or {}, checked.owned)
    has_changed = before is None or after.metadata_value() != before.metadata_value()
    if has_changed:
        draft.write(records.MemberKey(group=draft.group_id, member_id=after.member_id), after.metadata_value())
    if is_new:
        draft.write(records.TopologyKey(group=draft.group_id), topology)
    bump_if_needed(draft, configured, context, must=has_changed or is_new)
    is_delayed = _delay(draft, context, was_empty=was_empty)
    group = draft.existing
    is_waiting = is_delayed and group.epoch > group.target_epoch
    if not is_waiting and group.is_target_due(context.now.wall_ms, context.terms.assignment_interval_ms):
        update_target(draft, configured, context)
    member = step(draft, after.member_id, checked.owned, is_delayed=is_waiting)
    draft.start(TimerKind.SESSION, member.member_id, context.terms.session_timeout_ms)
    if asked.shutdown_application:
        draft.shutdown_by = member.member_id
    response = _response(draft, checked, context, before, member, configured)
    response.status = _statuses(draft, context, member, topology, configured, is_waiting=is_waiting)
    return Answered(response, configured.missing)


def _make_group(draft: StreamsDraft, *, is_joining: bool) -> None:
    classic = draft.classic
    if draft.is_taken or (classic is not None and classic.state is not GroupState.EMPTY):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {draft.group_id} is not a streams group.")
    if not is_joining:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {draft.group_id} not found.")
    draft.create()


def _member(draft: StreamsDraft, checked: CheckedHeartbeat, size_max: int) -> StreamsMember | None:
    """The sending member; None: it is new. A static one that comes back replaces its former self."""
    group, asked = draft.existing, checked.request
    if asked.instance_id is not None:
        holder = group.static_member(asked.instance_id)
        if holder is not None and asked.member_epoch == JOIN_EPOCH:
            return _replace_static(draft, holder, asked)
        if holder is not None or asked.member_epoch != JOIN_EPOCH:
            _require_instance(holder, asked)
    member = group.members.get(asked.member_id)
    if member is not None:
        _require_epoch(member, checked)
        return member
    if asked.member_epoch != JOIN_EPOCH:
        raise _unknown(draft, asked.member_id)
    if len(group.members) >= size_max:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The streams group has reached its maximum capacity of {size_max} members.",
        )
    return None


def _replace_static(draft: StreamsDraft, old: StreamsMember, asked: StreamsGroupHeartbeatRequest) -> StreamsMember:
    """The same static member under a new member id; it keeps its target, and its tasks if it is in the same process.

    Raises KafkaError UNRELEASED_INSTANCE_ID.
    """
    if not old.has_left_for_a_while:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {asked.member_id} with instance id {old.instance_id} cannot join the group because the instance id "
            f"is owned by {old.member_id} member.",
        )
    group_id, member_id, target = draft.group_id, asked.member_id, draft.existing.target_of(old.member_id)
    member = replace(old, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    if asked.process_id != old.process_id:
        # A member in its new process may have these tasks in another role, so it starts with none and gets free ones.
        member = replace(member, tasks=NOTHING_HELD)
    write_removal(draft, old.member_id)
    draft.write(records.MemberKey(group=group_id, member_id=member_id), member.metadata_value())
    draft.write(records.TargetKey(group=group_id, member_id=member_id), target.record())
    draft.write(records.CurrentKey(group=group_id, member_id=member_id), member.current_value())
    return member


def _require_instance(holder: StreamsMember | None, asked: StreamsGroupHeartbeatRequest) -> None:
    """Raises KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    if holder is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {asked.instance_id} is unknown.")
    if holder.member_id != asked.member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {asked.member_id} with instance id {asked.instance_id} was fenced by member "
            f"{holder.member_id}.",
        )


def _require_epoch(member: StreamsMember, checked: CheckedHeartbeat) -> None:
    """Accept the member's epoch, or the previous one when the member retries because our answer was lost."""
    epoch, owned = checked.request.member_epoch, checked.owned
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    is_retry = epoch == member.previous_epoch and owned is not None and member.tasks.has_all_of(owned)
    if epoch > member.epoch or not is_retry:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The streams group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) "
            f"than the one known by the group coordinator ({member.epoch}). The member must abandon all its partitions "
            "and rejoin.",
        )


def _with_request(member: StreamsMember, checked: CheckedHeartbeat) -> StreamsMember:
    """The member updated from the request; null fields leave it as it was."""
    asked = checked.request
    endpoint, tags, timeout_ms = asked.user_endpoint, asked.client_tags, asked.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if asked.instance_id is None else asked.instance_id,
        rack_id=member.rack_id if asked.rack_id is None else asked.rack_id,
        client_id=checked.client_id,
        client_host=checked.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == UNCHANGED_MS else timeout_ms,
        topology_epoch=member.topology_epoch if checked.topology is None else checked.topology.epoch,
        process_id=member.process_id if asked.process_id is None else asked.process_id,
        user_endpoint=member.user_endpoint
        if endpoint is None
        else records.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=member.client_tags if tags is None else tuple(sorted({tag.key: tag.value for tag in tags}.items())),
    )


def _topology(draft: StreamsDraft, checked: CheckedHeartbeat) -> tuple[TopologyValue, bool]:
    """The group's topology, and whether it comes from this request. A member may send an older one."""
    group, sent = draft.existing, checked.topology
    if group.topology is None:
        if sent is None:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH, "The group has no topology. The member must rejoin and bring its own."
            )
        return sent, True
    if sent is not None and sent.epoch >= group.topology.epoch and sent != group.topology:
        raise _invalid("Topology updates are not supported yet.")
    return group.topology, False


def _require_tasks(subtopologies: Mapping[str, ConfiguredSubtopology], owned: Tasks) -> None:
    for task in (*owned.active, *owned.standby, *owned.warmup):
        subtopology = subtopologies.get(task.subtopology)
        if subtopology is None:
            raise _invalid(f"Subtopology {task.subtopology} does not exist in the topology.")
        if not 0 <= task.partition < subtopology.task_count:
            raise _invalid(
                f"Task {task.partition} for subtopology {task.subtopology} is invalid. Number of tasks for this "
                f"subtopology: {subtopology.task_count}"
            )


def _delay(draft: StreamsDraft, context: StreamsGroupContext, *, was_empty: bool) -> bool:
    """Whether the first target waits for more members to join."""
    delay_ms = context.terms.initial_rebalance_delay_ms
    if was_empty and delay_ms > 0:
        draft.start(TimerKind.DELAY, NOBODY, delay_ms, keeps=True)
        return True
    return context.is_delayed


def _leave(draft: StreamsDraft, asked: StreamsGroupHeartbeatRequest) -> Answered:
    if draft.group is None and draft.is_taken:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {draft.group_id} is not a streams group.")
    group = draft.existing
    if asked.instance_id is not None:
        _require_instance(group.static_member(asked.instance_id), asked)
    member = group.members.get(asked.member_id)
    if member is None:
        raise _unknown(draft, asked.member_id)
    if asked.member_epoch == STATIC_LEAVE_EPOCH:
        _leave_for_a_while(draft, member)
    else:
        remove_member(draft, member.member_id)
    return Answered(left(asked))


def _leave_for_a_while(draft: StreamsDraft, member: StreamsMember) -> None:
    """The static member keeps its place and its tasks until its session ends; nothing is pending revocation."""
    held = replace(member.tasks, active=dict.fromkeys(member.tasks.active, 0))
    away = replace(member, epoch=STATIC_LEAVE_EPOCH, state=MemberState.STABLE, tasks=held, pending=NOTHING_HELD)
    draft.write(records.CurrentKey(group=draft.group_id, member_id=member.member_id), away.current_value())
    draft.stop(TimerKind.REBALANCE, member.member_id)


def left(asked: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    """The answer to a member that has left, for good or temporarily."""
    return StreamsGroupHeartbeatResponse(
        member_id=asked.member_id,
        member_epoch=asked.member_epoch,
        status=[],
        active_tasks=None,
        standby_tasks=None,
        warmup_tasks=None,
        partitions_by_user_endpoint=None,
    )


def _response(
    draft: StreamsDraft,
    checked: CheckedHeartbeat,
    context: StreamsGroupContext,
    before: StreamsMember | None,
    member: StreamsMember,
    configured: ConfiguredTopology,
) -> StreamsGroupHeartbeatResponse:
    asked = checked.request
    is_told = (
        asked.member_epoch == JOIN_EPOCH
        # After an error it names its tasks: it may not have received its assignment.
        or (checked.owned is not None and checked.owned != member.tasks.without_epochs)
        or before is None
        or before.tasks.without_epochs != member.tasks.without_epochs
    )
    endpoint_epoch = context.endpoint_epoch
    if is_told and member.user_endpoint is not None:
        draft.bumps_endpoints = True
        endpoint_epoch += 1
    response = StreamsGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=context.terms.heartbeat_interval_ms,
        acceptable_recovery_lag=context.config.acceptable_recovery_lag,
        task_offset_interval_ms=context.config.task_offset_interval_ms,
        active_tasks=_parts(member.tasks.active) if is_told else None,
        standby_tasks=_parts(member.tasks.standby) if is_told else None,
        warmup_tasks=_parts(member.tasks.warmup) if is_told else None,
        endpoint_information_epoch=endpoint_epoch,
        partitions_by_user_endpoint=None,
    )
    if endpoint_epoch != asked.endpoint_information_epoch:
        response.partitions_by_user_endpoint = partitions_by_endpoint(draft.existing, configured, context.topics)
    return response


def _parts(tasks: Iterable[TaskId]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology, partitions=partitions)
        for subtopology, partitions in partitions_of(tasks).items()
    ]


def _statuses(
    draft: StreamsDraft,
    context: StreamsGroupContext,
    member: StreamsMember,
    topology: TopologyValue,
    configured: ConfiguredTopology,
    *,
    is_waiting: bool,
) -> list[Status]:
    statuses = []
    if member.topology_epoch < topology.epoch:
        statuses.append(
            _status(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{topology.epoch}.",
            )
        )
    if is_waiting:
        statuses.append(
            _status(StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay.")
        )
    problem = configured.problem
    if problem is not None:
        is_failing = problem.status is StatusCode.MISSING_INTERNAL_TOPICS and context.creation_error
        more = f"; Creation failed: {context.creation_error}." if is_failing else ""
        statuses.append(_status(problem.status, problem.detail + more))
    shutdown_by = context.shutdown_by or draft.shutdown_by
    if shutdown_by is not None:
        statuses.append(
            _status(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {shutdown_by} encountered a fatal error and requested a shutdown for the entire "
                "application.",
            )
        )
    return statuses


def _status(code: StatusCode, detail: str) -> Status:
    return Status(status_code=code, status_detail=detail)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _unknown(draft: StreamsDraft, member_id: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {draft.group_id}.")
