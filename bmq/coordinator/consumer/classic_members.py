"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. Decisions only.

A classic member's generation is its epoch. There is no leader: the server assigns. JoinGroup works as a heartbeat that
names the owned partitions (in the subscription) and is answered at once; SyncGroup fetches the assignment; Heartbeat
tells the member when to rejoin: for a new epoch, to revoke partitions, or when awaited ones are free (KIP-848).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bmq.coordinator.classic.effects import Joining, join_error
from bmq.coordinator.classic.member import Protocols
from bmq.coordinator.classic.subscription import CONSUMER_PROTOCOL_TYPE
from bmq.coordinator.consumer import consumer_protocol
from bmq.coordinator.consumer.consumer_group import ConsumerGroup, ConsumerGroupState
from bmq.coordinator.consumer.consumer_protocol import Subscription, decode_subscription, encode_assignment
from bmq.coordinator.consumer.departures import remove_members
from bmq.coordinator.consumer.draft import Draft
from bmq.coordinator.consumer.epochs import GroupContext, advance
from bmq.coordinator.consumer.heartbeat import replace_static, require_instance_of
from bmq.coordinator.consumer.member import ClassicTerms, ConsumerMember, MemberState
from bmq.coordinator.consumer.migration import DISABLED, downgraded
from bmq.coordinator.modern.member_timers import TimerKind
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, MalformedMessage
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.join_group_response import JoinGroupResponse
from bmq.protocol.messages.leave_group_request import MemberIdentity
from bmq.protocol.messages.leave_group_response import MemberResponse
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from bmq.protocol.messages.sync_group_response import SyncGroupResponse

_MEMBER_ID_REQUIRED_FROM = 4


def join(draft: Draft, joining: Joining, context: GroupContext) -> JoinGroupResponse | None:
    """A JoinGroup. None: there is no consumer group, or it was empty and is deleted to make room for a classic one.

    Raises KafkaError INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    UNKNOWN_SERVER_ERROR.
    """
    request = joining.request
    if draft.group is None:
        return None
    if not draft.group.members:
        if request.member_id:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "an empty group has no such member")
        draft.delete()
        return None
    group = draft.group
    holder = group.static_member(request.group_instance_id)
    if context.config.migration_policy == DISABLED or not _speaks_with(group, joining):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the group does not take these protocols")
    if len(group.members) >= context.config.max_size and request.member_id not in group.members and holder is None:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {len(group.members)} members")
    member_id = request.member_id or joining.new_member_uuid
    if not request.member_id and request.group_instance_id is None and joining.api_version >= _MEMBER_ID_REQUIRED_FROM:
        return join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    subscription = _subscription(joining.protocols)
    before = group.members.get(member_id)
    if request.group_instance_id is not None and request.member_id:
        if holder is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.group_instance_id} is unknown.")
        require_instance_of(holder, member_id)
    elif holder is not None:
        before = replace_static(draft, holder, member_id)
    after = _joined(ConsumerMember(member_id) if before is None else before, joining, subscription)
    owned = consumer_protocol.by_id(subscription.owned, context.topics)
    member = advance(draft, before, after, owned, context)
    is_classic_again = holder is not None and holder.classic is None and _become_classic(draft, context)
    if not is_classic_again:
        draft.stop(TimerKind.JOIN, member_id)
        draft.stop(TimerKind.REBALANCE, member_id)
        draft.start(TimerKind.SESSION, member_id, request.session_timeout_ms)
        draft.start(TimerKind.SYNC, member_id, request.rebalance_timeout_ms)
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=joining.protocols[0][0],
    )


def sync(draft: Draft, request: SyncGroupRequest, context: GroupContext) -> SyncGroupResponse:
    """A SyncGroup: returns the member's assignment.

    Raises KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
    REBALANCE_IN_PROGRESS.
    """
    group = draft.existing
    member, terms = _classic_member(group, request.member_id, request.group_instance_id)
    _require_generation(member, request.generation_id)
    name = terms.protocols[0][0] if terms.protocols else ""
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "not the protocol that JoinGroup was answered with")
    draft.start(TimerKind.SESSION, member.member_id, terms.session_timeout_ms)
    if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED:
        draft.start(TimerKind.JOIN, member.member_id, member.rebalance_timeout_ms, keeps=True)
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "there is a newer assignment to join for")
    draft.stop(TimerKind.SYNC, member.member_id)
    version = _version(terms)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_assignment(member.assigned, context.topics, version),
    )


