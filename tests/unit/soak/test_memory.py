"""Growth is found over many short lives, youth is not taken for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.soak.cluster.memory import GROWTH_MIB_PER_MINUTE_MAX, MIB_MAX, NodeMemory

pytestmark = pytest.mark.campaign("unit")


def memory_of(lives: int, life_s: int, size_mib: Callable[[int, int], float]) -> NodeMemory:
    """`size_mib(life, age in seconds)`."""
    memory = NodeMemory()
    for life in range(lives):
        memory.begin()
        for age_s in range(0, life_s, 2):
            memory.add(float(age_s), size_mib(life, age_s))
    return memory


def test_a_leak_shows_through_restarts() -> None:
    leak = 2 * GROWTH_MIB_PER_MINUTE_MAX
    memory = memory_of(4, 240, lambda life, age_s: 100 + 7 * life + leak * age_s / 60)
    assert memory.growth_mib_per_minute() == pytest.approx(leak)
    problem = memory.problem()
    assert problem is not None and problem.startswith("grows by 8.0 MiB a minute")


def test_what_is_filled_in_youth_is_no_leak() -> None:
    memory = memory_of(4, 240, lambda life, age_s: 100 + min(age_s, 115) + (age_s % 4))
    assert memory.observed_s >= 300
    assert memory.problem() is None


def test_a_short_run_says_nothing_about_growth_and_all_about_size() -> None:
    memory = memory_of(1, 180, lambda life, age_s: 100 + 2 * age_s)
    assert memory.growth_mib_per_minute() > GROWTH_MIB_PER_MINUTE_MAX
    assert memory.problem() is None
    assert "too young" in memory.growth_text()
    problem = memory_of(1, 20, lambda life, age_s: MIB_MAX + 1).problem()
    assert problem is not None and "are allowed" in problem


def test_nothing_seen_is_nothing_wrong() -> None:
    assert NodeMemory().problem() is None
