"""Ratios are of pairs, medians are judged against their bounds, and what was not measured is said to be so."""

from __future__ import annotations

from typing import Any

import pytest

from bench.criteria import evaluate

pytestmark = pytest.mark.unit


def raw_of(speed: float) -> dict[str, Any]:
    return {
        "produce_1k": {"mib_per_s": 100 * speed, "server_cpu_s": 4 / speed, "gb": 1.0},
        "produce_100b": {"records_per_s": 400_000 * speed},
        "produce_10k_rps": {"latency_p99_ms": 10 / speed},
        "consume": {"mb_per_s": 500 * speed, "server_cpu_s": 1 / speed, "gb": 2.0},
        "memory_after_produce": {"pss_mib": 1_000 / speed},
    }


ALONE = {
    "ready_s": [0.9, 1.0, 1.1],
    "many_partitions": {"start_s": [2.0, 9.0, 3.0], "idle_cpu_percent": 4.0, "rss_mib": 200},
    "failures": [],
}
IDS = [
    "produce_1k_ratio",
    "produce_100b_ratio",
    "p99_10k_rps_ratio",
    "consume_ratio",
    "memory_ratio",
    "cpu_per_gb_ratio",
    "start_1000_partitions_s",
    "idle_cpu_1000_partitions_percent",
    "rss_1000_partitions_mib",
    "ready_s",
]


def test_medians_of_pairs_are_judged() -> None:
    pairs = [{"order": [], "bmq": raw_of(speed), "kafka": raw_of(1.0)} for speed in (2.0, 1.2, 4.0)]
    judged = {criterion["id"]: criterion for criterion in evaluate(pairs, ALONE)}
    assert list(judged) == IDS
    assert judged["produce_1k_ratio"] == {
        "id": "produce_1k_ratio",
        "value": 2.0,
        "op": ">=",
        "bound": 1.3,
        "holds": True,
    }
    assert judged["cpu_per_gb_ratio"]["value"] == 0.5
    assert judged["cpu_per_gb_ratio"]["holds"]
    assert judged["start_1000_partitions_s"]["value"] == 3.0
    assert not judged["idle_cpu_1000_partitions_percent"]["holds"]
    assert judged["ready_s"]["holds"]


def test_a_bound_is_part_of_what_holds_on_both_sides() -> None:
    exact = evaluate([{"order": [], "bmq": raw_of(1.3), "kafka": raw_of(1.0)}], ALONE)
    assert exact[0]["value"] == 1.3
    assert exact[0]["holds"]
    too_little = evaluate([{"order": [], "bmq": raw_of(1.299), "kafka": raw_of(1.0)}], ALONE)
    assert not too_little[0]["holds"]


def test_what_was_not_measured_is_named_with_its_reason() -> None:
    broken = {"ready_s": 1.0, "failure": "bmq: the producer got no answer"}
    judged = evaluate([{"order": [], "bmq": broken, "kafka": raw_of(1.0)}], {"failures": ["bmq ready_s: port taken"]})
    assert [criterion["id"] for criterion in judged] == IDS
    assert {(criterion["value"], criterion["holds"]) for criterion in judged} == {(None, False)}
    assert "the producer got no answer" in judged[0]["reason"]
    assert "port taken" in judged[-1]["reason"]


def test_a_pair_with_one_server_is_left_out_of_the_ratios() -> None:
    whole = {"order": [], "bmq": raw_of(1.5), "kafka": raw_of(1.0)}
    half = {"order": [], "bmq": raw_of(99.0), "kafka": {"failure": "kafka: did not start"}}
    assert evaluate([whole, half], ALONE)[0]["value"] == 1.5
