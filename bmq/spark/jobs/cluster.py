"""Metadata of a Kafka cluster for a job's driver: topics, partitions, offsets. Every failure is one sentence."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType

from bmq.spark.jobs.outcome import BrokenOff, JobFailed
from bmq.spark.jobs.ranges import OffsetRange, between

ANSWER_WAIT_S: Final = 20.0
_LOOK_AGAIN_S: Final = 0.1
_NO_OFFSET: Final = -1
_GROUPS_AT_ONCE: Final = 100

Partition = tuple[str, int]
"""(topic, partition)."""

_FINAL: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError._INVALID_ARG,
    }
)
"""Errors that waiting does not cure. An unknown topic may appear soon, so topics are looked up beforehand."""

_KEPT_CONFIGS: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes", "compression.type")
"""Configs to copy to a new target topic: those about its records. The rest is up to its own cluster."""


@dataclass(frozen=True, slots=True)
class Topic:
    """`topic_id` distinguishes it from a later topic of the same name."""

    name: str
    topic_id: str
    partition_count: int


def kafka_failure(what: str, error: KafkaError) -> JobFailed:
    """Convert a client's error to ours: BrokenOff if it may pass, else JobFailed."""
    kind = JobFailed if error.code() in _FINAL else BrokenOff
    return kind(f"{what}: {error.str() or error.name()}")


@contextmanager
def kafka_errors(what: str) -> Iterator[None]:
    """Prefix the client's errors with what failed."""
    try:
        yield
    except KafkaException as failed:
        raise kafka_failure(what, failed.args[0]) from failed
    except TimeoutError as failed:
        raise BrokenOff(f"{what}: no answer within {ANSWER_WAIT_S:g} s") from failed
    except SystemError as failed:
        # confluent-kafka's flush raises this in a producer that was fenced.
        raise BrokenOff(f"{what}: the client has failed, or was fenced by another") from failed


