"""The assignors: Kafka's examples, and what holds for any group."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.consumer.assignors import (
    ASSIGNORS,
    AssignedMember,
    GroupToAssign,
    assign_range,
    assign_uniform,
)
from bmq.coordinator.consumer.partition_sets import Target

pytestmark = pytest.mark.unit

Told = Mapping[str, Mapping[str, set[int]]]
"""member -> topic -> partitions"""
T = {name: UUID(int=number) for number, name in enumerate(["t", "t1", "t2"], 1)}


def target(told: Mapping[str, set[int]]) -> Target:
    return {T[topic]: frozenset(partitions) for topic, partitions in told.items()}


def group(
    subscriptions: Mapping[str, str], counts: Mapping[str, int], before: Told, static: Mapping[str, str] | None = None
) -> GroupToAssign:
    members = [
        AssignedMember(
            member_id,
            (static or {}).get(member_id),
            frozenset(T[topic] for topic in topics.split()),
            target(before.get(member_id, {})),
        )
        for member_id, topics in subscriptions.items()
    ]
    counted = {T[topic]: count for topic, count in counts.items()}
    return GroupToAssign(members, counted, len({member.topics for member in members}) <= 1)


def told(targets: Mapping[str, Target]) -> Told:
    names = {topic_id: name for name, topic_id in T.items()}
    return {
        member_id: {names[topic_id]: set(partitions) for topic_id, partitions in mine.items()}
        for member_id, mine in targets.items()
    }


UNEVEN = {"A": {"t1": {0, 1, 2}}, "B": {"t1": {3}, "t2": {0, 1}}}
TABLE: list[tuple[str, dict[str, str], dict[str, int], Told, Told]] = [
    ("uniform", {"A": "t", "B": "t"}, {"t": 3}, {"A": {"t": {0, 1, 2}}}, {"A": {"t": {0, 1}}, "B": {"t": {2}}}),
    (
        "uniform",
        {"A": "t", "B": "t", "C": "t"},
        {"t": 6},
        {"A": {"t": {0, 1, 2}}, "B": {"t": {3, 4, 5}}},
        {"A": {"t": {0, 1}}, "B": {"t": {3, 4}}, "C": {"t": {2, 5}}},
    ),
    (
        "uniform",
        {"A": "t", "B": "t"},
        {"t": 6},
        {"A": {"t": {0, 1}}, "B": {"t": {2, 3}}},
        {"A": {"t": {0, 1, 4}}, "B": {"t": {2, 3, 5}}},
    ),
    ("uniform", {"A": "t1", "B": "t1 t2"}, {"t1": 4, "t2": 2}, {}, UNEVEN),
    (
        "uniform",
        {"A": "t1", "B": "t1 t2", "C": "t1 t2"},
        {"t1": 4, "t2": 2},
        UNEVEN,
        {"A": {"t1": {0, 1}}, "B": {"t2": {0, 1}}, "C": {"t1": {2, 3}}},
    ),
    (
        "range",
        {"A": "t1", "B": "t1 t2", "C": "t2"},
        {"t1": 3, "t2": 3},
        {},
        {"A": {"t1": {0, 1}}, "B": {"t1": {2}, "t2": {0, 1}}, "C": {"t2": {2}}},
    ),
]


@pytest.mark.parametrize(("name", "subscriptions", "counts", "before", "after"), TABLE)
def test_kafkas_examples(
    name: str, subscriptions: dict[str, str], counts: dict[str, int], before: Told, after: Told
) -> None:
    assert told(ASSIGNORS[name](group(subscriptions, counts, before))) == after


def test_range_goes_by_instances_first() -> None:
    """Two restarted static members with new ids, the other way round: each has what it had."""
    subscriptions = {"m1": "t", "m2": "t", "a-dynamic-one": "t"}
    assigned = assign_range(group(subscriptions, {"t": 3}, {}, {"m1": "i2", "m2": "i1"}))
    assert told(assigned) == {"m2": {"t": {0}}, "m1": {"t": {1}}, "a-dynamic-one": {"t": {2}}}


@st.composite
def groups(draw: st.DrawFn, *, is_homogeneous: bool) -> GroupToAssign:
    """Any group with any last target: also of topics that are gone or that the member is no longer subscribed to."""
    counts = {T[name]: draw(st.integers(0, 12)) for name in draw(st.sets(st.sampled_from(sorted(T)), min_size=1))}
    shared = frozenset(draw(st.sets(st.sampled_from(sorted(counts)))))
    owners: dict[tuple[UUID, int], str] = {}
    ids = [f"m{number}" for number in range(draw(st.integers(1, 7)))]
    for topic_id in T.values():
        for partition in range(12):
            owner = draw(st.sampled_from([None, *ids]))
            if owner is not None:
                owners[topic_id, partition] = owner
    members = []
    for member_id in draw(st.permutations(ids)):
        topics = shared if is_homogeneous else frozenset(draw(st.sets(st.sampled_from(sorted(counts)))))
        mine = {
            topic_id: frozenset(p for (t, p), owner in owners.items() if t == topic_id and owner == member_id)
            for topic_id in T.values()
        }
        members.append(AssignedMember(member_id, None, topics, {t: p for t, p in mine.items() if p}))
    counted = {t: count for t, count in counts.items() if any(t in member.topics for member in members)}
    return GroupToAssign(members, counted, is_homogeneous)


def check_all_assigned(given_group: GroupToAssign, targets: Mapping[str, Target]) -> None:
    """Each partition that somebody is subscribed to has one member, and that member is subscribed to it."""
    assert targets.keys() == {member.member_id for member in given_group.members}
    topics = {member.member_id: member.topics for member in given_group.members}
    places = [(t, p) for target in targets.values() for t, partitions in target.items() for p in partitions]
    assert len(places) == len(set(places))
    assert set(places) == {(t, p) for t, count in given_group.partition_counts.items() for p in range(count)}
    for member_id, mine in targets.items():
        assert mine.keys() <= topics[member_id]
        assert all(mine.values())


def assigned_before(given_group: GroupToAssign, targets: Mapping[str, Target], *, reverse: bool) -> GroupToAssign:
    members = [member._replace(target=targets[member.member_id]) for member in given_group.members]
    return given_group._replace(members=members[::-1] if reverse else members)


def size(target: Target) -> int:
    return sum(map(len, target.values()))


@given(given_group=groups(is_homogeneous=True))
def test_uniform_is_even_and_moves_no_more_than_it_must(given_group: GroupToAssign) -> None:
    targets = assign_uniform(given_group)
    check_all_assigned(given_group, targets)
    sizes = [size(target) for target in targets.values()]
    assert max(sizes) - min(sizes) <= 1
    for member in given_group.members:
        kept = sum(len(p & member.target.get(t, frozenset())) for t, p in targets[member.member_id].items())
        could_keep = sum(
            sum(partition < given_group.partition_counts[t] for partition in member.target.get(t, ()))
            for t in member.topics
        )
        assert kept >= min(could_keep, min(sizes)), "nobody loses what its quota has room for"
    again = assign_uniform(assigned_before(given_group, targets, reverse=True))
    assert again == targets, "nothing moves without a reason"


@given(given_group=groups(is_homogeneous=False))
def test_uniform_with_different_subscriptions(given_group: GroupToAssign) -> None:
    targets = assign_uniform(given_group)
    check_all_assigned(given_group, targets)
    for topic_id in given_group.partition_counts:
        loads = sorted(
            (size(targets[member.member_id]), topic_id in targets[member.member_id])
            for member in given_group.members
            if topic_id in member.topics
        )
        giving = [load for load, has_some in loads if has_some]
        if giving:
            assert max(giving) - loads[0][0] <= 1, "no single move within a topic makes things more even"
    assert assign_uniform(assigned_before(given_group, targets, reverse=True)) == targets


@given(given_group=groups(is_homogeneous=False))
def test_range_gives_neighbouring_partitions(given_group: GroupToAssign) -> None:
    targets = assign_range(given_group)
    check_all_assigned(given_group, targets)
    for target_of_one in targets.values():
        for partitions in target_of_one.values():
            assert all(b - a == 1 for a, b in pairwise(sorted(partitions)))
    for topic_id in given_group.partition_counts:
        sizes = [
            len(targets[member.member_id].get(topic_id, ()))
            for member in given_group.members
            if topic_id in member.topics
        ]
        assert max(sizes) - min(sizes) <= 1
    assert assign_range(given_group._replace(members=given_group.members[::-1])) == targets


def test_nobody_to_assign_to() -> None:
    for assign in ASSIGNORS.values():
        assert assign(GroupToAssign([], {}, is_homogeneous=True)) == {}
