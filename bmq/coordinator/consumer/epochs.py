"""What every heartbeat and join does to a consumer group: a new epoch, a new target, one step of the member.

The group's epoch rises when a subscription or the topics change. The target is recomputed when it is older than that
epoch, but at most once per assignment interval. Then the member takes one step towards its target (reconciliation.py).
Decisions only (KIP-848).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from bmq.coordinator.config import ConsumerConfig, GroupTerms
from bmq.coordinator.consumer.assignors import ASSIGNORS, AssignedMember, GroupToAssign
from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.consumer.draft import Draft
from bmq.coordinator.consumer.member import ConsumerMember, MemberState
from bmq.coordinator.consumer.partition_sets import Target, target_parts
from bmq.coordinator.consumer.patterns import compiled
from bmq.coordinator.consumer.reconciliation import TargetAssignment, reconciled
from bmq.coordinator.modern.member_timers import TimerKind
from bmq.coordinator.modern.subscribed_topics import NO_HASH, metadata_hash, partition_counts, topic_ids
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.topics import Topics
from bmq.protocol import consumer_group_records as records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


class GroupContext(NamedTuple):
    """Everything a decision depends on besides the group.

    `is_stale`: topics have changed since the group last looked. `classic_size_max`: largest classic group.
    """

    topics: Topics
    config: ConsumerConfig
    terms: GroupTerms
    now: Moment
    is_stale: bool
    classic_size_max: int


def advance(
    draft: Draft, before: ConsumerMember | None, after: ConsumerMember, owned: Target | None, context: GroupContext
) -> ConsumerMember:
    """Apply a member's request (`before`: the member until now, None if new) and return it after its step.

    Raises KafkaError INVALID_REGULAR_EXPRESSION, FENCED_MEMBER_EPOCH, UNKNOWN_SERVER_ERROR (the assignor failed).
    """
    preferred = draft.existing.preferred_assignor(_assignors(context.config))
    subscribes_anew = (before is None or not after.has_same_metadata(before)) and _write_metadata(draft, before, after)
    group = draft.existing
    subscribes_anew |= group.preferred_assignor(_assignors(context.config)) != preferred
    if subscribes_anew or before is None or context.is_stale or group.metadata_hash == NO_HASH:
        bump_if_needed(draft, context, must=subscribes_anew)
    update_target(draft, context)
    return _step(draft, after.member_id, owned, context.topics)


def bump_if_needed(draft: Draft, context: GroupContext, *, must: bool) -> None:
    """Raise the group's epoch if `must`, or if subscribed topics have changed."""
    group = draft.existing
    current_hash = metadata_hash(group.subscribed_names, context.topics)
    draft.is_refreshed = True
    if must or current_hash != group.metadata_hash:
        draft.write(
            records.EpochKey(group=group.group_id),
            records.EpochValue(epoch=group.epoch + 1, metadata_hash=current_hash),
        )


def update_target(draft: Draft, context: GroupContext) -> None:
    """Compute the target of the group's epoch if it is due. Raises KafkaError UNKNOWN_SERVER_ERROR."""
    group = draft.existing
    if not group.is_target_due(context.now.wall_ms, context.terms.assignment_interval_ms):
        return
    draft.require_writable()
    name = group.preferred_assignor(_assignors(context.config))
    try:
        targets = ASSIGNORS[name](_to_assign(group, context.topics))
    except Exception as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Failed to compute a new target assignment for epoch {group.epoch}: {error!r}",
        ) from error
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            draft.write(
                records.TargetKey(group=group.group_id, member_id=member_id),
                records.TargetValue(topic_partitions=target_parts(target)),
            )
    draft.write(
        records.TargetEpochKey(group=group.group_id),
        records.TargetEpochValue(epoch=group.epoch, timestamp_ms=context.now.wall_ms),
    )


def write_current(draft: Draft, member: ConsumerMember) -> None:
    draft.write(records.CurrentKey(group=draft.group_id, member_id=member.member_id), member.current_value())


def write_metadata(draft: Draft, member: ConsumerMember) -> None:
    draft.write(records.MemberKey(group=draft.group_id, member_id=member.member_id), member.metadata_value())


def forget_unused_regexes(draft: Draft) -> None:
    """Delete the resolved matches of expressions that no member is subscribed with."""
    group = draft.existing
    for regex in group.regexes.keys() - group.subscribed_regexes:
        draft.write(records.RegexKey(group=group.group_id, regex=regex), None)


def _write_metadata(draft: Draft, before: ConsumerMember | None, after: ConsumerMember) -> bool:
    """Write the member's metadata; returns whether that requires a new target."""
    group = draft.existing
    old_regex = "" if before is None else before.topic_regex
    regex = after.topic_regex
    if regex and regex not in group.subscribed_regexes:
        compiled(regex)
    write_metadata(draft, after)
    subscribes_anew = after.topic_names != (frozenset() if before is None else before.topic_names)
    if regex != old_regex:
        # An unresolved expression matches nothing yet: the group's epoch rises once it is resolved.
        subscribes_anew |= not regex or regex in group.regexes
        forget_unused_regexes(draft)
    return subscribes_anew


def _step(draft: Draft, member_id: str, owned: Target | None, topics: Topics) -> ConsumerMember:
    group = draft.existing
    member = group.members[member_id]

    def is_subscribed(topic_id: UUID) -> bool:
        topic = topics.topics_by_id.get(topic_id)
        return topic is not None and group.is_member_subscribed_to(member, topic.name)

    def is_held(topic_id: UUID, partition: int) -> bool:
        return group.holder(topic_id, partition) not in (None, member_id)

    wanted = TargetAssignment(group.target_epoch, group.target_of(member_id), is_subscribed, is_held)
    moved = reconciled(member, wanted, owned)
    if moved is member:
        return member
    write_current(draft, moved)
    if moved.classic is None:  # a classic member has JOIN and SYNC timers instead
        if moved.state is MemberState.UNREVOKED:
            draft.start(TimerKind.REBALANCE, member_id, max(moved.rebalance_timeout_ms, 0), moved.epoch)
        else:
            draft.stop(TimerKind.REBALANCE, member_id)
    return moved


def _to_assign(group: ConsumerGroup, topics: Topics) -> GroupToAssign:
    known: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}
    members = []
    for member in group.members.values():
        subscription = member.topic_names, member.topic_regex
        if subscription not in known:
            known[subscription] = topic_ids(group.names_of(member), topics)
        members.append(
            AssignedMember(member.member_id, member.instance_id, known[subscription], group.target_of(member.member_id))
        )
    return GroupToAssign(members, partition_counts(group.subscribed_names, topics), group.is_homogeneous)


def _assignors(config: ConsumerConfig) -> Sequence[str]:
    return config.assignors or tuple(ASSIGNORS)
