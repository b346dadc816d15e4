"""A topology applied to the existing topics: its number of tasks, the topics to create, and what prevents it from
running.

A repartition topic gets as many partitions as the largest source of the subtopology that writes to it, unless the
topology sets a number. Copartitioned topics must have the same number, to which repartition topics adapt. A changelog
has one partition per task. Decisions only. Source: KIP-1071; InternalTopicManager of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from bmq.coordinator.topics import Topics
from bmq.dataclass import dataclass
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from bmq.protocol.streams_group_records import Subtopology, TopicInfo, TopologyValue

_DEFAULT: Final = -1
_NAMED_MAX: Final = 10
"""Most topics named in one message."""


class StatusCode(IntEnum):
    """A status that a member gets besides its tasks."""

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
    """A topic to be created for the application, with its number of partitions."""

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
    """`repartition_sources` and `changelogs` are in the topology's order."""

    subtopology: Subtopology
    task_count: int
    repartition_sources: Sequence[InternalTopic]
    changelogs: Sequence[InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)


class ConfiguredTopology(NamedTuple):
    """`subtopologies`: by id, None while they cannot be determined. `missing`: topics to be created."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: Sequence[CreatableTopic] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Incorrect(Exception):
    """Topics have the wrong number of partitions."""


def configured(topology: TopologyValue, topics: Topics) -> ConfiguredTopology:
    """Apply `topology` to `topics`. Raises KafkaError STREAMS_INVALID_TOPOLOGY if it can never work."""
    existing = {name: len(topic.partitions) for name, topic in topics.topics.items()}
    sources = {name for subtopology in topology.subtopologies for name in subtopology.source_topics}
    absent = sorted(sources - existing.keys())
    if absent:
        problem = Problem(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_named(absent)} are missing.")
        return ConfiguredTopology(topology.epoch, None, (), problem)
    try:
        counts = _repartition_counts(topology, existing)
        fixed = _fixed_counts(topology)
        for subtopology in topology.subtopologies:
            _copartition(subtopology, existing, fixed, counts)
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


@dataclass(slots=True)
class _Writer:
    """A subtopology that writes to repartition topics without a set number of partitions: `sinks`.

    `unknown`: count of its sources with a still unknown number of partitions; `largest`: most partitions of a known
    source, 0 for none.
    """

    sinks: list[str]
    unknown: int = 0
    largest: int = 0
    is_done: bool = False


def _repartition_counts(topology: TopologyValue, existing: Mapping[str, int]) -> dict[str, int]:
    """Partitions of each repartition topic, as far as its writers determine them."""
    counts = _fixed_counts(topology)
    writers, readers = _undecided(topology, existing, counts)
    partly = [writer for writer in writers if writer.largest]
    whole = [writer for writer in partly if not writer.unknown]
    left = len(writers)
    # A step decides the writers whose sources are all known, else all that know any. Each writer is visited once per
    # source: visiting all writers in each step takes minutes for a chain of thousands, which fits into one request.
    while left:
        deciding = [(writer, writer.largest) for writer in whole or partly if not writer.is_done]
        if not whole:
            partly = []
        if not deciding:
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
        whole = []
        left -= len(deciding)
        for writer, count in deciding:
            writer.is_done = True
            counts |= dict.fromkeys(writer.sinks, count)
        for writer, count in deciding:
            for reader in (reader for name in writer.sinks for reader in readers.get(name, ()) if not reader.is_done):
                if not reader.largest:
                    partly.append(reader)
                reader.largest = max(reader.largest, count)
                reader.unknown -= 1
                if not reader.unknown:
                    whole.append(reader)
    for subtopology in topology.subtopologies:
        if any(topic.name not in counts for topic in subtopology.repartition_source_topics):
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics, because a repartition source topic "
                "is never used as a sink topic."
            )
    return counts


def _fixed_counts(topology: TopologyValue) -> dict[str, int]:
    """Partitions of the repartition topics whose number the topology sets."""
    return {
        topic.name: topic.partitions
        for subtopology in topology.subtopologies
        for topic in subtopology.repartition_source_topics
        if topic.partitions
    }


def _undecided(
    topology: TopologyValue, existing: Mapping[str, int], counts: Mapping[str, int]
) -> tuple[list[_Writer], Mapping[str, Sequence[_Writer]]]:
    """The writers whose sinks are undecided, and the writers that wait for each topic."""
    last_writer = {
        name: place
        for place, subtopology in enumerate(topology.subtopologies)
        for name in subtopology.repartition_sink_topics
        if name not in counts
    }
    sinks: dict[int, list[str]] = {}
    for name, place in last_writer.items():
        sinks.setdefault(place, []).append(name)
    writers: list[_Writer] = []
    readers: dict[str, list[_Writer]] = {}
    for place, names in sinks.items():
        subtopology, writer = topology.subtopologies[place], _Writer(names)
        writer.largest = max((existing[name] for name in subtopology.source_topics), default=0)
        for topic in subtopology.repartition_source_topics:
            if topic.name in counts:
                writer.largest = max(writer.largest, counts[topic.name])
            else:
                writer.unknown += 1
                readers.setdefault(topic.name, []).append(writer)
        writers.append(writer)
    return writers, readers


def _copartition(
    subtopology: Subtopology, existing: Mapping[str, int], fixed: Mapping[str, int], counts: dict[str, int]
) -> None:
    """Give repartition topics the partition count of their copartition group. Raises _Incorrect."""
    for group in subtopology.copartition_groups:
        made = [subtopology.repartition_source_topics[place].name for place in group.repartition_source_topics]
        external = {
            name: existing[name] for name in (subtopology.source_topics[place] for place in group.source_topics)
        }
        if not (made or external):
            continue
        decisive = external or {name: fixed[name] for name in made if name in fixed}
        if len(set(decisive.values())) > 1:
            listed = ", ".join(f"{name}={count}" for name, count in sorted(decisive.items()))
            raise _Incorrect(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
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
        # A table may be restored from the source topic itself instead of a changelog.
        [
            InternalTopic(topic, existing[topic.name] if topic.name in sources else task_count)
            for topic in subtopology.state_changelog_topics
        ],
    )


def _missing(subtopologies: Mapping[str, ConfiguredSubtopology], existing: Mapping[str, int]) -> list[CreatableTopic]:
    """Topics to create, by name. Raises _Incorrect for an existing topic with another number of partitions."""
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
