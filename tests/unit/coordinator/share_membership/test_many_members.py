"""A heartbeat that changes nothing looks at its own member, however many there are, and counts agree with the members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.share_membership.share_group import ShareGroup
from bmq.protocol import share_group_records as records
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_membership.test_share_api import Shares, T, U

pytestmark = pytest.mark.unit


class NotWalked(dict[str, Any]):
    """Entries that are looked up, and never walked."""

    def __iter__(self) -> Iterator[str]:
        self._refuse()

    def keys(self) -> NoReturn:
        self._refuse()

    def values(self) -> NoReturn:
        self._refuse()

    def items(self) -> NoReturn:
        self._refuse()

    def copy(self) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise AssertionError("all members are looked at")


async def settled(shares: Shares, *names: str) -> ShareGroup:
    """A group of three members, each of which has what it is to have."""
    epochs = {member_id: (await shares.beat(member_id, 0, *names)).member_epoch for member_id in "abc"}
    for _ in range(3):
        for member_id, epoch in epochs.items():
            answer = await shares.beat(member_id, epoch)
            assert answer.error_code == 0
            epochs[member_id] = answer.member_epoch
    (group,) = [
        group for shard in shares.coordinator.directory.ready.values() if (group := shard.share.find("g")) is not None
    ]
    assert len({member.epoch for member in group.members.values()}) == 1
    return group


def test_a_heartbeat_that_changes_nothing_does_not_walk_the_members() -> None:
    async def main() -> None:
        shares = Shares()
        shares.set_topic("t", T, 3)
        shares.set_topic("u", U, 2)
        group = await settled(shares, "t", "u", "not there")
        group.members, group.targets = NotWalked(group.members), NotWalked(group.targets)
        for member_id in "abc":
            answer = await shares.beat(member_id, group.epoch)
            assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, group.epoch, None)

    virtual(main)


@pytest.mark.parametrize("names", [("t",), ("t", "u")])
def test_partitions_that_are_added_to_a_settled_group_are_assigned(names: tuple[str, ...]) -> None:
    async def main() -> None:
        shares = Shares()
        for name, topic_id in (("t", T), ("u", U)):
            shares.set_topic(name, topic_id, 2)
        group = await settled(shares, *names)
        before = group.epoch
        shares.set_topic("t", T, 4)
        for _ in range(4):
            for member_id in "abc":
                await shares.beat(member_id, group.members[member_id].epoch)
        assert group.epoch == before + 2
        assert {number for target in group.targets.values() for number in target.get(T, ())} == {0, 1, 2, 3}
        assert {number for member in group.members.values() for number in member.assigned.get(T, ())} == {0, 1, 2, 3}

    virtual(main)


def test_a_topic_that_is_made_anew_in_a_settled_group_is_assigned() -> None:
    async def main() -> None:
        shares = Shares()
        shares.set_topic("t", T, 2)
        group = await settled(shares, "t")
        shares.set_topic("t", T, 0)
        shares.set_topic("t", U, 1)
        for _ in range(4):
            for member_id in "abc":
                await shares.beat(member_id, group.members[member_id].epoch)
        assert [dict(member.assigned) for member in group.members.values() if U in member.assigned]
        assert all(set(member.assigned) <= {U} for member in group.members.values())

    virtual(main)


NAMES = st.frozensets(st.sampled_from("tuv"))
PARTITIONS = st.dictionaries(st.sampled_from((T, U)), st.frozensets(st.integers(0, 3), min_size=1))
STEPS = st.tuples(
    st.sampled_from(("member", "current", "target", "fork", "loaded")),
    st.sampled_from("abc"),
    NAMES,
    PARTITIONS,
    st.booleans(),
)


@given(st.lists(STEPS, max_size=30))
def test_counts_are_those_of_the_members_whatever_records_come(
    steps: list[tuple[str, str, frozenset[str], dict[UUID, frozenset[int]], bool]],
) -> None:
    group, origin = ShareGroup("g"), ShareGroup("g")
    for kind, member_id, names, partitions, is_deleted in steps:
        parts = tuple(
            records.TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(numbers)))
            for topic_id, numbers in partitions.items()
        )
        group.settled_at = 7
        key: Any
        value: Any
        match kind:
            case "member":
                key = records.MemberKey(group="g", member_id=member_id)
                value = records.MemberValue(subscribed_topic_names=tuple(sorted(names)))
            case "current":
                key = records.CurrentKey(group="g", member_id=member_id)
                value = records.CurrentValue(epoch=3, assigned_partitions=parts)
            case "target":
                key = records.TargetKey(group="g", member_id=member_id)
                value = records.TargetValue(topic_partitions=parts)
            case "fork":
                group, origin = group.fork(), group
                assert group.settled_at == 7
                continue
            case _:
                group.drop_leftovers()
                assert group.settled_at == -1
                check(group)
                continue
        before = (
            len(group.subscribed_names),
            dict(group.targets),
            {one: group.members[one].topic_names for one in group.members},
        )
        group.apply(key, None if is_deleted else value)
        after = (
            len(group.subscribed_names),
            dict(group.targets),
            {one: group.members[one].topic_names for one in group.members},
        )
        assert before == after or group.settled_at == -1
        check(group)
        check(origin)


def check(group: ShareGroup) -> None:
    members = group.members.values()
    assert set(group.subscribed_names) == {name for member in members for name in member.topic_names}
    for name in "tuv":
        assert group.is_subscribed_to(name) == any(name in member.topic_names for member in members)
    for topic_id in (T, U):
        held = {number for target in group.targets.values() for number in target.get(topic_id, ())}
        assert group.has_given(topic_id, held)
        assert all(group.has_given(topic_id, {number}) == (number in held) for number in range(4))
