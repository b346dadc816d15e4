"""A plan of a cluster's faults follows from its seed, has every kind soon, and never takes two nodes at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.cluster.plan import (
    CONTROLLER,
    FIRST_S,
    GONE,
    HAZARDS,
    LASTS_S,
    OTHERS,
    QUIET_END_S,
    QUIET_S,
    Kind,
    Phase,
    plan,
)

pytestmark = pytest.mark.campaign("unit")

NODES, DATANODES = 4, 3
SEEDS = st.integers(0, 2**32)
DURATIONS_S = st.floats(30, 3_600)


@given(SEEDS, DURATIONS_S)
def test_every_kind_is_in_every_round(seed: int, duration_s: float) -> None:
    phases = plan(seed, duration_s, NODES, DATANODES).phases
    assert len(phases) >= len(OTHERS)
    for start in range(0, len(phases) - len(OTHERS) + 1, len(OTHERS)):
        kinds = [fault.kind for phase in phases[start : start + len(OTHERS)] for fault in phase.faults]
        assert sorted(kinds) == sorted(set(Kind) - HAZARDS)


@given(SEEDS, DURATIONS_S, st.sets(st.sampled_from(sorted(HAZARDS))))
def test_hazards_are_in_every_round_where_they_are_asked_for(seed: int, duration_s: float, hazards: set[Kind]) -> None:
    found = plan(seed, duration_s, NODES, DATANODES, frozenset(hazards))
    kinds = [fault.kind for phase in found.phases[: found.round_phases] for fault in phase.faults]
    assert sorted(kinds) == sorted((set(Kind) - HAZARDS) | hazards)
    assert found.is_due(found.round_phases - 1, 10 * duration_s, duration_s)


@given(SEEDS, DURATIONS_S)
def test_at_most_one_node_is_gone_beside_one_other_fault(seed: int, duration_s: float) -> None:
    for phase in plan(seed, duration_s, NODES, DATANODES).phases:
        gone = [fault for fault in phase.faults if fault.kind in GONE]
        assert len(gone) <= 1
        assert len(phase.faults) - len(gone) == 1


@given(SEEDS, DURATIONS_S)
def test_faults_are_within_their_bounds(seed: int, duration_s: float) -> None:
    for phase in plan(seed, duration_s, NODES, DATANODES).phases:
        assert QUIET_S[0] <= phase.quiet_s <= QUIET_S[1]
        for fault in phase.faults:
            low_s, high_s = LASTS_S[fault.kind]
            assert low_s <= fault.lasts_s <= high_s
            assert 0 <= fault.other < NODES - 1
            assert 0 <= fault.target < DATANODES or (
                fault.kind is not Kind.DATANODE_KILL and CONTROLLER <= fault.target <= NODES
            )


@given(SEEDS, st.floats(300, 3_600))
def test_a_long_plan_fits_its_time_and_leaves_the_end_quiet(seed: int, duration_s: float) -> None:
    phases = plan(seed, duration_s, NODES, DATANODES).phases
    assert FIRST_S + sum(phase.seconds for phase in phases) <= duration_s - QUIET_END_S
    assert sum(phase.seconds for phase in phases) > duration_s / 2


def test_a_phase_that_would_come_too_late_is_left_out_but_for_the_first_round() -> None:
    found = plan(1, 600.0, NODES, DATANODES)
    last = len(found.phases) - 1
    late_s = 600.0 - QUIET_END_S - found.phases[last].seconds
    assert found.is_due(last, late_s, 600.0)
    assert not found.is_due(last, late_s + 0.1, 600.0)
    assert found.is_due(len(OTHERS) - 1, 700.0, 600.0)
    assert not found.is_due(len(OTHERS), 700.0, 600.0)


def test_the_seed_decides() -> None:
    assert plan(1, 600.0, NODES, DATANODES) == plan(1, 600.0, NODES, DATANODES)
    assert plan(1, 600.0, NODES, DATANODES) != plan(2, 600.0, NODES, DATANODES)


def test_short_runs_have_short_faults() -> None:
    def longest(phases: tuple[Phase, ...]) -> float:
        return sum(phase.seconds for phase in phases[: len(OTHERS)])

    assert longest(plan(3, 60.0, NODES, DATANODES).phases) < longest(plan(3, 3_600.0, NODES, DATANODES).phases)
