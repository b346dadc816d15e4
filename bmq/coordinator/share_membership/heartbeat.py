"""ShareGroupHeartbeat: one request to join, stay, change the subscription and leave (KIP-932). Decisions only.

A partition is assigned once its state is initialized. A heartbeat that finds partitions without state writes that they are
being initialized and names them in its result; the caller has them initialized, which `initialized` writes, and asks
`reassign` for the answer. So a member gets its partitions with its first heartbeat, where Kafka's gets them with the
second; the group's epoch rises twice as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from bmq.coordinator.config import GroupTerms, ShareConfig
from bmq.coordinator.modern.cached_responses import CacheableResponse, RequestKey
from bmq.coordinator.modern.member_timers import TimerKind
from bmq.coordinator.modern.modern_group import AT_ONCE_MS
from bmq.coordinator.modern.subscribed_topics import metadata_hash
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.share_membership.assignor import AssignedMember, Target
from bmq.coordinator.share_membership.draft import ShareDraft
from bmq.coordinator.share_membership.member import JOIN_EPOCH, LEAVE_EPOCH, ShareMember, parts_of
from bmq.coordinator.share_membership.readable import readable_topic, require_readable
from bmq.coordinator.share_membership.share_group import ShareGroup, StateTopic, StateTopics
from bmq.coordinator.share_membership.subscription import marked_hash, require_admission, targets_of
from bmq.coordinator.subscription_type import SubscriptionType
from bmq.coordinator.topics import Topics
from bmq.protocol import share_group_records as records
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from bmq.protocol.messages.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

MEMBER_ID_CHARACTERS_MAX: Final = 36
"""Longest member id: clients make up a UUID, as text."""


class ShareContext(NamedTuple):
    """Everything a decision depends on besides the group. `is_stale`: topics, or the type of the subscription, may have
    changed since the group last looked; `version` rises with that.

    `under_way`: partitions whose state is being initialized by this process.
    """

    topics: Topics
    config: ShareConfig
    terms: GroupTerms
    now: Moment
    is_stale: bool
    under_way: Mapping[UUID, frozenset[int]] = MappingProxyType({})
    subscription: SubscriptionType = SubscriptionType.SHARED
    version: int = 0


class Beat(NamedTuple):
    """A request that `check` has passed."""

    request: ShareGroupHeartbeatRequest
    client_id: str
    client_host: str


class Answered(NamedTuple):
    """`missing`: partitions whose state has to be initialized; the response holds as it is if that fails."""

    response: ShareGroupHeartbeatResponse
    missing: StateTopics


def check(asked: ShareGroupHeartbeatRequest) -> None:
    """Checks that need no group. Raises KafkaError INVALID_REQUEST."""
    if not asked.member_id or not asked.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if len(asked.member_id) > MEMBER_ID_CHARACTERS_MAX:
        raise _invalid(f"MemberId can't be longer than {MEMBER_ID_CHARACTERS_MAX} characters.")
    if not asked.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if asked.rack_id is not None and not asked.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    if asked.member_epoch == JOIN_EPOCH and not asked.subscribed_topic_names:
        raise _invalid("SubscribedTopicNames must be set in first request.")
    if asked.member_epoch < LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")


def heartbeat(draft: ShareDraft, beat: Beat, context: ShareContext, key: RequestKey | None = None) -> Answered:
    """`key`: what the response to a member of a settled group is cached under (`draft.cacheable`); None: it is not cached.

    Raises KafkaError: INVALID_REQUEST for a view, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID,
    FENCED_MEMBER_EPOCH.
    """
    asked = beat.request
    if asked.member_epoch == LEAVE_EPOCH:
        return Answered(_leave(draft, asked, context), {})
    require_readable(asked.subscribed_topic_names or (), context.topics)
    if draft.group is None:
        _make_group(draft, is_joining=asked.member_epoch == JOIN_EPOCH)
    _require_room(draft.existing, asked.member_id, context.config.max_size)
    require_admission(context.subscription, draft.group_id, draft.existing.members, asked.member_id)
    before = _sender(draft.existing, asked)
    updated = _with_request(ShareMember(asked.member_id) if before is None else before, beat)
    is_new_subscription = before is None or updated.topic_names != before.topic_names
    if updated is not before:
        draft.write(records.MemberKey(group=draft.group_id, member_id=asked.member_id), updated.metadata_value())
    is_changed = is_new_subscription or context.is_stale
    if is_changed:
        bump_if_needed(draft, context, must=is_new_subscription)
    missing = _begin_missing(draft, context)
    member = _assign_and_step(draft, asked.member_id, context)
    if is_changed:
        member = _leave_topics(draft, member, context)
    draft.start(TimerKind.SESSION, asked.member_id, context.terms.session_timeout_ms)
    had = {} if before is None else before.assigned
    is_sent = asked.member_epoch == JOIN_EPOCH or asked.subscribed_topic_names is not None or member.assigned != had
    response = _response(member, context, is_sent=is_sent)
    group = draft.existing
    if key is not None and group.settled_at == context.version and group.epoch == group.target_epoch:
        draft.cacheable = CacheableResponse(key, ApiKey.SHARE_GROUP_HEARTBEAT, response)
    return Answered(response, missing)


def initialized(draft: ShareDraft, topics: StateTopics) -> None:
    """The state of these is initialized. One that was waited for no longer, as its topic was deleted, is left out."""
    if draft.group is None:
        return
    states = draft.group.states.initializing_done(topics)
    if states != draft.group.states:
        draft.write_states(states)


def reassign(
    draft: ShareDraft, before: ShareGroupHeartbeatResponse, context: ShareContext
) -> ShareGroupHeartbeatResponse:
    """The answer to a heartbeat whose missing partitions are initialized by now; `before`: the answer without them. The
    assignment is in it if it was there, or if it has changed since. Raises KafkaError UNKNOWN_MEMBER_ID.
    """
    member_id = before.member_id or ""
    if draft.group is None or member_id not in draft.group.members:
        raise _unknown(draft.group_id, member_id)
    had = draft.group.members[member_id].assigned
    member = _assign_and_step(draft, member_id, context)
    return _response(member, context, is_sent=before.assignment is not None or member.assigned != had)


def delete_topics(draft: ShareDraft, topics: Mapping[UUID, str]) -> Mapping[UUID, frozenset[int]]:
    """The state of topics is being deleted: partitions that may have some, of those topics of which there is any."""
    group = draft.group
    if group is None:
        return {}
    known = {one: name for one, name in topics.items() if group.states.known(one)}
    found = {one: group.states.known(one) for one in topics if one in known or one in group.states.deleting}
    if known:
        draft.write_states(group.states.deletion_begun(known))
    return found


def deleted(draft: ShareDraft, topic_ids: Iterable[UUID]) -> None:
    """The state of these topics is deleted."""
    if draft.group is not None:
        states = draft.group.states.deletion_done(topic_ids)
        if states != draft.group.states:
            draft.write_states(states)


def expire(draft: ShareDraft, member_id: str, context: ShareContext) -> bool:
    """A member's session has ended; returns whether it was removed."""
    if draft.group is None or member_id not in draft.group.members:
        return False
    _remove(draft, member_id, context)
    return True


