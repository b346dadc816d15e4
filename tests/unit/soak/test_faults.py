"""A plan follows from its seed, has every kind of fault soon, and leaves the end quiet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.faults import HAZARDS, QUIET_END_S, Fault, Kind, Plan, Track, is_due, plan

pytestmark = pytest.mark.campaign("unit")

DATANODES = 3


@given(st.integers(0, 2**32))
def test_every_kind_is_among_the_first_of_ninety_seconds_and_the_end_is_quiet(seed: int) -> None:
    found = plan(seed, 90.0, DATANODES)
    assert first_kinds(found) == set(Kind) - HAZARDS
    for track in (found.datanodes, found.others):
        assert sum(fault.after_s + fault.lasts_s for fault in track.faults) <= 90.0 - QUIET_END_S + 0.1


def first_kinds(found: Plan) -> set[Kind]:
    """Of the first round of each track."""
    return {fault.kind for track in (found.datanodes, found.others) for fault in track.faults[: track.round_faults]}


@given(st.integers(0, 2**32), st.sets(st.sampled_from(sorted(HAZARDS))))
def test_hazards_are_among_the_first_of_three_minutes_where_they_are_asked_for(seed: int, hazards: set[Kind]) -> None:
    found = plan(seed, 180.0, DATANODES, frozenset(hazards))
    assert first_kinds(found) == set(Kind) - HAZARDS | hazards


@given(st.integers(0, 2**32), st.floats(30, 3_600))
def test_there_is_time_to_recover_between_faults(seed: int, duration_s: float) -> None:
    found = plan(seed, duration_s, DATANODES)
    assert all(fault.after_s >= 4.0 for fault in (*found.datanodes.faults, *found.others.faults))
    assert all(0 <= fault.target < DATANODES for fault in found.datanodes.faults)


def test_a_fault_that_would_come_too_late_is_left_out_but_for_the_first_round() -> None:
    track = Track((Fault(Kind.DATANODE_PAUSE, after_s=5.0, lasts_s=10.0),) * 3, round_faults=2)
    assert is_due(track, 2, now_s=90.0 - QUIET_END_S - 15.0, duration_s=90.0)
    assert not is_due(track, 2, now_s=90.1 - QUIET_END_S - 15.0, duration_s=90.0)
    assert is_due(track, 1, now_s=200.0, duration_s=90.0)


def test_the_seed_decides() -> None:
    assert plan(1, 600.0, DATANODES) == plan(1, 600.0, DATANODES)
    assert plan(1, 600.0, DATANODES) != plan(2, 600.0, DATANODES)
