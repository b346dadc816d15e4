"""Members leave a streams group or are removed; the delay of a group that was empty ends. Decisions only."""

from __future__ import annotations

from bmq.coordinator.modern.member_timers import Due, TimerKind
from bmq.coordinator.modern.modern_group import AT_ONCE_MS
from bmq.coordinator.streams.draft import StreamsDraft
from bmq.coordinator.streams.epochs import StreamsGroupContext, bump_if_needed, update_target
from bmq.coordinator.streams.member import MemberState
from bmq.protocol import streams_group_records as records


def remove_member(draft: StreamsDraft, member_id: str) -> None:
    """Remove a member and raise the group's epoch."""
    write_removal(draft, member_id)
    group = draft.existing
    draft.write(records.EpochKey(group=group.group_id), group.epoch_record(group.epoch + 1))
    if not draft.existing.members:
        # The next member need not wait for the assignment interval. The epoch stays that of the last target, as in Kafka.
        draft.write(
            records.TargetEpochKey(group=group.group_id),
            records.TargetEpochValue(epoch=group.target_epoch, timestamp_ms=AT_ONCE_MS),
        )


def write_removal(draft: StreamsDraft, member_id: str) -> None:
    """Write the tombstones of a member."""
    for key in (records.CurrentKey, records.TargetKey, records.MemberKey):
        draft.write(key(group=draft.group_id, member_id=member_id), None)


def expire(draft: StreamsDraft, due: Due, context: StreamsGroupContext) -> bool:
    """A deadline has passed; returns whether a member was removed for it."""
    if due.kind is TimerKind.DELAY:
        _end_delay(draft, context)
        return False
    group = draft.group
    member = None if group is None else group.members.get(due.member_id)
    if member is None:
        return False
    if due.kind is TimerKind.REBALANCE and (member.epoch != due.epoch or member.state is not MemberState.UNREVOKED):
        return False
    remove_member(draft, due.member_id)
    return True


def _end_delay(draft: StreamsDraft, context: StreamsGroupContext) -> None:
    """Compute the first target, for all members that have joined during the delay."""
    group = draft.group
    if group is None or not group.members or group.topology is None or group.epoch <= group.target_epoch:
        return
    configured = context.configure(group.topology, context.topics)
    bump_if_needed(draft, configured, context, must=False)  # the target is of the topics as they are now
    update_target(draft, configured, context)
