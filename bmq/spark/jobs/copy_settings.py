"""The settings that a copy's tasks need, in a form that fits into one option of a Spark data source. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from bmq.spark.jobs.ranges import OffsetRange

TRANSACTION_RECORDS_MAX: Final = 50_000
TRANSACTION_BYTES_MAX: Final = 32 << 20


class Partitioner(StrEnum):
    """`source`: partition p goes into partition p, keeping order. `key`: by key, as in Java's client."""

    SOURCE = "source"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class TopicCopy:
    """One source topic and its target topic, with their ids. `place_count`: see CopyNames.

    `origins`: ids of the clusters that its records came from, the source's last; only a mirror's.
    """

    source_topic: str
    source_topic_id: str
    target_topic: str
    place_count: int
    target_topic_id: str
    origins: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, str]:
        return self.source_topic_id, self.target_topic_id


@dataclass(frozen=True, slots=True)
class CopySettings:
    """`config`: librdkafka's, of the target. `copy`: prefix of the groups and transactional ids.

    `map_topic`: topic in which each transaction records the source offsets and target offsets of its records; empty: none.
    `ends`: topic -> partition, as text -> end of the range being copied. The last records of a range may lie before its end,
    when markers follow them.
    """

    config: Mapping[str, str]
    copy: str
    topics: tuple[TopicCopy, ...]
    partitioner: Partitioner = Partitioner.SOURCE
    map_topic: str = ""
    transaction_records_max: int = TRANSACTION_RECORDS_MAX
    transaction_bytes_max: int = TRANSACTION_BYTES_MAX
    producer: Mapping[str, Any] = field(default_factory=dict)
    ends: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def up_to(self, step: Iterable[OffsetRange]) -> CopySettings:
        """The settings for one step."""
        ends: dict[str, dict[str, int]] = {}
        for each in step:
            ends.setdefault(each.topic, {})[str(each.partition)] = each.end_offset
        return replace(self, ends=ends)

    def end_of(self, topic: str, partition: int) -> int:
        """The end of the partition's range; 0 when none is known."""
        return self.ends.get(topic, {}).get(str(partition), 0)

    def of(self, source_topic: str) -> TopicCopy:
        """The copy of this source topic. Raises KeyError."""
        for each in self.topics:
            if each.source_topic == source_topic:
                return each
        raise KeyError(source_topic)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CopySettings:
        values = json.loads(text)
        topics = tuple(TopicCopy(**{**each, "origins": tuple(each["origins"])}) for each in values.pop("topics"))
        return cls(topics=topics, partitioner=Partitioner(values.pop("partitioner")), **values)