def heartbeat(draft: Draft, request: HeartbeatRequest) -> ErrorCode:
    """A Heartbeat: NONE, or REBALANCE_IN_PROGRESS when the member has to rejoin.

    Raises KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    group = draft.existing
    member, terms = _classic_member(group, request.member_id, request.group_instance_id)
    _require_generation(member, request.generation_id)
    draft.start(TimerKind.SESSION, member.member_id, terms.session_timeout_ms)
    if (
        member.epoch < group.epoch
        or member.state is MemberState.UNREVOKED
        or (member.state is MemberState.UNRELEASED and not _waits(group, member))
    ):
        draft.start(TimerKind.JOIN, member.member_id, member.rebalance_timeout_ms, keeps=True)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(draft: Draft, leaving: Sequence[MemberIdentity], context: GroupContext) -> list[MemberResponse]:
    """A LeaveGroup for members of either protocol; static ones may be named by instance id alone."""
    group = draft.existing
    gone: dict[str, None] = {}
    responses = []
    for identity in leaving:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        error = ErrorCode.NONE
        member = group.members.get(member_id) if instance_id is None else group.static_member(instance_id)
        if member is None or member.member_id in gone:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        elif member_id and member.member_id != member_id:
            error = ErrorCode.FENCED_INSTANCE_ID
        else:
            member_id = member.member_id
            gone[member_id] = None
        responses.append(MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=error))
    if gone:
        remove_members(draft, list(gone), context)
    return responses


def _speaks_with(group: ConsumerGroup, joining: Joining) -> bool:
    """Whether it offers consumer protocols, one of which all classic members of the group support."""
    if joining.request.protocol_type != CONSUMER_PROTOCOL_TYPE or not joining.protocols:
        return False
    common = {name for name, _ in joining.protocols}
    for member in group.members.values():
        if member.classic is not None:
            common &= {name for name, _ in member.classic.protocols}
    return bool(common)


def _subscription(protocols: Protocols) -> Subscription:
    """Read from the first protocol; all carry the same. Raises KafkaError INCONSISTENT_GROUP_PROTOCOL."""
    try:
        return decode_subscription(protocols[0][1])
    except MalformedMessage as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"a malformed subscription: {error}") from error


def _joined(member: ConsumerMember, joining: Joining, subscription: Subscription) -> ConsumerMember:
    request = joining.request
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        topic_names=frozenset(subscription.topics),
        topic_regex="",  # the classic protocol has none, whatever the member subscribed with before
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicTerms(request.session_timeout_ms, joining.protocols),
    )


def _become_classic(draft: Draft, context: GroupContext) -> bool:
    """The last new-protocol member rejoined as a classic one; returns whether the group is classic again."""
    group = draft.existing
    value = downgraded(group, list(group.members.values()), context)
    if value is None:
        return False
    # Unless the group is stable, some members have not reached their targets, or still own partitions that are
    # another's in the target, so all have to rejoin.
    return draft.become_classic(value, rebalances=group.state is not ConsumerGroupState.STABLE)


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicTerms]:
    member = group.members.get(member_id) if instance_id is None else group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of {group.group_id}.")
    if instance_id is not None:
        require_instance_of(member, member_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return member, member.classic


def _require_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"member {member.member_id} is at epoch {member.epoch}")


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether another member still holds a partition of this member's target."""
    return any(
        group.holder(topic_id, partition) not in (None, member.member_id)
        for topic_id, partitions in group.target_of(member.member_id).items()
        for partition in partitions
    )


def _version(terms: ClassicTerms) -> int:
    try:
        return consumer_protocol.version_of(terms.protocols[0][1] if terms.protocols else b"")
    except MalformedMessage:  # checked when it joined: only a foreign record can be malformed
        return 0