def bump_if_needed(draft: ShareDraft, context: ShareContext, *, must: bool) -> None:
    """Raise the group's epoch if `must`, or if subscribed topics or the type of the subscription have changed."""
    group = draft.existing
    current_hash = marked_hash(metadata_hash(group.subscribed_names, context.topics), context.subscription)
    draft.is_refreshed = True
    if must or current_hash != group.metadata_hash:
        draft.write(
            records.EpochKey(group=group.group_id),
            records.EpochValue(epoch=group.epoch + 1, metadata_hash=current_hash),
        )


def _make_group(draft: ShareDraft, *, is_joining: bool) -> None:
    if draft.is_taken or draft.classic is not None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {draft.group_id} is not a share group.")
    if not is_joining:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {draft.group_id} not found.")
    draft.create()


def _require_room(group: ShareGroup, member_id: str, size_max: int) -> None:
    if len(group.members) >= size_max and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {size_max} members.",
        )


def _sender(group: ShareGroup, asked: ShareGroupHeartbeatRequest) -> ShareMember | None:
    """The sending member; None: it is new."""
    member, epoch = group.members.get(asked.member_id), asked.member_epoch
    if member is None:
        if epoch == JOIN_EPOCH:
            return None
        raise _unknown(group.group_id, asked.member_id)
    if epoch in (JOIN_EPOCH, member.epoch, member.previous_epoch):
        return member
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) than the "
        f"one known by the group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _with_request(member: ShareMember, beat: Beat) -> ShareMember:
    """The member updated from the request; null fields leave it as it was."""
    asked = beat.request
    names = member.topic_names if asked.subscribed_topic_names is None else frozenset(asked.subscribed_topic_names)
    rack_id = member.rack_id if asked.rack_id is None else asked.rack_id
    now = (names, rack_id, beat.client_id, beat.client_host)
    if now == (member.topic_names, member.rack_id, member.client_id, member.client_host):
        return member
    return replace(member, topic_names=names, rack_id=rack_id, client_id=beat.client_id, client_host=beat.client_host)