class Cluster:
    """`config`: librdkafka's, including bootstrap.servers."""

    def __init__(self, config: Mapping[str, str]) -> None:
        # Failures are reported in our own sentences.
        self.config = {"log_level": "2", **config}
        self.address = config["bootstrap.servers"]
        self._cluster_id = ""
        with kafka_errors(f"the client of {self.address} cannot be set up"):
            self._admin = AdminClient(self.config)

    def topic_names(self, *, pattern: str) -> list[str]:
        """All topics whose whole name matches `pattern` (Python's regular expressions), without internal ones."""
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise JobFailed(f"the pattern {pattern!r} is no regular expression: {error}") from error
        with kafka_errors(f"the topics of {self.address} cannot be listed"):
            found = self._admin.list_topics(timeout=ANSWER_WAIT_S).topics
        return sorted(name for name in found if not name.startswith("__") and wanted.fullmatch(name))

    def find_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """The topics of `names` that exist."""
        found: dict[str, Topic] = {}
        wanted = sorted(set(names))
        if not wanted:
            return found
        with kafka_errors(f"the topics of {self.address} cannot be described"):
            answers = self._admin.describe_topics(TopicCollection(wanted), request_timeout=ANSWER_WAIT_S)
        for name, future in answers.items():
            try:
                with kafka_errors(f"topic {name!r} of {self.address} cannot be described"):
                    topic = future.result(ANSWER_WAIT_S)
            except JobFailed as failed:
                if _code_of(failed) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                raise
            found[name] = Topic(name, str(topic.topic_id), len(topic.partitions))
        return found

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """The topics of these names. Raises JobFailed if one does not exist."""
        wanted = list(names)
        found = self.find_topics(wanted)
        if missing := [name for name in wanted if name not in found]:
            raise JobFailed(f"{self.address} has no topic {', '.join(map(repr, missing))}")
        return found

    def make_topic_like(self, name: str, source: Cluster, like: str, partition_count: int) -> None:
        """Create a topic with the record-related configs of a topic of `source`. No error if it already exists."""
        with kafka_errors(f"the configs of topic {like!r} of {source.address} cannot be read"):
            resource = ConfigResource(ResourceType.TOPIC, like)
            entries = source._admin.describe_configs([resource])[resource].result(ANSWER_WAIT_S)
        configs = {key: entries[key].value for key in _KEPT_CONFIGS if key in entries and not entries[key].is_default}
        self.make_topic(name, partition_count, configs)

    def make_topic(self, name: str, partition_count: int, configs: Mapping[str, str]) -> None:
        """Create a topic with the cluster's own replication factor. No error if it already exists."""
        topic = NewTopic(name, num_partitions=partition_count, replication_factor=-1, config=dict(configs))
        try:
            with kafka_errors(f"topic {name!r} cannot be made on {self.address}"):
                self._admin.create_topics([topic])[name].result(ANSWER_WAIT_S)
        except JobFailed as failed:
            if _code_of(failed) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        deadline_s = time.monotonic() + ANSWER_WAIT_S
        while name not in self.find_topics([name]):
            if time.monotonic() > deadline_s:
                raise BrokenOff(f"topic {name!r} was made on {self.address} and is not there after {ANSWER_WAIT_S:g} s")
            time.sleep(_LOOK_AGAIN_S)

    def add_partitions(self, name: str, partition_count: int) -> None:
        """Add partitions up to `partition_count` in all."""
        with kafka_errors(f"partitions cannot be added to topic {name!r} of {self.address}"):
            self._admin.create_partitions([NewPartitions(name, partition_count)])[name].result(ANSWER_WAIT_S)

    # --- groups

    def cluster_id(self) -> str:
        if not self._cluster_id:
            with kafka_errors(f"the cluster at {self.address} cannot be described"):
                described = self._admin.describe_cluster(request_timeout=ANSWER_WAIT_S).result(ANSWER_WAIT_S)
            self._cluster_id = str(described.cluster_id)
        return self._cluster_id

    def group_names(self, prefix: str) -> list[str]:
        with kafka_errors(f"the groups of {self.address} cannot be listed"):
            listed = self._admin.list_consumer_groups(request_timeout=ANSWER_WAIT_S).result(ANSWER_WAIT_S)
        return sorted(each.group_id for each in listed.valid if each.group_id.startswith(prefix))

    def committed(self, groups: Sequence[str]) -> list[TopicPartition]:
        """The committed offsets of these groups, with metadata."""
        found: list[TopicPartition] = []
        for first in range(0, len(groups), _GROUPS_AT_ONCE):
            with kafka_errors(f"the offsets of groups of {self.address} cannot be read"):
                answers = [
                    self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
                    for group in groups[first : first + _GROUPS_AT_ONCE]
                ]
                for answer in answers:
                    places: list[TopicPartition] = answer.result(ANSWER_WAIT_S).topic_partitions
                    found += [place for place in places if place.error is None and place.offset >= 0]
        return found

    # --- offsets

    def earliest(self, topics: Iterable[Topic]) -> dict[Partition, int]:
        return self._offsets(_partitions(topics), OffsetSpec.earliest())

    def committed_ends(self, topics: Iterable[Topic]) -> dict[Partition, int]:
        """The last stable offset of each partition: the end of what readers of committed records can read now."""
        return self._offsets(_partitions(topics), OffsetSpec.latest())

    def first_at(
        self, topics: Iterable[Topic], timestamp_ms: int, otherwise: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        """The offset of each partition's first record at or past the time; from `otherwise` where there is none."""
        found = self._offsets(_partitions(topics), OffsetSpec.for_timestamp(timestamp_ms))
        return {key: otherwise[key] if offset == _NO_OFFSET else offset for key, offset in found.items()}

    def ranges(
        self,
        names: Iterable[str],
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        from_offset: int | None = None,
        to_offset: int | None = None,
    ) -> tuple[OffsetRange, ...]:
        """The topics' present committed records between the times and offsets. Raises JobFailed, BrokenOff."""
        topics = list(self.topics(names).values())
        starts, ends = self.earliest(topics), self.committed_ends(topics)
        firsts = starts if from_ms is None else self.first_at(topics, from_ms, ends)
        lasts = ends if to_ms is None else self.first_at(topics, to_ms, ends)
        # Reads end at the last stable offset, even if later records match the times.
        lasts = {key: min(offset, ends[key]) for key, offset in lasts.items()}
        firsts = {key: min(offset, ends[key]) for key, offset in firsts.items()}
        return between(firsts, lasts, from_offset=from_offset, to_offset=to_offset)

    def _offsets(self, partitions: Iterable[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        asked = {TopicPartition(topic, partition): spec for topic, partition in partitions}
        if not asked:
            return {}
        with kafka_errors(f"offsets of {self.address} cannot be listed"):
            answers = self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_WAIT_S
            )
            return {(at.topic, at.partition): future.result(ANSWER_WAIT_S).offset for at, future in answers.items()}


def _partitions(topics: Iterable[Topic]) -> list[Partition]:
    return [(topic.name, partition) for topic in topics for partition in range(topic.partition_count)]


def _code_of(failed: JobFailed) -> Any:
    cause = failed.__cause__
    return cause.args[0].code() if isinstance(cause, KafkaException) else None
