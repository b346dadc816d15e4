"""A streams application's topology, checked and converted to its record. Decisions only (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bmq.coordinator.topics import OFFSETS_TOPIC
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages import streams_group_heartbeat_request as heartbeat_request
from bmq.protocol.streams_group_records import CopartitionGroup, KeyValue, Subtopology, TopicInfo, TopologyValue
from bmq.protocol.topic_names import InvalidTopicName, validate_name

_INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})


def topology_of(asked: heartbeat_request.Topology) -> TopologyValue:
    """The record of a member's topology, sorted so that it does not depend on the request's order.

    Raises KafkaError INVALID_REQUEST (regular expressions), STREAMS_INVALID_TOPOLOGY.
    """
    topology = TopologyValue(
        epoch=asked.epoch,
        subtopologies=tuple(sorted(map(_subtopology, asked.subtopologies), key=lambda one: one.subtopology_id)),
    )
    _check(topology)
    return topology


def source_topics(subtopology: Subtopology) -> Iterator[str]:
    """All topics that it reads from, including repartition topics."""
    yield from subtopology.source_topics
    yield from (topic.name for topic in subtopology.repartition_source_topics)


def required_topics(topology: TopologyValue) -> frozenset[str]:
    """All topics that it needs."""
    return frozenset(
        name
        for subtopology in topology.subtopologies
        for name in (*source_topics(subtopology), *(topic.name for topic in subtopology.state_changelog_topics))
    )


def _check(topology: TopologyValue) -> None:
    ids = [subtopology.subtopology_id for subtopology in topology.subtopologies]
    if len(set(ids)) < len(ids):
        raise _invalid("Two subtopologies have the same id.")
    for subtopology in topology.subtopologies:
        if subtopology.source_topic_regex or any(group.source_topic_regex for group in subtopology.copartition_groups):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Regular expressions for source topics are not supported yet.")
        if not (subtopology.source_topics or subtopology.repartition_source_topics):
            raise _invalid(f"Subtopology {subtopology.subtopology_id} does not contain any source topics.")
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise _invalid(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )
        for topic in subtopology.repartition_source_topics:
            if topic.partitions < 0:
                raise _invalid(f"Repartition topic {topic.name} has {topic.partitions} partitions.")
        _check_names(subtopology)
        for group in subtopology.copartition_groups:
            _check_places(group.source_topics, len(subtopology.source_topics))
            _check_places(group.repartition_source_topics, len(subtopology.repartition_source_topics))


def _check_names(subtopology: Subtopology) -> None:
    made = (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
    for name in (*subtopology.source_topics, *subtopology.repartition_sink_topics, *(topic.name for topic in made)):
        try:
            validate_name(name)
        except InvalidTopicName as error:
            raise _invalid(str(error)) from error
        if name in _INTERNAL_TOPICS:
            raise _invalid(f"Use of Kafka internal topic {name} in a Kafka Streams topology is prohibited.")


def _check_places(places: Iterable[int], count: int) -> None:
    if any(not 0 <= place < count for place in places):
        raise _invalid("A copartition group names a topic that its subtopology does not have.")


def _subtopology(asked: heartbeat_request.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=asked.subtopology_id,
        source_topics=tuple(asked.source_topics),
        source_topic_regex=tuple(asked.source_topic_regex),
        state_changelog_topics=tuple(map(_topic, asked.state_changelog_topics)),
        repartition_sink_topics=tuple(asked.repartition_sink_topics),
        repartition_source_topics=tuple(map(_topic, asked.repartition_source_topics)),
        copartition_groups=tuple(
            CopartitionGroup(
                source_topics=tuple(group.source_topics),
                source_topic_regex=tuple(group.source_topic_regex),
                repartition_source_topics=tuple(group.repartition_source_topics),
            )
            for group in asked.copartition_groups
        ),
    )


def _topic(asked: heartbeat_request.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=asked.name,
        partitions=asked.partitions,
        replication_factor=asked.replication_factor,
        topic_configs=tuple(KeyValue(key=one.key, value=one.value) for one in asked.topic_configs),
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
