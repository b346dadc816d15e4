"""A stream's position: Spark keeps it as JSON in its checkpoint and compares it as text. Pure.

Spark does not keep where a query began, and asks again when it repeats the first batch; "latest" would have moved by
then. So each offset also has the start of each partition, and a batch uses the starts in its end offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bmq.protocol.errors import BmqError
from bmq.spark.source.options import Partition
from bmq.spark.source.plan import share

_VERSION: Final = 1


class ForeignCheckpoint(BmqError):
    """An offset that this source did not write."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next offset of each partition, where each began, and the topic ids.

    `is_initial`: the answer to initialOffset, which is never the end of a batch.
    """

    offsets: Mapping[Partition, int]
    begin: Mapping[Partition, int]
    topic_ids: Mapping[str, str]
    is_initial: bool = False

    def to_json(self) -> dict[str, Any]:
        """Deterministic: the same offset always gives the same text."""
        found: dict[str, Any] = {
            "begin": _nested(self.begin),
            "offsets": _nested(self.offsets),
            "topicIds": dict(sorted(self.topic_ids.items())),
            "version": _VERSION,
        }
        return {"initial": True, **found} if self.is_initial else found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> StreamOffset:
        """Raises ForeignCheckpoint."""
        try:
            version = found["version"]
            offset = cls(
                offsets=_flat(found["offsets"]),
                begin=_flat(found["begin"]),
                topic_ids={str(name): str(topic_id) for name, topic_id in found["topicIds"].items()},
                is_initial=bool(found.get("initial", False)),
            )
        except (KeyError, ValueError, TypeError, AttributeError):
            raise ForeignCheckpoint(
                f"the checkpoint has an offset that format('bmq') did not write: {str(found)[:200]}"
            ) from None
        if version != _VERSION:
            raise ForeignCheckpoint(f"the checkpoint has offsets of form {version}, written by another version of bmq")
        return offset

    def start_of(self, partition: Partition, end: StreamOffset) -> int:
        """Where the batch from here to `end` begins in a partition of `end`."""
        topic = partition[0]
        is_known = partition in self.offsets and self.topic_ids.get(topic) == end.topic_ids.get(topic)
        return self.offsets[partition] if is_known and not self.is_initial else end.begin[partition]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The subscribed partitions in the cluster's present state."""

    earliest: Mapping[Partition, int]
    latest: Mapping[Partition, int]
    topic_ids: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Advance:
    """`losses`: sentences about records lost before they were read."""

    end: StreamOffset
    losses: tuple[str, ...]


def advance(seen: StreamOffset, cluster: Cluster) -> Advance:
    """The end of everything from the stream's position on. New partitions and topics start at their beginning."""
    losses: list[str] = []
    recreated = {topic for topic, found in cluster.topic_ids.items() if seen.topic_ids.get(topic, found) != found}
    losses += [f"topic {topic} was deleted and made again" for topic in sorted(recreated)]
    for topic, partition in sorted(seen.offsets.keys() - cluster.latest.keys()):
        losses.append(f"partition {partition} of topic {topic} was deleted")
    begin: dict[Partition, int] = {}
    offsets: dict[Partition, int] = {}
    for one, latest in cluster.latest.items():
        topic, partition = one
        if one not in seen.offsets or topic in recreated:
            begin[one] = cluster.earliest[one]
            if begin[one] and topic not in recreated:
                losses.append(f"{topic}-{partition} is new and begins at offset {begin[one]}, not at 0")
        else:
            begin[one] = seen.begin[one] if one in seen.begin else seen.offsets[one]
            if latest < seen.offsets[one]:
                losses.append(f"{topic}-{partition} ends at {latest}, and was read up to {seen.offsets[one]}")
        offsets[one] = latest
    ids = {topic: found for topic, found in cluster.topic_ids.items() if any(topic == one[0] for one in offsets)}
    return Advance(StreamOffset(offsets, begin, ids), tuple(losses))


def starts(seen: StreamOffset, end: StreamOffset) -> dict[Partition, int]:
    """Where the batch from `seen` to `end` begins in each partition; never after its end."""
    return {one: min(seen.start_of(one, end), last) for one, last in end.offsets.items()}


def limited(seen: StreamOffset, end: StreamOffset, offsets_max: int) -> StreamOffset:
    """An end at most `offsets_max` offsets on (or one per partition), in proportion to each partition's offsets."""
    begins = starts(seen, end)
    shares = share(offsets_max, {one: last - begins[one] for one, last in end.offsets.items()})
    return StreamOffset({one: begins[one] + shares.get(one, 0) for one in end.offsets}, end.begin, end.topic_ids)


def no_further(end: StreamOffset, bound: StreamOffset) -> StreamOffset:
    """`end` limited to `bound`, without partitions that `bound` lacks."""
    offsets = {one: min(last, bound.offsets[one]) for one, last in end.offsets.items() if one in bound.offsets}
    return StreamOffset(
        offsets,
        {one: begin for one, begin in end.begin.items() if one in offsets},
        {topic: found for topic, found in end.topic_ids.items() if any(topic == one[0] for one in offsets)},
    )


def is_same(first: StreamOffset, second: StreamOffset) -> bool:
    """Whether there is nothing between them."""
    return dict(first.offsets) == dict(second.offsets) and dict(first.topic_ids) == dict(second.topic_ids)


def _nested(numbers: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), number in sorted(numbers.items()):
        found.setdefault(topic, {})[str(partition)] = number
    return found


def _flat(nested: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    return {
        (str(topic), int(partition)): int(number)
        for topic, numbers in nested.items()
        for partition, number in numbers.items()
    }