def _begin_missing(draft: ShareDraft, context: ShareContext) -> StateTopics:
    """Subscribed partitions without state: write that they are being initialized. One that an earlier request began is
    left to it, unless that has failed."""
    group = draft.existing
    if group.settled_at == context.version:
        return {}
    found: dict[UUID, StateTopic] = {}
    for name in group.subscribed_names:
        topic = readable_topic(context.topics, name)
        if topic is None or topic.topic_id in group.states.deleting:
            continue
        state = group.states.initialized.get(topic.topic_id)
        partitions = frozenset(range(len(topic.partitions))) - context.under_way.get(topic.topic_id, frozenset())
        if state is not None:
            partitions -= state.partitions
        if partitions:
            found[topic.topic_id] = StateTopic(name, partitions)
    states = group.states.beginning(found)
    if found and states != group.states:
        draft.write_states(states)
    return found


def _assign_and_step(draft: ShareDraft, member_id: str, context: ShareContext) -> ShareMember:
    """What depends on all members or partitions is left out while nothing of it has changed."""
    group = draft.existing
    if (
        group.settled_at != context.version
        and group.epoch == group.target_epoch
        and _is_unassigned(group, context.topics)
    ):
        bump_if_needed(draft, context, must=True)
    _update_target(draft, context)
    group = draft.existing
    if group.settled_at != context.version and _is_settled(group, context.topics):
        group.settled_at = context.version
    member = group.members[member_id]
    if member.epoch == group.target_epoch:
        return member
    assigned = _without_left_topics(group.target_of(member_id), member, context.topics)
    moved = replace(member, epoch=group.target_epoch, previous_epoch=member.epoch, assigned=assigned)
    draft.write(records.CurrentKey(group=group.group_id, member_id=member_id), moved.current_value())
    return moved


def _leave_topics(draft: ShareDraft, member: ShareMember, context: ShareContext) -> ShareMember:
    """Take topics from the member that were deleted, or that it has left, before the next target is due; one that it is
    subscribed to again it gets back. Its epoch stays. Source: Kafka's ShareGroupAssignmentBuilder (4.3).
    """
    assigned = _without_left_topics(draft.existing.target_of(member.member_id), member, context.topics)
    if assigned == member.assigned:
        return member
    moved = replace(member, assigned=assigned)
    draft.write(records.CurrentKey(group=draft.group_id, member_id=member.member_id), moved.current_value())
    return moved


def _without_left_topics(target: Target, member: ShareMember, topics: Topics) -> Target:
    wanted = _topics_of(member, topics)
    if target.keys() <= wanted:
        return target
    return {topic_id: partitions for topic_id, partitions in target.items() if topic_id in wanted}


