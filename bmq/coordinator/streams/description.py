"""A streams group as StreamsGroupDescribe shows it (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bmq.coordinator.streams.assignor import NAME as ASSIGNOR
from bmq.coordinator.streams.configuration import ConfiguredSubtopology, ConfiguredTopology, InternalTopic
from bmq.coordinator.streams.member import StreamsMember
from bmq.coordinator.streams.streams_group import StreamsGroup
from bmq.coordinator.streams.tasks import TaskId, Tasks, partitions_of
from bmq.protocol.messages.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)


def described(group: StreamsGroup, configured: ConfiguredTopology | None) -> DescribedGroup:
    """`configured`: its topology on the existing topics; None: it has none."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=None if configured is None else _topology(configured),
        assignor_name=ASSIGNOR,
        members=[_member(member, group.target_of(member.member_id)) for member in group.members.values()],
    )


def _topology(configured: ConfiguredTopology) -> Topology:
    subtopologies = configured.subtopologies
    return Topology(
        epoch=configured.epoch,
        subtopologies=None if subtopologies is None else [_subtopology(one) for one in subtopologies.values()],
    )


def _subtopology(configured: ConfiguredSubtopology) -> Subtopology:
    subtopology = configured.subtopology
    return Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=_topics(configured.changelogs),
        repartition_source_topics=_topics(configured.repartition_sources),
    )


def _topics(topics: Sequence[InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.info.name,
            partitions=topic.partition_count,
            replication_factor=topic.info.replication_factor,
            topic_configs=[KeyValue(key=one.key, value=one.value) for one in topic.info.topic_configs],
        )
        for topic in sorted(topics, key=lambda one: one.info.name)
    ]


def _member(member: StreamsMember, target: Tasks) -> Member:
    endpoint = member.user_endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags],
        assignment=_assignment(member.tasks.without_epochs),
        target_assignment=_assignment(target),
    )


def _assignment(tasks: Tasks) -> Assignment:
    return Assignment(
        active_tasks=_parts(tasks.active), standby_tasks=_parts(tasks.standby), warmup_tasks=_parts(tasks.warmup)
    )


def _parts(tasks: Iterable[TaskId]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology, partitions=partitions)
        for subtopology, partitions in partitions_of(tasks).items()
    ]
