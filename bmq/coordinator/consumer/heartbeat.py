"""ConsumerGroupHeartbeat: one request to join, stay, change the subscription and leave. Decisions only (KIP-848)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from bmq.coordinator.classic.effects import GroupState
from bmq.coordinator.config import ConsumerConfig
from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.consumer.departures import remove_members, write_removal
from bmq.coordinator.consumer.draft import Draft
from bmq.coordinator.consumer.epochs import GroupContext, advance, write_current, write_metadata
from bmq.coordinator.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
)
from bmq.coordinator.consumer.migration import upgrade
from bmq.coordinator.consumer.partition_sets import NONE_OWNED, Target, answer_of, is_subset, reported, target_parts
from bmq.coordinator.modern.member_timers import TimerKind
from bmq.protocol import consumer_group_records as records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

MEMBER_ID_FROM: Final = 1
"""First version in which clients make their own member ids."""
UNCHANGED_MS: Final = -1


class CheckedHeartbeat(NamedTuple):
    """A request that `check` has passed. `member_id`: the request's, or a new one if the request has none."""

    request: ConsumerGroupHeartbeatRequest
    member_id: str
    client_id: str
    client_host: str

    @property
    def is_full(self) -> bool:
        """Whether every field is set, as after an error; the answer then carries the assignment too."""
        asked = self.request
        return (
            asked.rebalance_timeout_ms != UNCHANGED_MS
            and (asked.subscribed_topic_names is not None or asked.subscribed_topic_regex is not None)
            and asked.topic_partitions is not None
        )


def check(asked: ConsumerGroupHeartbeatRequest, api_version: int, config: ConsumerConfig) -> None:
    """Checks that need no group. Raises KafkaError INVALID_REQUEST, UNSUPPORTED_ASSIGNOR."""
    epoch = asked.member_epoch
    is_named = api_version >= MEMBER_ID_FROM or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    if is_named and not asked.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    for name, text in (("GroupId", asked.group_id), ("InstanceId", asked.instance_id), ("RackId", asked.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{name} can't be empty.")
    if epoch == JOIN_EPOCH:
        if asked.rebalance_timeout_ms == UNCHANGED_MS:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if asked.topic_partitions is None or asked.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if asked.subscribed_topic_names is None and asked.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == STATIC_LEAVE_EPOCH:
        if asked.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if asked.server_assignor is not None and asked.server_assignor not in config.assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {asked.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(config.assignors)}.",
        )


def heartbeat(draft: Draft, checked: CheckedHeartbeat, context: GroupContext) -> ConsumerGroupHeartbeatResponse:
    """Raises KafkaError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    UNRELEASED_INSTANCE_ID, FENCED_MEMBER_EPOCH, INVALID_REGULAR_EXPRESSION, UNKNOWN_SERVER_ERROR.
    """
    if checked.request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
        return _leave(draft, checked, context)
    asked = checked.request
    is_joining = asked.member_epoch == JOIN_EPOCH
    if draft.group is None:
        _make_group(draft, context, is_joining=is_joining)
    _require_room(draft.existing, checked, context.config.max_size)
    before = _static(draft, checked) if asked.instance_id is not None else _dynamic(draft.existing, checked)
    known = ConsumerMember(checked.member_id) if before is None else before
    member = advance(draft, before, _with_request(known, checked), _owned(asked), context)
    draft.start(TimerKind.SESSION, member.member_id, context.terms.session_timeout_ms)
    if before is not None and before.classic is not None:
        draft.stop(TimerKind.JOIN, member.member_id)
        draft.stop(TimerKind.SYNC, member.member_id)
    is_sent = is_joining or checked.is_full or _partitions(known) != _partitions(member)
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=context.terms.heartbeat_interval_ms,
        assignment=answer_of(member.assigned) if is_sent else None,
    )


def _make_group(draft: Draft, context: GroupContext, *, is_joining: bool) -> None:
    if draft.is_taken:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {draft.group_id} is not a consumer group.")
    if not is_joining:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {draft.group_id} not found.")
    classic = draft.classic
    if classic is not None and classic.state is not GroupState.EMPTY:
        upgrade(draft, classic, context)
    else:
        draft.create()


def _require_room(group: ConsumerGroup, checked: CheckedHeartbeat, size_max: int) -> None:
    is_known = checked.member_id in group.members or group.static_member(checked.request.instance_id) is not None
    if len(group.members) >= size_max and not is_known:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )


def _dynamic(group: ConsumerGroup, checked: CheckedHeartbeat) -> ConsumerMember | None:
    """The sending member; None: it is new."""
    member = group.members.get(checked.member_id)
    if member is None:
        if checked.request.member_epoch == JOIN_EPOCH:
            return None
        raise _unknown(f"Member {checked.member_id} is not a member of group {group.group_id}.")
    _require_epoch(member, checked)
    return member


