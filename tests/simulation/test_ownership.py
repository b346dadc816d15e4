"""The rules for members of a group find what they are there for: each broken once by hand."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.simulation.history import Violation
from tests.simulation.ownership import Ownership

pytestmark = pytest.mark.simulation

PLACE = (UUID(int=1), 0)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_partition_has_one_owner_at_a_time() -> None:
    ownership = Ownership(Clock())
    for member in ("a", "b"):
        ownership.extend(member, 6.0)
    ownership.hold("a", [PLACE])
    with pytest.raises(Violation, match="was given to b, and a owns it"):
        ownership.hold("b", [PLACE])
    ownership.release("a", [PLACE])
    ownership.hold("b", [PLACE])
    assert ownership.places_of("b") == {PLACE}
    assert not ownership.places_of("a")


def test_a_session_ends_by_the_members_own_clock_and_does_not_come_back() -> None:
    clock = Clock()
    ownership = Ownership(clock)
    ownership.extend("a", 6.0)
    ownership.hold("a", [PLACE])
    clock.now_s = 6.0
    ownership.extend("b", 12.0)
    ownership.hold("b", [PLACE])
    ownership.extend("a", 12.0)
    assert not ownership.places_of("a")
    assert ownership.places_of("b") == {PLACE}


def test_an_answer_after_the_end_of_the_session_gives_nothing() -> None:
    clock = Clock()
    ownership = Ownership(clock)
    clock.now_s = 7.0
    ownership.extend("a", 6.0)
    ownership.hold("a", [PLACE])
    assert not ownership.places_of("a")


def test_epochs_never_go_back() -> None:
    ownership = Ownership(Clock())
    ownership.told_epoch("a", 3)
    with pytest.raises(Violation, match="a was told epoch 2 after 3"):
        ownership.told_epoch("a", 2)
    with pytest.raises(Violation, match="b was told epoch 2 after 3"):
        ownership.told_epoch("b", 2, ownership.newest_epoch())


def test_nobody_commits_for_what_is_anothers() -> None:
    ownership = Ownership(Clock())
    for member in ("a", "b"):
        ownership.extend(member, 6.0)
        ownership.hold(member, [PLACE])
        ownership.try_commit(PLACE, 5)
        ownership.commit(member, PLACE, 5, was_anothers=ownership.is_anothers(member, PLACE))
        ownership.release(member, [PLACE])
    with pytest.raises(Violation, match=r"a committed 5 of .* which was b's"):
        ownership.commit("a", PLACE, 5, was_anothers=ownership.is_anothers("a", PLACE))


def test_committed_offsets_are_those_that_were_committed_and_never_go_back() -> None:
    ownership = Ownership(Clock())
    with pytest.raises(Violation, match="which nobody committed"):
        ownership.fetched(PLACE, 4, 0)
    ownership.try_commit(PLACE, 4)
    ownership.fetched(PLACE, 4, 0)
    with pytest.raises(Violation, match="went back from 4 to 0"):
        ownership.fetched(PLACE, 0, ownership.committed[PLACE])


def test_a_member_of_a_group_that_may_begin_anew_keeps_its_epoch_only_as_long_as_it_is_one() -> None:
    ownership = Ownership(lambda: 0.0, may_begin_anew=True)
    ownership.told_epoch("a", 7)
    assert ownership.newest_epoch() == 0
    ownership.told_epoch("b", 1)
    with pytest.raises(Violation, match="was told epoch 6 after 7"):
        ownership.told_epoch("a", 6)
    ownership.lose("a")
    ownership.told_epoch("a", 1)


def test_a_late_join_fences_a_static_member_once() -> None:
    ownership = Ownership(Clock())
    assert not ownership.fenced_by_late_join("i")
    ownership.join_unanswered("i")
    assert not ownership.fenced_by_late_join("j")
    assert not ownership.fenced_by_late_join(None)
    assert ownership.fenced_by_late_join("i")
    assert not ownership.fenced_by_late_join("i")
