"""A share group as ShareGroupDescribe shows it (KIP-932). Decisions only."""

from __future__ import annotations

from bmq.coordinator.share_membership.assignor import SIMPLE, Target
from bmq.coordinator.share_membership.member import ShareMember
from bmq.coordinator.share_membership.share_group import ShareGroup
from bmq.coordinator.topics import Topics
from bmq.protocol.messages.share_group_describe_response import Assignment, DescribedGroup, Member, TopicPartitions


def described(group: ShareGroup, topics: Topics) -> DescribedGroup:
    """Deleted topics have no name and are left out of assignments."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=SIMPLE,
        members=[_member(member, topics) for member in group.members.values()],
    )


def _member(member: ShareMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=_assignment(member.assigned, topics),
    )


def _assignment(target: Target, topics: Topics) -> Assignment:
    named = [
        TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions))
        for topic_id, partitions in target.items()
        if (topic := topics.topics_by_id.get(topic_id)) is not None
    ]
    return Assignment(topic_partitions=sorted(named, key=lambda part: part.topic_name))
