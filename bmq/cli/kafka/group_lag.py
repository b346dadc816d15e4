"""How far a group is behind in each partition, and who reads it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bmq.cli.kafka.model import GroupDetails, Member, Partition
from bmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """`committed` None: nothing was; `end` None: the topic is gone. `member`: whom the partition is assigned to."""

    partition: Partition
    committed: int | None
    end: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """Offsets between the committed one and the end; 0 for one behind a log that was cut."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


def partition_lags(
    details: GroupDetails, committed: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> list[PartitionLag]:
    """The lag of each partition with a committed offset or a member, in order."""
    members = {at: member for member in details.members for at in member.assigned}
    return [
        PartitionLag(at, committed.get(at), ends.get(at), members.get(at))
        for at in sorted(committed.keys() | members.keys())
    ]


@dataclass(frozen=True, slots=True)
class TopicLag:
    """`lag` and `max_lag` (of one partition) count what is known; `unknown_count`: partitions without either."""

    topic: str
    partitions: int
    lag: int
    max_lag: int
    unknown_count: int


def topic_lags(lags: Iterable[PartitionLag]) -> list[TopicLag]:
    """In the order of the topics' names."""
    return summed_lags((each.partition[0], each.lag) for each in lags)


def summed_lags(lags: Iterable[tuple[str, int | None]]) -> list[TopicLag]:
    """From a topic and a lag for each partition, None for one that is not known."""
    by_topic: dict[str, list[int | None]] = {}
    for topic, lag in lags:
        by_topic.setdefault(topic, []).append(lag)
    return [
        TopicLag(
            topic,
            len(found),
            sum(known := [lag for lag in found if lag is not None]),
            max(known, default=0),
            len(found) - len(known),
        )
        for topic, found in sorted(by_topic.items())
    ]
