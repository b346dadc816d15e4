"""What the tasks of a copy have to know, as one option of a Spark data source can carry it. Pure."""

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
    """`source`: partition p goes into partition p, so order and offsets can be followed. `key`: by the key, as Java's client does."""

    SOURCE = "source"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class TopicCopy:
    """One source topic: its id, and where its records go. `place_count`: as CopyNames has it."""

    source_topic: str
    source_topic_id: str
    target_topic: str
    place_count: int


@dataclass(frozen=True, slots=True)
class CopySettings:
    """`config`: librdkafka's, of the target. `copy`: the name that groups and transactional ids begin with.

    `map_topic`: where each transaction says which offsets became which; empty: nowhere. `ends`: topic -> partition, as text ->
    the end of the range that is copied now; its last records may lie in front of it, when markers follow them.
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
        """For one step."""
        ends: dict[str, dict[str, int]] = {}
        for each in step:
            ends.setdefault(each.topic, {})[str(each.partition)] = each.end_offset
        return replace(self, ends=ends)

    def end_of(self, topic: str, partition: int) -> int:
        """0 when no range is known."""
        return self.ends.get(topic, {}).get(str(partition), 0)

    def of(self, source_topic: str) -> TopicCopy:
        """Raises KeyError."""
        for each in self.topics:
            if each.source_topic == source_topic:
                return each
        raise KeyError(source_topic)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CopySettings:
        values = json.loads(text)
        topics = tuple(TopicCopy(**each) for each in values.pop("topics"))
        return cls(topics=topics, partitioner=Partitioner(values.pop("partitioner")), **values)