def _static(draft: Draft, checked: CheckedHeartbeat) -> ConsumerMember | None:
    """The sending static member; None: it is new. One that comes back replaces its former self."""
    group, asked = draft.existing, checked.request
    holder = group.static_member(asked.instance_id)
    if asked.member_epoch != JOIN_EPOCH:
        if holder is None:
            raise _unknown(f"Instance id {asked.instance_id} is unknown.")
        require_instance_of(holder, checked.member_id)
        _require_epoch(holder, checked)
        return holder
    if holder is None:
        return group.members.get(checked.member_id)
    if holder.classic is None and not holder.has_left_for_a_while:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {checked.member_id} with instance id {asked.instance_id} cannot join the group because the "
            f"instance id is owned by {holder.member_id} member.",
        )
    return replace_static(draft, holder, checked.member_id)


def replace_static(draft: Draft, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """The same static member under a new member id; it keeps its partitions and its target."""
    target = draft.existing.target_of(old.member_id)
    member = replace(old, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    write_removal(draft, old.member_id)
    write_metadata(draft, member)
    draft.write(
        records.TargetKey(group=draft.group_id, member_id=member_id),
        records.TargetValue(topic_partitions=target_parts(target)),
    )
    write_current(draft, member)
    return member


def require_instance_of(holder: ConsumerMember, member_id: str) -> None:
    """Raises KafkaError FENCED_INSTANCE_ID."""
    if holder.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {holder.instance_id} was fenced by member {holder.member_id}.",
        )


def _require_epoch(member: ConsumerMember, checked: CheckedHeartbeat) -> None:
    """Accept the member's epoch, or the previous one when the member retries because our answer was lost."""
    asked = checked.request
    epoch = asked.member_epoch
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    is_retry = (
        epoch == member.previous_epoch
        and asked.topic_partitions is not None
        and is_subset(reported(asked.topic_partitions), member.assigned)
    )
    if epoch > member.epoch or not is_retry:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) "
            f"than the one known by the group coordinator ({member.epoch}). The member must abandon all its partitions "
            "and rejoin.",
        )


def _with_request(member: ConsumerMember, checked: CheckedHeartbeat) -> ConsumerMember:
    """The member updated from the request; null fields leave it as it was."""
    asked = checked.request
    names, regex = asked.subscribed_topic_names, asked.subscribed_topic_regex
    timeout_ms = asked.rebalance_timeout_ms
    if (
        (names is None and regex is None and asked.rack_id is None)
        and (asked.server_assignor is None and member.classic is None)
        and timeout_ms == UNCHANGED_MS
        and (asked.instance_id is None or asked.instance_id == member.instance_id)
        and (checked.client_id, checked.client_host) == (member.client_id, member.client_host)
    ):
        return member  # nearly every heartbeat
    return replace(
        member,
        instance_id=member.instance_id if asked.instance_id is None else asked.instance_id,
        rack_id=member.rack_id if asked.rack_id is None else asked.rack_id,
        client_id=checked.client_id,
        client_host=checked.client_host,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == UNCHANGED_MS else timeout_ms,
        server_assignor=member.server_assignor if asked.server_assignor is None else asked.server_assignor,
        classic=None,
    )


def _leave(draft: Draft, checked: CheckedHeartbeat, context: GroupContext) -> ConsumerGroupHeartbeatResponse:
    group, asked = draft.existing, checked.request
    if asked.instance_id is None:
        member = group.members.get(checked.member_id)
        if member is None:
            raise _unknown(f"Member {checked.member_id} is not a member of group {group.group_id}.")
    else:
        member = group.static_member(asked.instance_id)
        if member is None:
            raise _unknown(f"Instance id {asked.instance_id} is unknown.")
        require_instance_of(member, checked.member_id)
    if asked.member_epoch == STATIC_LEAVE_EPOCH:
        # A static member keeps its place and its partitions until its session ends; nothing is pending revocation.
        kept = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
        away = replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=kept, pending=NONE_OWNED)
        write_current(draft, away)
        draft.stop(TimerKind.REBALANCE, member.member_id)
    else:
        remove_members(draft, (member.member_id,), context)
    return ConsumerGroupHeartbeatResponse(member_id=checked.member_id, member_epoch=asked.member_epoch)


def _owned(asked: ConsumerGroupHeartbeatRequest) -> Target | None:
    return None if asked.topic_partitions is None else reported(asked.topic_partitions)


def _partitions(member: ConsumerMember) -> dict[UUID, Set[int]]:
    """Its partitions without their epochs."""
    return {topic_id: epochs.keys() for topic_id, epochs in member.assigned.items()}


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _unknown(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, message)
