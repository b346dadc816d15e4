"""A group's histories: what was skipped, forgotten or came out of turn is found, and nothing else."""

from __future__ import annotations

import pytest

from tests.soak.group import CommittedOffsets, GroupProgress, Turn

pytestmark = pytest.mark.campaign("unit")


def test_records_that_no_member_was_given_are_found_once() -> None:
    seen = GroupProgress(2)
    assert [seen.given(1, offset) for offset in (0, 1, 2)] == [None, None, None]
    assert seen.given(1, 5) == "the group got offset 5 of partition 1 and never 3 to 4"
    assert seen.given(1, 6) is None
    assert seen.next_offsets == [0, 7]


def test_records_that_come_again_are_counted_and_no_mistake() -> None:
    seen = GroupProgress(1)
    for offset in (0, 1, 2, 1, 2, 3):
        assert seen.given(0, offset) is None
    assert (seen.again_count, seen.next_offsets) == (2, [4])


def test_a_turn_begins_where_was_committed_or_behind_it() -> None:
    seen = GroupProgress(2)
    seen.committed(0, 5)
    seen.committed(0, 3)
    assert (seen.floors, seen.commit_count) == ((5, 0), 2)
    assert Turn(seen).given(0, 5) is None
    assert Turn(seen).given(0, 9) is None
    assert Turn(seen).given(1, 0) is None
    assert Turn(seen).given(0, 4) == "the group committed 5 of partition 0 and got 4 afterwards"


def test_commits_of_others_do_not_bind_a_turn_that_has_begun() -> None:
    """Its member has not heard yet that the partition is another's."""
    seen = GroupProgress(1)
    turn = Turn(seen)
    assert turn.given(0, 0) is None
    seen.committed(0, 100)
    assert turn.given(0, 1) is None


def test_a_turn_has_no_gaps_and_no_steps_back() -> None:
    turn = Turn(GroupProgress(1))
    assert turn.given(0, 4) is None
    assert turn.given(0, 6) == "got offset 6 of partition 0 after 4"
    assert turn.given(0, 6) == "got offset 6 of partition 0 after 6"


def test_committed_offsets_do_not_go_back_behind_an_answer() -> None:
    offsets = CommittedOffsets(GroupProgress(2))
    offsets.ask()
    assert [offsets.answer(0, 7), offsets.answer(1, 0)] == [None, None]
    offsets.ask()
    assert offsets.answer(1, 0) is None
    assert offsets.answer(0, 6) == "the committed offset of partition 0 went back from 7 to 6"


def test_committed_offsets_are_not_below_what_was_acknowledged_before_the_question() -> None:
    seen = GroupProgress(1)
    offsets = CommittedOffsets(seen)
    seen.committed(0, 3)
    offsets.ask()
    seen.committed(0, 9)
    assert offsets.answer(0, 3) is None
    offsets.ask()
    assert offsets.answer(0, 8) is not None
    assert offsets.answer_count == 2


def test_a_slow_commit_may_come_again_and_no_other() -> None:
    seen = GroupProgress(1)
    for offset in (3, 5, 9):
        seen.committed(0, offset)
    seen.was_slow(0, 5)
    offsets = CommittedOffsets(seen)
    offsets.ask()
    assert offsets.answer(0, 5) is None
    assert offsets.late_count == 1
    assert Turn(seen).given(0, 5) is None
    offsets.ask()
    assert offsets.answer(0, 3) == "the committed offset of partition 0 went back from 5 to 3"
    assert Turn(seen).given(0, 3) is not None


def test_behind_a_slow_commit_that_came_again_the_group_goes_on_from_there() -> None:
    seen = GroupProgress(1)
    for offset in (5, 9):
        seen.committed(0, offset)
    seen.was_slow(0, 5)
    assert Turn(seen).given(0, 5) is None
    seen.committed(0, 7)
    offsets = CommittedOffsets(seen)
    offsets.ask()
    assert (offsets.answer(0, 7), offsets.late_count) == (None, 0)
    offsets.ask()
    assert offsets.answer(0, 6) == "the committed offset of partition 0 went back from 7 to 6"
