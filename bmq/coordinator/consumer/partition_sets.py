"""A member's target and owned partitions: immutable values, and their forms in records and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from bmq.protocol.consumer_group_records import TopicPartitions
from bmq.protocol.messages import consumer_group_heartbeat_request as heartbeat_request
from bmq.protocol.messages import consumer_group_heartbeat_response as heartbeat_response

Target = Mapping[UUID, frozenset[int]]
"""Partitions by topic; no topic without partitions."""
Owned = Mapping[UUID, Mapping[int, int]]
"""topic -> partition -> the epoch since which the member has it (KIP-1251); no topic without partitions."""

NOTHING: Final[Target] = {}
NONE_OWNED: Final[Owned] = {}


def target_of(parts: Iterable[TopicPartitions]) -> Target:
    """From a record."""
    return {part.topic_id: frozenset(part.partitions) for part in parts if part.topic_id and part.partitions}


def target_parts(target: Target) -> tuple[TopicPartitions, ...]:
    """For a record: in the order of topic ids, so that the same target always makes the same bytes."""
    return tuple(
        TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(target[topic_id])))
        for topic_id in sorted(target, key=_bytes_of)
    )


def owned_of(parts: Iterable[TopicPartitions], epoch: int) -> Owned:
    """From a record. `epoch` is used where an older server's record lacks the assignment epochs."""
    owned: dict[UUID, Mapping[int, int]] = {}
    for part in parts:
        if part.topic_id is None or not part.partitions:
            continue
        epochs = part.assignment_epochs
        if len(epochs) != len(part.partitions):
            epochs = (epoch,) * len(part.partitions)
        owned[part.topic_id] = dict(zip(part.partitions, epochs, strict=True))
    return owned


def owned_parts(owned: Owned) -> tuple[TopicPartitions, ...]:
    """For a record."""
    parts = []
    for topic_id in sorted(owned, key=_bytes_of):
        epochs = sorted(owned[topic_id].items())
        parts.append(
            TopicPartitions(
                topic_id=topic_id,
                partitions=tuple(partition for partition, _ in epochs),
                assignment_epochs=tuple(epoch for _, epoch in epochs),
            )
        )
    return tuple(parts)


def answer_of(owned: Owned) -> heartbeat_response.Assignment:
    """For a ConsumerGroupHeartbeat's answer."""
    return heartbeat_response.Assignment(
        topic_partitions=[
            heartbeat_response.TopicPartitions(topic_id=topic_id, partitions=sorted(owned[topic_id]))
            for topic_id in sorted(owned, key=_bytes_of)
        ]
    )


def reported(parts: Iterable[heartbeat_request.TopicPartitions]) -> Target:
    """The partitions that a member says it owns; a topic may be named more than once."""
    partitions: dict[UUID, frozenset[int]] = {}
    for part in parts:
        if part.topic_id is not None and part.partitions:
            partitions[part.topic_id] = partitions.get(part.topic_id, frozenset()) | frozenset(part.partitions)
    return partitions


def overlap(target: Target, owned: Owned) -> bool:
    """Whether any partition of `target` is in `owned`."""
    return any(not owned[topic_id].keys().isdisjoint(target[topic_id]) for topic_id in target.keys() & owned.keys())


def is_subset(target: Target, owned: Owned) -> bool:
    """Whether all partitions of `target` are in `owned`."""
    return all(partitions <= owned.get(topic_id, {}).keys() for topic_id, partitions in target.items())


def _bytes_of(topic_id: UUID) -> bytes:
    return topic_id.bytes
