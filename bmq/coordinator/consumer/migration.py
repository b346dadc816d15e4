"""A group changes its protocol while members are in it: classic to consumer, and back. Decisions only (KIP-848).

Upgrade: when a member of the new protocol joins a classic group of consumers. Downgrade: when the last member of the
new protocol is gone. An empty group may change whatever the policy says; committed offsets stay in either case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from typing import Final, NamedTuple
from uuid import UUID

from bmq.coordinator.classic.group import Group
from bmq.coordinator.classic.member import Member
from bmq.coordinator.classic.roster import Roster
from bmq.coordinator.classic.subscription import CONSUMER_PROTOCOL_TYPE
from bmq.coordinator.config import ConsumerConfig
from bmq.coordinator.consumer import consumer_protocol
from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.consumer.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
from bmq.coordinator.consumer.draft import FIRST_EPOCH, Draft
from bmq.coordinator.consumer.epochs import GroupContext
from bmq.coordinator.consumer.member import ClassicTerms, ConsumerMember, MemberState
from bmq.coordinator.consumer.partition_sets import Target, target_parts
from bmq.coordinator.modern.member_timers import TimerKind
from bmq.coordinator.runtime.moment import NEVER_MS
from bmq.coordinator.topics import Topics
from bmq.protocol import consumer_group_records as records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, MalformedMessage
from bmq.protocol.group_records import GroupMetadataValue

UPGRADE: Final = "upgrade"
DOWNGRADE: Final = "downgrade"
BIDIRECTIONAL: Final = "bidirectional"
DISABLED: Final = "disabled"
POLICIES: Final = (BIDIRECTIONAL, UPGRADE, DOWNGRADE, DISABLED)


class _Upgraded(NamedTuple):
    """A classic member in a consumer group, its assignment, and what it owned when it joined, by its own word.

    `owned_generation`: the generation that gave it these partitions; -1: its client does not tell.
    """

    member: ConsumerMember
    target: Target
    owned: Target
    owned_generation: int


def allows_upgrade(config: ConsumerConfig) -> bool:
    return config.migration_policy in (BIDIRECTIONAL, UPGRADE)


def allows_downgrade(config: ConsumerConfig) -> bool:
    return config.migration_policy in (BIDIRECTIONAL, DOWNGRADE)


def upgrade(draft: Draft, classic: Group, context: GroupContext) -> None:
    """Turn the classic group into a consumer group of the same members, which keep their assignments.

    Raises KafkaError GROUP_ID_NOT_FOUND when an upgrade is not allowed.
    """
    if not allows_upgrade(context.config):
        raise _refused(classic, "upgrading is disabled")
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _refused(classic, "it is no group of consumers")
    if len(classic.members) > context.config.max_size:
        raise _refused(classic, "it has more members than a consumer group may have")
    group = ConsumerGroup(draft.group_id)
    generation = max(classic.generation, FIRST_EPOCH)  # 0 until the first join is complete
    try:
        read = [_upgraded(member, classic, generation, context.topics) for member in classic.members]
    except MalformedMessage as error:
        raise _refused(classic, f"its members' data is malformed: {error}") from error
    members = _with_pending(read, classic)
    for member, target in members:
        group.apply(records.MemberKey(group=group.group_id, member_id=member.member_id), member.metadata_value())
        group.apply(
            records.TargetKey(group=group.group_id, member_id=member.member_id),
            records.TargetValue(topic_partitions=target_parts(target)),
        )
        group.apply(records.CurrentKey(group=group.group_id, member_id=member.member_id), member.current_value())
    # No hash: the topics that the leader assigned from are unknown, so `advance` compares with the present ones.
    group.apply(records.EpochKey(group=group.group_id), records.EpochValue(epoch=generation))
    group.apply(records.TargetEpochKey(group=group.group_id), records.TargetEpochValue(epoch=generation))
    draft.become(group)
    for one in classic.members:
        draft.start(TimerKind.SESSION, one.member_id, max(one.session_timeout_ms, _left_ms(one, context.now.loop_ms)))


def _left_ms(member: Member, loop_ms: float) -> int:
    """The time that a member's session has left; 0 for a member that has no session yet.

    Soon after a failover this is more than a whole session, because the former owner may have renewed it (rule 34).
    """
    return 0 if member.is_new or member.deadline_ms == NEVER_MS else ceil(member.deadline_ms - loop_ms)


def _upgraded(member: Member, classic: Group, generation: int, topics: Topics) -> _Upgraded:
    """Raises MalformedMessage."""
    # A group whose members are still joining has no protocol yet; all of a member's protocols name the same topics.
    subscription = decode_subscription(member.metadata(classic.protocol_name) or member.protocols[0][1])
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        # A client-side assignor keeps state in its user data; a server-side assignor would lose it.
        raise MalformedMessage("an assignment with user data")
    target = consumer_protocol.by_id(assignment.assigned, topics)
    upgraded = ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicTerms(member.session_timeout_ms, member.protocols),
        epoch=generation,
        previous_epoch=generation,
        assigned={topic_id: dict.fromkeys(partitions, generation) for topic_id, partitions in target.items()},
    )
    return _Upgraded(upgraded, target, consumer_protocol.by_id(subscription.owned, topics), subscription.generation)


def _with_pending(read: Sequence[_Upgraded], classic: Group) -> list[tuple[ConsumerMember, Target]]:
    """Each member, with what it may still own of its last assignment, and its target.

    A cooperative member keeps its partitions while it joins, and revokes those that its new assignment lacks only when
    it has received that. Until it joins again nobody else may be given them (rule 33). Raises KafkaError
    GROUP_ID_NOT_FOUND when two members have the same partition: only one could be its holder.
    """
    taken: set[tuple[UUID, int]] = set()
    for one in read:
        assigned = set(_places(one.target))
        if not taken.isdisjoint(assigned):
            raise _refused(classic, "two of its members are assigned the same partition")
        taken |= assigned
    pending: dict[str, dict[UUID, dict[int, int]]] = {}
    for one in sorted(read, key=lambda one: -one.owned_generation):  # of two claims the newer counts
        claimed = set(_places(one.owned)) - taken
        taken |= claimed
        for topic_id, partition in claimed:
            mine = pending.setdefault(one.member.member_id, {})
            mine.setdefault(topic_id, {})[partition] = one.member.epoch
    return [
        (replace(one.member, state=MemberState.UNREVOKED, pending=owned) if owned else one.member, one.target)
        for one in read
        for owned in (pending.get(one.member.member_id),)
    ]


def _places(target: Target) -> Iterator[tuple[UUID, int]]:
    return ((topic_id, partition) for topic_id, partitions in target.items() for partition in partitions)


def downgraded(
    group: ConsumerGroup, rest: Sequence[ConsumerMember], context: GroupContext
) -> GroupMetadataValue | None:
    """The classic group of the remaining members; None when the group stays a consumer group.

    Each member is assigned what it has or still has to revoke, not its target as in Apache Kafka: it may not have heard of
    the target yet, and the group may be upgraded again before the member rejoins.
    """
    if not rest or any(member.classic is None for member in rest):
        return None
    if not allows_downgrade(context.config) or len(rest) > context.classic_size_max:
        return None
    roster = Roster()
    try:
        for member in rest:
            roster.add(_downgraded(member, context.topics))
    except MalformedMessage:
        return None
    protocol = roster.select_protocol()
    if protocol is None:
        return None
    return GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.epoch,
        protocol=protocol,
        leader=roster.leader_id,
        current_state_timestamp_ms=context.now.wall_ms,
        members=tuple(member.record(protocol, member.assignment) for member in roster),
    )


def _downgraded(member: ConsumerMember, topics: Topics) -> Member:
    """Raises MalformedMessage."""
    terms = member.classic
    assert terms is not None
    version = consumer_protocol.version_of(terms.protocols[0][1] if terms.protocols else b"")
    classic = Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        terms.session_timeout_ms,
        CONSUMER_PROTOCOL_TYPE,
        terms.protocols,
    )
    classic.assignment = encode_assignment(member.held, topics, version)
    return classic


def _refused(classic: Group, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {classic.group_id} is a classic group and cannot be upgraded: {why}."
    )
