"""What is judged of bench/topics, and how much each size asks for."""

from __future__ import annotations

from typing import Any

import pytest

from bench.criteria import Evidence
from bench.runner import FULL, QUICK, SMOKE
from bench.topics.__main__ import RUNS
from bench.topics.criteria import BESIDE, COMPACTION, KEYS, PART_OF, judge
from bench.topics.plan import PARTS, plan_of

pytestmark = pytest.mark.unit

SIDES = ("bmq", "kafka")


def evidence(**parts: Any) -> Evidence:
    measured = {part: {"revision": "abc"} for part in parts}
    return Evidence(parts, {}, measured, {})


def found(**parts: Any) -> dict[str, Any]:
    return {one["id"]: one for one in judge(evidence(**parts))}


def test_every_part_is_run_and_judged() -> None:
    assert set(RUNS) == set(PARTS) == set(PART_OF.values())
    for size in (FULL, QUICK, SMOKE):
        plan = plan_of(PARTS, SIDES, size)
        assert (plan.parts, plan.sides) == (PARTS, SIDES)


def test_compaction_is_judged_by_processor_time_and_rate() -> None:
    ours = {"cpu_s": 6.0, "gb": 2.0, "seconds": 10.0}
    theirs = {"cpu_s": 4.0, "gb": 2.0, "seconds": 5.0}
    criteria = found(**{COMPACTION: {"wanted": 1, "pairs": [{"bmq": ours, "kafka": theirs}]}})
    assert criteria["compaction_cpu_per_gb_ratio"]["value"] == 1.5
    assert criteria["compaction_cpu_per_gb_ratio"]["holds"]
    assert criteria["compaction_rate_ratio"]["value"] == 0.5
    assert not criteria["compaction_rate_ratio"]["holds"]
    assert criteria["compaction_memory_mib"]["value"] is None


def test_producers_are_compared_with_those_of_the_same_side() -> None:
    pair = {
        "bmq": {"with": {"latency_p99_us": 3_000}, "without": {"latency_p99_us": 2_000}},
        "kafka": {"with": {"latency_p99_us": 9_000}, "without": {"latency_p99_us": 3_000}},
    }
    criteria = found(**{BESIDE: {"wanted": 1, "pairs": [pair]}})
    assert criteria["compaction_produce_p99_ratio"]["value"] == 1.5
    assert criteria["kafka_compaction_produce_p99_ratio"]["value"] == 3


def test_memory_is_that_of_the_process_that_cleans() -> None:
    sides = {"bmq": {"worker_pss_mib": 250.0}, "kafka": {"worker_pss_mib": 0.0}}
    criterion = found(**{KEYS: sides})["compaction_memory_mib"]
    assert (criterion["value"], criterion["holds"]) == (250.0, False)
