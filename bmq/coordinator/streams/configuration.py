"""A topology on the topics there are: how many tasks it makes, which topics are to be made for it, and what is in its way.

Repartition topics get as many partitions as the largest source of the subtopology that writes to them, unless the topology says how
many; topics that are to be copartitioned must have the same number, which repartition topics adapt to; a changelog has a
partition for each task. Decisions only. Source: KIP-1071; InternalTopicManager of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from bmq.coordinator.topics import Topics
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from bmq.protocol.streams_group_records import Subtopology, TopicInfo, TopologyValue

_DEFAULT: Final = -1
_NAMED_MAX: Final = 10
"""Topics named in one message."""


class StatusCode(IntEnum):
    """What a member is told beside its tasks."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Problem(NamedTuple):
    """Why a topology is not ready."""

    status: StatusCode
    detail: str


class InternalTopic(NamedTuple):
    """A topic made for the application, with as many partitions as it is to have."""

    info: TopicInfo
    partition_count: int

    def creatable(self) -> CreatableTopic:
        return CreatableTopic(
            name=self.info.name,
            num_partitions=self.partition_count,
            replication_factor=self.info.replication_factor or _DEFAULT,
            configs=[CreatableTopicConfig(name=one.key, value=one.value) for one in self.info.topic_configs],
        )


class ConfiguredSubtopology(NamedTuple):
    """`repartition_sources` and `changelogs`: in the topology's order."""

    subtopology: Subtopology
    task_count: int
    repartition_sources: Sequence[InternalTopic]
    changelogs: Sequence[InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)


class ConfiguredTopology(NamedTuple):
    """`subtopologies`: by id, None while it cannot be said what they are. `missing`: topics that are to be made."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: Sequence[CreatableTopic] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Incorrect(Exception):
    """Topics do not have the partitions they should have."""


def configured(topology: TopologyValue, topics: Topics) -> ConfiguredTopology:
    """Raises KafkaError STREAMS_INVALID_TOPOLOGY when no topics could make it work."""
    existing = {name: len(topic.partitions) for name, topic in topics.topics.items()}
    sources = {name for subtopology in topology.subtopologies for name in subtopology.source_topics}
    absent = sorted(sources - existing.keys())
    if absent:
        problem = Problem(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_named(absent)} are missing.")
        return ConfiguredTopology(topology.epoch, None, (), problem)
    try:
        counts = _repartition_counts(topology, existing)
        for subtopology in topology.subtopologies:
            _copartition(topology, subtopology, existing, counts)
        subtopologies = {
            subtopology.subtopology_id: _subtopology(subtopology, existing, counts, sources)
            for subtopology in topology.subtopologies
        }
        missing = _missing(subtopologies, existing)
    except _Incorrect as incorrect:
        problem = Problem(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(incorrect))
        return ConfiguredTopology(topology.epoch, None, (), problem)
    if not missing:
        return ConfiguredTopology(topology.epoch, subtopologies)
    detail = f"Internal topics are missing: {_named([topic.name for topic in missing])}"
    return ConfiguredTopology(
        topology.epoch, subtopologies, missing, Problem(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    )


def _repartition_counts(topology: TopologyValue, existing: Mapping[str, int]) -> dict[str, int]:
    """Partitions of each repartition topic, as far as its writers decide."""
    counts = {
        topic.name: topic.partitions
        for subtopology in topology.subtopologies
        for topic in subtopology.repartition_source_topics
        if topic.partitions
    }
    undecided = {
        name: subtopology
        for subtopology in topology.subtopologies
        for name in subtopology.repartition_sink_topics
        if name not in counts
    }
    while undecided:
        found = _decidable(undecided, existing, counts)
        if not found:
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
        counts |= found
        undecided = {name: writer for name, writer in undecided.items() if name not in counts}
    for subtopology in topology.subtopologies:
        if any(topic.name not in counts for topic in subtopology.repartition_source_topics):
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics, because a repartition source topic "
                "is never used as a sink topic."
            )
    return counts


def _decidable(
    undecided: Mapping[str, Subtopology], existing: Mapping[str, int], counts: Mapping[str, int]
) -> dict[str, int]:
    """Counts that follow by now: those whose writers have only known sources, or else any known source."""
    whole, partly = {}, {}
    for name, writer in undecided.items():
        known = [existing[source] for source in writer.source_topics]
        known += (counts[topic.name] for topic in writer.repartition_source_topics if topic.name in counts)
        if known:
            partly[name] = max(known)
            if len(known) == len(writer.source_topics) + len(writer.repartition_source_topics):
                whole[name] = partly[name]
    return whole or partly


def _copartition(
    topology: TopologyValue, subtopology: Subtopology, existing: Mapping[str, int], counts: dict[str, int]
) -> None:
    """Give repartition topics the number of those they go together with. Raises _Incorrect."""
    fixed = {
        topic.name: topic.partitions
        for one in topology.subtopologies
        for topic in one.repartition_source_topics
        if topic.partitions
    }
    for group in subtopology.copartition_groups:
        made = [subtopology.repartition_source_topics[place].name for place in group.repartition_source_topics]
        external = {
            name: existing[name] for name in (subtopology.source_topics[place] for place in group.source_topics)
        }
        if not (made or external):
            continue
        decisive = external or {name: fixed[name] for name in made if name in fixed}
        if len(set(decisive.values())) > 1:
            told = ", ".join(f"{name}={count}" for name, count in sorted(decisive.items()))
            raise _Incorrect(f"Following topics do not have the same number of partitions: [{{{told}}}]")
        count = next(iter(decisive.values())) if decisive else max(counts[name] for name in made)
        for name in made:
            if fixed.get(name, count) != count:
                raise _Incorrect(
                    f"Number of partitions [{fixed[name]}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{count}] of the source topic."
                )
            counts[name] = count


def _subtopology(
    subtopology: Subtopology, existing: Mapping[str, int], counts: Mapping[str, int], sources: set[str]
) -> ConfiguredSubtopology:
    task_count = max(
        (
            *(existing[name] for name in subtopology.source_topics),
            *(counts[topic.name] for topic in subtopology.repartition_source_topics),
        )
    )
    return ConfiguredSubtopology(
        subtopology,
        task_count,
        [InternalTopic(topic, counts[topic.name]) for topic in subtopology.repartition_source_topics],
        # A table may be restored from the very topic that it is read from.
        [
            InternalTopic(topic, existing[topic.name] if topic.name in sources else task_count)
            for topic in subtopology.state_changelog_topics
        ],
    )


def _missing(subtopologies: Mapping[str, ConfiguredSubtopology], existing: Mapping[str, int]) -> list[CreatableTopic]:
    """In order of names. Raises _Incorrect for one that is there and has another number of partitions."""
    wanted = {
        topic.info.name: topic
        for subtopology in subtopologies.values()
        for topic in (*subtopology.repartition_sources, *subtopology.changelogs)
    }
    for name, topic in sorted(wanted.items()):
        if existing.get(name, topic.partition_count) != topic.partition_count:
            raise _Incorrect(
                f"Existing topic {name} has different number of partitions: expected {topic.partition_count}, found "
                f"{existing[name]}"
            )
    return [topic.creatable() for name, topic in sorted(wanted.items()) if name not in existing]


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
