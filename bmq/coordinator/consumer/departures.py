"""Members leave a consumer group or are removed from it. Decisions only (KIP-848)."""

from __future__ import annotations

from collections.abc import Collection

from bmq.coordinator.consumer.draft import Draft
from bmq.coordinator.consumer.epochs import GroupContext, bump_if_needed, forget_unused_regexes
from bmq.coordinator.consumer.member import MemberState
from bmq.coordinator.consumer.migration import downgraded
from bmq.coordinator.modern.member_timers import Due, TimerKind
from bmq.coordinator.modern.modern_group import AT_ONCE_MS
from bmq.protocol import consumer_group_records as records


def remove_members(draft: Draft, member_ids: Collection[str], context: GroupContext) -> None:
    """Remove members and raise the group's epoch; if only classic members are left, the group becomes a classic one."""
    group = draft.existing
    leaving = frozenset(member_ids)
    rest = [member for member in group.members.values() if member.member_id not in leaving]
    has_lost_new_protocol = any(group.members[member_id].classic is None for member_id in member_ids)
    classic = downgraded(group, rest, context) if has_lost_new_protocol else None
    if classic is not None and draft.become_classic(classic, rebalances=True):
        return
    for member_id in member_ids:
        write_removal(draft, member_id)
    forget_unused_regexes(draft)
    bump_if_needed(draft, context, must=True)
    group = draft.existing
    if not group.members:
        # The next member need not wait for the assignment interval. The epoch stays that of the last target, as in Kafka.
        draft.write(
            records.TargetEpochKey(group=group.group_id),
            records.TargetEpochValue(epoch=group.target_epoch, timestamp_ms=AT_ONCE_MS),
        )


def write_removal(draft: Draft, member_id: str) -> None:
    """Write the tombstones of a member."""
    for key in (records.CurrentKey, records.TargetKey, records.MemberKey):
        draft.write(key(group=draft.group_id, member_id=member_id), None)


def expire(draft: Draft, due: Due, context: GroupContext) -> bool:
    """A member missed a deadline; returns whether it was removed."""
    group = draft.group
    member = None if group is None else group.members.get(due.member_id)
    if member is None:
        return False
    if due.kind is TimerKind.REBALANCE:
        is_revoking = member.epoch == due.epoch and member.state is MemberState.UNREVOKED
        if not is_revoking or member.classic is not None:  # a classic member has other timers
            return False
    remove_members(draft, (due.member_id,), context)
    return True