def _assignable(group: ShareGroup, topics: Topics) -> Mapping[UUID, frozenset[int]]:
    """Partitions with state, of subscribed topics that exist."""
    found = {}
    for name in group.subscribed_names:
        topic = readable_topic(topics, name)
        state = None if topic is None else group.states.initialized.get(topic.topic_id)
        if topic is not None and state is not None:
            found[topic.topic_id] = state.partitions
    return found


def _is_unassigned(group: ShareGroup, topics: Topics) -> bool:
    """Whether some partition could be assigned, and no member has it."""
    return not all(group.has_given(*one) for one in _assignable(group, topics).items())


def _is_settled(group: ShareGroup, topics: Topics) -> bool:
    """Whether all partitions of subscribed topics have state, and each is some member's."""
    for name in group.subscribed_names:
        topic = readable_topic(topics, name)
        if topic is None:
            continue
        partitions = frozenset(range(len(topic.partitions)))
        state = group.states.initialized.get(topic.topic_id)
        if state is None or not partitions <= state.partitions or not group.has_given(topic.topic_id, partitions):
            return False
    return True


def _update_target(draft: ShareDraft, context: ShareContext) -> None:
    """Compute the target of the group's epoch if it is due."""
    group = draft.existing
    if not group.is_target_due(context.now.wall_ms, context.terms.assignment_interval_ms):
        return
    draft.require_writable()
    members = [
        AssignedMember(member.member_id, _topics_of(member, context.topics), group.target_of(member.member_id))
        for member in group.members.values()
    ]
    partitions = {one: sorted(numbers) for one, numbers in _assignable(group, context.topics).items()}
    for member_id, target in targets_of(context.subscription, members, partitions).items():
        if group.targets.get(member_id) != target:
            _write_target(draft, member_id, target)
    draft.write(
        records.TargetEpochKey(group=group.group_id),
        records.TargetEpochValue(epoch=group.epoch, timestamp_ms=context.now.wall_ms),
    )


def _topics_of(member: ShareMember, topics: Topics) -> frozenset[UUID]:
    found = (readable_topic(topics, name) for name in member.topic_names)
    return frozenset(topic.topic_id for topic in found if topic is not None)


def _write_target(draft: ShareDraft, member_id: str, target: Target) -> None:
    draft.write(
        records.TargetKey(group=draft.group_id, member_id=member_id),
        records.TargetValue(topic_partitions=parts_of(target)),
    )


def _leave(draft: ShareDraft, asked: ShareGroupHeartbeatRequest, context: ShareContext) -> ShareGroupHeartbeatResponse:
    if asked.member_id not in draft.existing.members:
        raise _unknown(draft.group_id, asked.member_id)
    _remove(draft, asked.member_id, context)
    return ShareGroupHeartbeatResponse(member_id=asked.member_id, member_epoch=LEAVE_EPOCH)


def _remove(draft: ShareDraft, member_id: str, context: ShareContext) -> None:
    """Remove a member and raise the group's epoch."""
    for key in (records.CurrentKey, records.TargetKey, records.MemberKey):
        draft.write(key(group=draft.group_id, member_id=member_id), None)
    bump_if_needed(draft, context, must=True)
    group = draft.existing
    if not group.members:
        # The next member need not wait for the assignment interval; in Kafka, too, the target is at the group's epoch then.
        draft.write(
            records.TargetEpochKey(group=group.group_id),
            records.TargetEpochValue(epoch=group.epoch, timestamp_ms=AT_ONCE_MS),
        )


def _response(member: ShareMember, context: ShareContext, *, is_sent: bool) -> ShareGroupHeartbeatResponse:
    assignment = None
    if is_sent:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=part.topic_id, partitions=part.partitions)
                for part in parts_of(member.assigned)
            ]
        )
    return ShareGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=context.terms.heartbeat_interval_ms,
        assignment=assignment,
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _unknown(group_id: str, member_id: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")
