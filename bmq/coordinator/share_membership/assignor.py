"""SimpleAssignor, the only assignor of share groups (KIP-932): many members may share a partition. Decisions only.

With M members and P partitions each partition gets at most ceil(M / P) members, and each member at least one partition
where there is any; the total is spread evenly, and what members have stays with them where that allows it. Members with
different subscriptions: each topic is spread among its subscribers, and the results are added up. The order of the input
does not matter. Source: org.apache.kafka.coordinator.group.assignor.SimpleAssignor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

SIMPLE: Final = "simple"

Place = tuple[UUID, int]
Target = Mapping[UUID, frozenset[int]]
"""Partitions by topic; no topic without partitions."""


class AssignedMember(NamedTuple):
    """`topics`: existing topics it is subscribed to; `target`: its present target."""

    member_id: str
    topics: frozenset[UUID]
    target: Target


def assign(members: Sequence[AssignedMember], partitions: Mapping[UUID, Sequence[int]]) -> dict[str, Target]:
    """Each member's partitions by its id; all members are in it. `partitions`: that may be assigned, of each topic."""
    ordered = sorted(members)
    found: dict[str, set[Place]] = {member.member_id: set() for member in ordered}
    if len({member.topics for member in ordered}) <= 1:
        topics = sorted(ordered[0].topics, key=_bytes_of) if ordered else []
        places = [(topic_id, number) for topic_id in topics for number in sorted(partitions.get(topic_id, ()))]
        _spread(ordered, places, found)
    else:
        for topic_id in sorted({topic for member in ordered for topic in member.topics}, key=_bytes_of):
            subscribers = [member for member in ordered if topic_id in member.topics]
            _spread(subscribers, [(topic_id, number) for number in sorted(partitions.get(topic_id, ()))], found)
    return {member_id: _target(places) for member_id, places in found.items()}


def _spread(members: Sequence[AssignedMember], places: Sequence[Place], found: Mapping[str, set[Place]]) -> None:
    """Give every place to ceil(M / P) members at most, every member a quota that differs by one at most."""
    if not members or not places:
        return
    sharers_max = -(-len(members) // len(places))
    quota, surplus = divmod(sharers_max * len(places), len(members))
    sharers = dict.fromkeys(places, 0)
    given: dict[str, set[Place]] = {}
    for member in members:
        kept: set[Place] = set()
        for place in _present(member, sharers):
            if len(kept) == quota + (surplus > 0):
                break
            if sharers[place] < sharers_max:
                kept.add(place)
                sharers[place] += 1
        surplus -= len(kept) > quota
        given[member.member_id] = kept
    for member in members:
        mine = given[member.member_id]
        if len(mine) > quota:
            continue
        wanted = quota + (surplus > 0)
        _fill(mine, wanted, sharers, sharers_max)
        surplus -= len(mine) > quota
    for member in members:
        found[member.member_id].update(given[member.member_id])


def _present(member: AssignedMember, places: Mapping[Place, int]) -> Iterable[Place]:
    for topic_id in sorted(member.target, key=_bytes_of):
        for number in sorted(member.target[topic_id]):
            if (topic_id, number) in places:
                yield topic_id, number


def _fill(mine: set[Place], wanted: int, sharers: dict[Place, int], sharers_max: int) -> None:
    """The places with the fewest sharers first."""
    while len(mine) < wanted:
        free = [place for place, count in sharers.items() if count < sharers_max and place not in mine]
        if not free:
            return
        place = min(free, key=sharers.__getitem__)
        mine.add(place)
        sharers[place] += 1


def _target(places: Iterable[Place]) -> Target:
    by_topic: dict[UUID, set[int]] = {}
    for topic_id, number in places:
        by_topic.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(numbers) for topic_id, numbers in by_topic.items()}


def _bytes_of(topic_id: UUID) -> bytes:
    return topic_id.bytes
