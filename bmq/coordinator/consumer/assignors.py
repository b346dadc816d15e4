"""The server-side assignors of KIP-848, `uniform` and `range`. Decisions only.

An assignor gets the members, each member's subscribed topics and the last target, and returns the next target of all.
The order of the input does not matter: members are sorted by id, topics by topic id. Racks are ignored, as in Kafka's
built-in assignors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from bmq.coordinator.consumer.heterogeneous_assignor import assign_heterogeneous
from bmq.coordinator.consumer.partition_sets import Target

UNIFORM: Final = "uniform"
RANGE: Final = "range"


class AssignedMember(NamedTuple):
    """A member as an assignor sees it. `topics`: existing topics it is subscribed to; `target`: its present target."""

    member_id: str
    instance_id: str | None
    topics: frozenset[UUID]
    target: Target


class GroupToAssign(NamedTuple):
    """`partition_counts`: of every subscribed topic. `is_homogeneous`: all members subscribe to the same topics."""

    members: Sequence[AssignedMember]
    partition_counts: Mapping[UUID, int]
    is_homogeneous: bool


Assignor = Callable[[GroupToAssign], dict[str, Target]]
"""Each member's partitions by its id; all members are in it."""


def assign_uniform(group: GroupToAssign) -> dict[str, Target]:
    """As even as possible first, then with as few moves as possible."""
    members = sorted(group.members)
    if group.is_homogeneous:
        return _assign_even(members, group.partition_counts)
    return assign_heterogeneous(
        [(member.member_id, member.topics, member.target) for member in members], group.partition_counts
    )


def _assign_even(members: Sequence[AssignedMember], partition_counts: Mapping[UUID, int]) -> dict[str, Target]:
    """All members are subscribed to the same topics: their quotas differ by at most one.

    Members above the quota get the surplus first, so they keep one more partition (KAFKA-18688).
    """
    if not members:
        return {}
    topics = sorted(members[0].topics, key=lambda topic_id: topic_id.bytes)
    quota, surplus = divmod(sum(partition_counts[topic_id] for topic_id in topics), len(members))
    taken: set[tuple[UUID, int]] = set()
    kept: list[list[tuple[UUID, int]]] = []
    for member in members:
        old = [
            (topic_id, partition)
            for topic_id in topics
            for partition in sorted(member.target.get(topic_id, ()))
            if 0 <= partition < partition_counts[topic_id] and (topic_id, partition) not in taken
        ]
        if len(old) > quota:
            old = old[: quota + (surplus > 0)]
            surplus -= len(old) > quota
        taken.update(old)
        kept.append(old)
    free = iter(
        [
            (topic_id, partition)
            for topic_id in topics
            for partition in range(partition_counts[topic_id])
            if (topic_id, partition) not in taken
        ]
    )
    for mine in kept:
        if len(mine) > quota:
            continue
        wanted = quota - len(mine) + (surplus > 0)
        surplus -= surplus > 0
        mine += [place for _, place in zip(range(wanted), free, strict=False)]
    return {member.member_id: _target(mine) for member, mine in zip(members, kept, strict=True)}


def assign_range(group: GroupToAssign) -> dict[str, Target]:
    """Each member gets a contiguous range of each topic; static members come first, so that theirs stay (KIP-345)."""
    members = sorted(
        group.members, key=lambda member: (member.instance_id is None, member.instance_id or member.member_id)
    )
    subscribers: dict[UUID, list[str]] = {}
    for member in members:
        for topic_id in member.topics:
            subscribers.setdefault(topic_id, []).append(member.member_id)
    targets: dict[str, dict[UUID, frozenset[int]]] = {member.member_id: {} for member in members}
    for topic_id, member_ids in subscribers.items():
        quota, surplus = divmod(group.partition_counts[topic_id], len(member_ids))
        start = 0
        for place, member_id in enumerate(member_ids):
            end = start + quota + (place < surplus)
            if end > start:
                targets[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(targets)


def _target(places: Sequence[tuple[UUID, int]]) -> Target:
    by_topic: dict[UUID, set[int]] = {}
    for topic_id, partition in places:
        by_topic.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in by_topic.items()}


ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: assign_uniform, RANGE: assign_range}
