"""Which figures two single servers are judged by, and how they are warmed and loaded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.criteria import Criterion, Evidence
from bench.runner import FULL, QUICK, SMOKE
from bench.standalone import criteria
from bench.standalone.__main__ import RUNS
from bench.standalone.plan import PARTS, plan_of
from bench.warm_up import has_settled, warm_up
from bench.workloads import pass_rates

pytestmark = pytest.mark.campaign("unit")


def raw_of(speed: float) -> dict[str, Any]:
    """Samples of a server so many times as good as another."""
    latencies = {"latency_p50_us": 300 / speed, "latency_p99_us": 900 / speed, "latency_p999_us": 2_000 / speed}
    return {
        "moments": {
            "ready": {"cpu_s": 0.0, "pss_mib": 100 / speed},
            "after_produce": {"cpu_s": 5 / speed, "pss_mib": 1_000 / speed},
            "at_end": {"cpu_s": 20 / speed, "pss_mib": 1_100 / speed},
        },
        "produce_1k": {"mib_per_s": 100 * speed, "server_cpu_s": 4 / speed, "gb": 1.0},
        "produce_100b": {"records_per_s": 400_000 * speed},
        "produce_10k_rps": latencies,
        "consume": {"mb_per_s": 500 * speed, "first_mb_per_s": 300 * speed, "server_cpu_s": 1 / speed, "gb": 2.0},
        "python_consume": {"mb_per_s": 400 * speed},
        "java_consume": {"mib_per_s": 450 * speed},
    }


def sides(bmq: dict[str, Any], kafka: dict[str, Any]) -> dict[str, Any]:
    return {"bmq": bmq, "kafka": kafka}


def judged(speed: float, idle_percent: float = 1.0) -> dict[str, Criterion]:
    many = {"start_s": [2.0, 9.0, 3.0], "idle_cpu_percent": idle_percent, "rss_mib": 200}
    ready = {"ready_s": [0.9, 1.0, 1.1]}
    parts = {
        criteria.EMPTY: sides(ready, ready),
        criteria.MANY: sides(many, many),
        criteria.PAIRS: {"wanted": 1, "pairs": [sides(raw_of(speed), raw_of(1.0))]},
    }
    measured = {part: {"revision": "abc", "definition": criteria.DEFINITIONS.get(part, 1)} for part in parts}
    found = criteria.judge(Evidence(parts, {}, measured, criteria.DEFINITIONS))
    return {one["id"]: one for one in found}


def test_all_ten_criteria_are_judged_by_their_bounds() -> None:
    found = judged(2.0)
    bounds = {name: (one["op"], one["bound"]) for name, one in found.items() if "holds" in one}
    assert bounds == {
        "produce_1k_ratio": (">=", 1.3),
        "produce_100b_ratio": (">=", 1.15),
        "p99_10k_rps_ratio": ("<=", 0.7),
        "consume_ratio": (">=", 1.3),
        "memory_ratio": ("<=", 0.5),
        "cpu_per_gb_ratio": ("<=", 0.5),
        "start_1000_partitions_s": ("<=", 5),
        "idle_cpu_1000_partitions_percent": ("<=", 3),
        "rss_1000_partitions_mib": ("<=", 300),
        "ready_s": ("<=", 1.5),
    }
    assert [name for name in bounds if not found[name]["holds"]] == []
    assert found["start_1000_partitions_s"]["value"] == 3.0
    assert found["cpu_per_gb_ratio"]["medians"] == {"bmq": 2.25, "rival": 4.5}
    assert found["p99_10k_rps_ratio"]["medians"] == {"bmq": 450, "rival": 900}


def test_what_is_worse_does_not_hold() -> None:
    found = judged(1.0, idle_percent=3.1)
    assert {name for name, one in found.items() if one.get("holds") is False} == {
        "produce_1k_ratio",
        "produce_100b_ratio",
        "p99_10k_rps_ratio",
        "consume_ratio",
        "memory_ratio",
        "cpu_per_gb_ratio",
        "idle_cpu_1000_partitions_percent",
    }


def test_all_consumers_and_the_end_of_the_run_are_shown_beside() -> None:
    found = judged(2.0)
    shown = (
        "python_consume_ratio",
        "java_consume_ratio",
        "consume_first_ratio",
        "memory_at_end_ratio",
        "cpu_at_end_ratio",
    )
    assert {found[name]["value"] for name in shown[:3]} == {2.0}
    assert {found[name]["value"] for name in shown[3:]} == {0.5}
    assert all("holds" not in found[name] for name in shown)


@pytest.mark.parametrize("size", [FULL, QUICK, SMOKE])
def test_every_part_is_run_in_every_size(size: str) -> None:
    assert plan_of(PARTS, ("bmq", "kafka"), size).parts == PARTS
    assert set(RUNS) == set(PARTS) == set(criteria.PART_OF.values())
    assert (plan_of(PARTS, (), FULL).pairs, plan_of(PARTS, (), FULL).partitions) == (5, 1_000)


def test_a_warm_up_ends_when_the_last_run_was_hardly_better_than_the_best() -> None:
    assert not has_settled([])
    assert not has_settled([100.0])
    assert not has_settled([100.0, 105.0])
    assert has_settled([100.0, 104.9])
    assert has_settled([100.0, 140.0, 120.0])
    rates = iter([100.0, 150.0, 155.0, 900.0])
    assert warm_up(lambda: next(rates), 8) == {"figures": [100.0, 150.0, 155.0], "runs_max": 8, "settled": True}
    rates = iter([100.0, 90.0, 150.0, 140.0, 900.0])
    assert warm_up(lambda: next(rates), 8, runs_min=4)["figures"] == [100.0, 90.0, 150.0, 140.0]


@given(st.lists(st.floats(1, 1e6), min_size=12, max_size=12), st.integers(1, 12))
def test_a_warm_up_has_an_end(rates: list[float], runs_max: int) -> None:
    left = iter(rates)
    found = warm_up(lambda: next(left), runs_max)
    assert 1 <= len(found["figures"]) <= runs_max
    assert found["settled"] or len(found["figures"]) == runs_max
    assert found["figures"] == rates[: len(found["figures"])]


def test_the_first_pass_and_the_later_ones_are_told_apart() -> None:
    found = pass_rates([2.0, 0.4, 0.6], 1_000_000_000)
    assert (found["first_mb_per_s"], found["mb_per_s"]) == (500, 2_000)
