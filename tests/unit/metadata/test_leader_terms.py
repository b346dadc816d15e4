"""A partition's leaders over time are those of its changes, and the times without a leader add up."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.metadata.history import StateChange, StateChangeHistory
from bmq.metadata.image import NO_LEADER, PartitionImage
from bmq.metadata.leader_terms import LeaderTerm, leader_terms, leaderless_ms

pytestmark = pytest.mark.unit

PARTITION = PartitionImage(0, 2, 5, (1, 2), (1, 2))
CHANGE = st.tuples(st.integers(0, 1_000), st.integers(-1, 3))


def test_a_partition_with_its_first_leader_has_one_term_without_a_beginning() -> None:
    (term,) = leader_terms((), PARTITION)
    assert term == LeaderTerm(2, 5, None, None, "", 0)
    assert term.lasted_ms(99) is None
    assert leaderless_ms((term,), 99) == 0


def test_an_owner_that_follows_nobody_says_for_how_long() -> None:
    changes = (
        StateChange(1_000, 1, 2, "balance"),
        StateChange(4_000, NO_LEADER, 3, "node 1 was started again"),
        StateChange(4_500, NO_LEADER, 4, "no node lives"),
        StateChange(6_000, 2, 5, "it had no owner"),
    )
    terms = leader_terms(changes, PARTITION)
    assert terms == (
        LeaderTerm(2, 5, 6_000, None, "it had no owner", 2_000),
        LeaderTerm(NO_LEADER, 4, 4_500, 6_000, "no node lives", 0),
        LeaderTerm(NO_LEADER, 3, 4_000, 4_500, "node 1 was started again", 0),
        LeaderTerm(1, 2, 1_000, 4_000, "balance", 0),
    )
    assert [term.lasted_ms(7_000) for term in terms] == [1_000, 1_500, 500, 3_000]
    assert leaderless_ms(terms, 7_000) == 2_000


def test_a_partition_without_a_leader_now_counts_until_now() -> None:
    terms = leader_terms((StateChange(100, 1, 1, ""), StateChange(300, NO_LEADER, 2, "")), PARTITION)
    assert leaderless_ms(terms, 1_000) == 700
    assert leaderless_ms(terms, 200) == 0, "a clock that is behind makes no negative time"
    assert leaderless_ms(terms, None) == 0
    assert terms[0].lasted_ms(None) is None


def test_changes_without_a_time_have_no_length() -> None:
    changes = (StateChange(-1, NO_LEADER, 1, ""), StateChange(50, 1, 2, ""), StateChange(-1, NO_LEADER, 3, ""))
    terms = leader_terms((*changes, StateChange(90, 2, 4, "")), PARTITION)
    assert [(term.since_ms, term.until_ms) for term in terms] == [(90, None), (None, 90), (50, None), (None, 50)]
    assert terms[0].leaderless_before_ms == terms[2].leaderless_before_ms == 0
    assert leaderless_ms(terms, 100) == 0


@given(st.lists(CHANGE, min_size=1, max_size=40), st.integers(0, 2_000))
def test_terms_follow_the_changes_also_over_clocks_that_go_back(changes: list[tuple[int, int]], now_ms: int) -> None:
    history = StateChangeHistory()
    for epoch, (at_ms, leader) in enumerate(changes, 1):
        history.add(UUID(int=1), 0, StateChange(at_ms, leader, epoch, "why"))
    terms = leader_terms(history.of(UUID(int=1), 0), PARTITION)
    assert [(term.since_ms, term.leader) for term in reversed(terms)] == changes
    assert [term.leader_epoch for term in terms] == list(range(len(changes), 0, -1))
    assert all((length := term.lasted_ms(now_ms)) is not None and length >= 0 for term in terms)
    closed = sum(term.lasted_ms(now_ms) or 0 for term in terms[1:] if term.leader == NO_LEADER)
    before = sum(term.leaderless_before_ms for term in terms)
    trailing = 0
    for term in terms:
        if term.leader != NO_LEADER:
            break
        trailing += 0 if term is terms[0] else term.lasted_ms(now_ms) or 0
    assert before == closed - trailing, "each time without a leader stands before the leader that ended it"
