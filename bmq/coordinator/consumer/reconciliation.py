"""How a member moves from its partitions to its target, heartbeat by heartbeat. Decisions only (KIP-848).

A partition is never assigned while another member has it or has not confirmed its revocation. A member that has to
revoke partitions stays at its epoch (UNREVOKED) until it confirms; then it advances to the target's epoch with all
partitions that are free (STABLE), and gets the rest once others have released it (UNRELEASED).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from bmq.coordinator.consumer.member import ConsumerMember, MemberState
from bmq.coordinator.consumer.partition_sets import Owned, Target, overlap
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


class TargetAssignment(NamedTuple):
    """What a member has to reach. `is_subscribed`: to an existing topic; the target may be older than the subscription.

    `is_held`: whether another member has (topic, partition) or still has to revoke it.
    """

    epoch: int
    target: Target
    is_subscribed: Callable[[UUID], bool]
    is_held: Callable[[UUID, int], bool]


def reconciled(member: ConsumerMember, wanted: TargetAssignment, owned: Target | None) -> ConsumerMember:
    """The member after a heartbeat that names `owned` partitions; None: it names none.

    Raises KafkaError FENCED_MEMBER_EPOCH for a state that a later server wrote: the member has to rejoin.
    """
    match member.state:
        case MemberState.STABLE if member.epoch == wanted.epoch:
            return _without_unsubscribed(member, wanted, owned)
        case MemberState.UNREVOKED if _has_any(owned, member.pending):
            return _without_unsubscribed(member, wanted, owned)
        case MemberState.UNKNOWN if owned is None or owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
            )
        case _:
            return _next(member, wanted, owned)


def _next(member: ConsumerMember, wanted: TargetAssignment, owned: Target | None) -> ConsumerMember:
    keep: dict[UUID, dict[int, int]] = {}
    revoke: dict[UUID, dict[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        target = wanted.target.get(topic_id, frozenset()) if wanted.is_subscribed(topic_id) else frozenset()
        for partition, epoch in epochs.items():
            (keep if partition in target else revoke).setdefault(topic_id, {})[partition] = epoch
    if revoke and _has_any(owned, revoke):
        # It may still be processing these, so it stays at its epoch and may go on committing their offsets.
        return _moved(member, member.epoch, MemberState.UNREVOKED, keep, revoke)
    is_waiting = False
    for topic_id, partitions in wanted.target.items():
        if not wanted.is_subscribed(topic_id):
            continue
        kept = keep.get(topic_id, {})
        for partition in partitions - kept.keys():
            if wanted.is_held(topic_id, partition):
                is_waiting = True
            else:
                keep.setdefault(topic_id, {})[partition] = wanted.epoch
    return _moved(member, wanted.epoch, MemberState.UNRELEASED if is_waiting else MemberState.STABLE, keep, {})


def _without_unsubscribed(member: ConsumerMember, wanted: TargetAssignment, owned: Target | None) -> ConsumerMember:
    """Revoke only the topics the member no longer subscribes to; it is at the target's epoch, or still revoking."""
    gone = {topic_id for topic_id in member.assigned if not wanted.is_subscribed(topic_id)}
    if not gone:
        return member
    keep = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in gone}
    pending = {topic_id: dict(epochs) for topic_id, epochs in member.pending.items()}
    for topic_id in gone:
        pending.setdefault(topic_id, {}).update(member.assigned[topic_id])
    if _has_any(owned, pending):
        return _moved(member, member.epoch, MemberState.UNREVOKED, keep, pending)
    return _moved(member, member.epoch, member.state, keep, {})


def _has_any(owned: Target | None, partitions: Owned) -> bool:
    """Whether the member has, or may have, any of these."""
    return owned is None or overlap(owned, partitions)


def _moved(member: ConsumerMember, epoch: int, state: MemberState, assigned: Owned, pending: Owned) -> ConsumerMember:
    if (epoch, state, assigned, pending) == (member.epoch, member.state, member.assigned, member.pending):
        return member  # it waits: nothing to write
    return replace(member, epoch=epoch, previous_epoch=member.epoch, state=state, assigned=assigned, pending=pending)
