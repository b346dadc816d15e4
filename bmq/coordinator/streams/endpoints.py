"""The endpoint that answers interactive queries for each partition. Decisions only (KIP-535, KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable

from bmq.coordinator.streams.configuration import ConfiguredTopology
from bmq.coordinator.streams.streams_group import StreamsGroup
from bmq.coordinator.streams.tasks import TaskId, partitions_of
from bmq.coordinator.streams.topology import source_topics
from bmq.coordinator.topics import Topics
from bmq.protocol.messages.streams_group_heartbeat_response import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(
    group: StreamsGroup, configured: ConfiguredTopology, topics: Topics
) -> list[EndpointToPartitions]:
    """One entry for each member that has an endpoint."""
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(host=member.user_endpoint.host, port=member.user_endpoint.port),
            active_partitions=_partitions(member.tasks.active, configured, topics),
            standby_partitions=_partitions(member.tasks.standby, configured, topics),
        )
        for member in group.members.values()
        if member.user_endpoint is not None
    ]


def _partitions(tasks: Iterable[TaskId], configured: ConfiguredTopology, topics: Topics) -> list[TopicPartition]:
    """Partitions of the topics that these tasks read; a topic may have fewer than its subtopology has tasks."""
    found = []
    for name, partitions in partitions_of(tasks).items():
        subtopology = (configured.subtopologies or {}).get(name)
        if subtopology is None:
            continue
        for topic_name in source_topics(subtopology.subtopology):
            topic = topics.topics.get(topic_name)
            count = 0 if topic is None else len(topic.partitions)
            found.append(TopicPartition(topic=topic_name, partitions=[one for one in partitions if one < count]))
    return found
