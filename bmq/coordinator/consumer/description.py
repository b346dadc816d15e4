"""A consumer group as ConsumerGroupDescribe shows it (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.consumer.member import ConsumerMember
from bmq.coordinator.topics import Topics
from bmq.protocol.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def described(group: ConsumerGroup, topics: Topics, assignors: Sequence[str]) -> DescribedGroup:
    """`assignors`: those this server offers, the default first."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(assignors),
        members=[_member(member, group, topics) for member in group.members.values()],
    )


def _member(member: ConsumerMember, group: ConsumerGroup, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex or "",
        assignment=_assignment(member.held.items(), topics),
        target_assignment=_assignment(group.target_of(member.member_id).items(), topics),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(places: Iterable[tuple[UUID, Iterable[int]]], topics: Topics) -> Assignment:
    """Deleted topics have no name and are left out."""
    named = [
        TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions))
        for topic_id, partitions in places
        if (topic := topics.topics_by_id.get(topic_id)) is not None
    ]
    return Assignment(topic_partitions=sorted(named, key=lambda part: part.topic_name))
