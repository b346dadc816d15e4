"""Subscriptions of share groups, as Pulsar has them: which members get partitions, and who may join. Decisions only.

shared      all members share the partitions (KIP-932)
failover    the oldest member that is subscribed to a topic has all partitions of it; the others stand by
key_shared  as shared; the shards of the state give the records of each key in order, to one member at a time
exclusive   one member: a second one is refused. Members that were there when the group became exclusive stay, as in failover

The members of a group are in the order in which they joined; its records, and snapshots of them, keep it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from bmq.coordinator.share_membership.assignor import AssignedMember, Target, assign
from bmq.coordinator.subscription_type import SubscriptionType
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

_HASH_MARKS: Final = {
    SubscriptionType.EXCLUSIVE: 0x2545F4914F6CDD1D,
    SubscriptionType.FAILOVER: 0x1B873593CC9E2D51,
    SubscriptionType.KEY_SHARED: 0x369DEA0F31A53F85,
}


def marked_hash(metadata_hash: int, subscription: SubscriptionType) -> int:
    """The hash of the subscribed topics as the group's record has it: another type is a change, too, and raises the
    group's epoch."""
    return metadata_hash ^ _HASH_MARKS.get(subscription, 0)


def targets_of(
    subscription: SubscriptionType, members: Sequence[AssignedMember], partitions: Mapping[UUID, Sequence[int]]
) -> Mapping[str, Target]:
    """Each member's partitions by its id; all members are in it, the oldest is first. See `assign`."""
    if not subscription.is_single_active:
        return assign(members, partitions)
    targets: dict[str, dict[UUID, frozenset[int]]] = {member.member_id: {} for member in members}
    for topic_id, numbers in partitions.items():
        oldest = next((member for member in members if topic_id in member.topics), None)
        if oldest is not None and numbers:
            targets[oldest.member_id][topic_id] = frozenset(numbers)
    return targets


def require_admission(subscription: SubscriptionType, group_id: str, members: Collection[str], member_id: str) -> None:
    """Raises KafkaError GROUP_MAX_SIZE_REACHED. `members`: ids of those that are there, the oldest first."""
    if subscription is SubscriptionType.EXCLUSIVE and members and member_id not in members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"Share group {group_id} is exclusive, and member {next(iter(members))} has it.",
        )
