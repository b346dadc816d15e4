"""The figures of a cluster under librdkafka, and who is judged against whom."""

from __future__ import annotations

from typing import Any

import pytest

from bench.criteria import Criterion, Evidence
from bench.loads import criteria
from bench.loads.plan import PARTS, plan_of
from bench.runner import FULL, QUICK, SMOKE

pytestmark = pytest.mark.campaign("unit")


def raw_of(speed: float) -> dict[str, Any]:
    """Samples of a cluster so many times as good as another."""
    produced = {"records": 1e6 * speed, "seconds": 8.0, "server_cpu_s": 10.0, "server_user_s": 2.0}
    latencies = dict.fromkeys(("p50_us", "p99_us", "p999_us"), 1000 / speed)
    read = {"first_mb_per_s": 500 * speed, "mb_per_s": 800 * speed}
    return {
        **dict.fromkeys(("produce_1k", "produce_100b", "partitions_300", "partitions_1000"), produced),
        "rate_10k": {"acknowledged": latencies, "consumed": latencies},
        **dict.fromkeys(("fresh_backlog", "old_backlog"), read),
        "fresh_java": {"mib_per_s_of_passes": [400 * speed]},
        "idle_consumers": {"server_cpu_s": 2.0 / speed, "seconds": 8.0},
        "memory": {"pss_mib": 1_000 / speed},
    }


def judged(speed: float) -> dict[str, Criterion]:
    bmq = {**raw_of(speed), "raw_hdfs": {"fanout": 500.0, "java": 300.0}}
    parts = {
        criteria.PAIRS: {"wanted": 1, "pairs": [{"bmq": bmq, "kafka": raw_of(1.0)}]},
        criteria.WORKERS: {
            "wanted": 1,
            "pairs": [
                {
                    "one": {"fetch_mb_per_s": 1_000, "produce_mb_per_s": 200},
                    "two": {"fetch_mb_per_s": 1_600, "produce_mb_per_s": 210},
                }
            ],
        },
    }
    measured = {part: {"revision": "abc"} for part in parts}
    return {one["id"]: one for one in criteria.judge(Evidence(parts, {}, measured, {}))}


def test_what_holds() -> None:
    found = judged(4.0)
    held = {name: one["holds"] for name, one in found.items() if "holds" in one}
    assert {name for name, holds in held.items() if not holds} == {
        "user_cpu_per_gb_ratio",
        "produce_1000_partitions_ratio",
        "overload_p99_ratio",  # not measured
    }
    assert found["user_cpu_per_gb_ratio"]["value"] == found["cpu_per_gb_ratio"]["value"] == 0.25
    assert found["cpu_per_gb_ratio"]["medians"] == {"bmq": round(10 / 4.096, 4), "rival": round(10 / 1.024, 4)}
    assert found["idle_consumers_1000_cpu_ratio"]["medians"] == {"bmq": 6.25, "rival": 25.0}
    assert judged(5.0)["produce_1000_partitions_ratio"]["holds"]


def test_the_raw_writer_is_the_faster_one() -> None:
    share = judged(3.0)["raw_hdfs_share"]
    assert share["medians"] == {"bmq": 384.0, "rival": 500.0}
    assert share["value"] == 0.768 and share["holds"]
    assert not judged(2.0)["raw_hdfs_share"]["holds"]


def test_two_nodes_are_judged_against_one() -> None:
    found = judged(1.0)
    assert found["workers_2_ratio"]["value"] == 1.6 and found["workers_2_ratio"]["holds"]
    assert found["workers_2_produce_ratio"]["value"] == 1.05 and "holds" not in found["workers_2_produce_ratio"]


def test_overload_is_judged_by_the_producer_that_behaves() -> None:
    def raw(p99_us: float, memory_mib: float) -> dict[str, Any]:
        window = {"p99_us": p99_us, "fast_mb_per_s": 50.0}
        samples = [{"node 1": 100.0, "node 2": memory_mib}, {"node 1": 90.0, "node 2": 10.0}]
        return {"calm": {"p99_us": 5.0}, "crowded": window, "stalled": {"p99_us": 300.0}, "memory_pss_mib": samples}

    parts = {criteria.OVERLOAD: {"wanted": 1, "pairs": [{"bmq": raw(200.0, 50.0), "kafka": raw(100.0, 200.0)}]}}
    evidence = Evidence(parts, {}, {criteria.OVERLOAD: {"revision": "abc"}}, {})
    found = {one["id"]: one for one in criteria.judge(evidence)}
    assert found["overload_p99_ratio"]["value"] == 2.0 and not found["overload_p99_ratio"]["holds"]
    assert found["overload_memory_ratio"]["value"] == 0.5
    assert found["overload_stalled_p99_ratio"]["value"] == 1.5


def test_a_load_that_failed_is_not_judged() -> None:
    kafka = raw_of(1.0)
    del kafka["rate_10k"]
    parts = {criteria.PAIRS: {"wanted": 1, "pairs": [{"bmq": raw_of(2.0), "kafka": kafka}]}}
    found = criteria.judge(Evidence(parts, {}, {criteria.PAIRS: {"revision": "abc"}}, {}))
    by_id = {one["id"]: one for one in found}
    assert by_id["p99_10k_rps_ratio"]["value"] is None and not by_id["p99_10k_rps_ratio"]["holds"]
    assert by_id["produce_1k_ratio"]["holds"]


@pytest.mark.parametrize("size", [FULL, QUICK, SMOKE])
def test_every_size_has_a_plan(size: str) -> None:
    plan = plan_of(PARTS, ("bmq", "kafka"), size)
    assert set(plan.parts) <= set(PARTS) and criteria.PAIRS in plan.parts
    assert set(criteria.PART_OF.values()) == set(PARTS)
