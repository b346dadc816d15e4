"""The criteria of a secure HDFS: which samples lead to which figure."""

from __future__ import annotations

from typing import Any

import pytest

from bench.criteria import Evidence
from bench.runner import FULL, QUICK, SMOKE
from bench.secure_hdfs.criteria import (
    APPEND,
    BULK,
    JAVA,
    JAVA_OPEN,
    OPEN,
    PART_OF,
    PARTS,
    PROTECTIONS,
    READ,
    READ_ON,
    SECURE,
    STREAM,
    TAKEOVER,
    judge,
)
from bench.secure_hdfs.plan import plan_of

pytestmark = pytest.mark.campaign("unit")


def judged(parts: dict[str, Any]) -> dict[str, Any]:
    measured = {part: {"revision": "abc"} for part in parts}
    return {one["id"]: one for one in judge(Evidence(parts, {}, measured, {}))}


def append(p50_ms: float) -> dict[str, Any]:
    return {APPEND: {"p50_ms": p50_ms, "p99_ms": 1.0, "cpu_us_per_ack": 100.0}}


def bulk(stream_mb_per_s: float, read_mb_per_s: float) -> dict[str, Any]:
    return {
        STREAM: {"mb_per_s": stream_mb_per_s, "cpu_s_per_gb": 1.0},
        READ: {"mb_per_s": 1000, "cpu_s_per_gb": 1.0},
        READ_ON: {"mb_per_s": read_mb_per_s, "cpu_s_per_gb": 1.0},
    }


def test_every_criterion_is_of_a_part_that_is_run() -> None:
    assert set(PART_OF.values()) == set(PARTS)


@pytest.mark.parametrize("size", [FULL, QUICK, SMOKE])
def test_each_size_measures_something_of_each_part(size: str) -> None:
    plan = plan_of(PARTS, ("bmq",), size)
    assert plan.parts == PARTS
    assert min(plan.pairs, plan.bulk_pairs, plan.takeovers, plan.sizes.appends, plan.sizes.stream_bytes) > 0
    assert plan.sizes.segment_bytes > max(plan.sizes.stream_bytes, plan.sizes.read_bytes)


@pytest.mark.parametrize(("protection", "allowed"), [("authentication", 1.05), ("integrity", 1.5), ("privacy", 1.5)])
def test_an_append_is_compared_with_the_open_hdfs_and_with_hadoops_client(protection: str, allowed: float) -> None:
    assert protection in PROTECTIONS
    for ours_ms, holds in ((allowed - 0.01, True), (allowed + 0.01, False)):
        pairs = [{OPEN: append(1.0), SECURE: append(ours_ms), JAVA: append(ours_ms * 0.99), JAVA_OPEN: append(0.5)}]
        found = judged({protection: {"wanted": 1, "pairs": pairs}})
        assert found[f"{protection}_append_open_ratio"]["holds"] is holds
        assert not found[f"{protection}_append_java_ratio"]["holds"]
        assert "holds" not in found[f"{protection}_java_append_open_ratio"]


def test_a_stream_and_a_read_are_compared_apart() -> None:
    pairs = [{SECURE: bulk(101, 99), JAVA: bulk(100, 100)}]
    found = judged({BULK: {"wanted": 1, "pairs": pairs}})
    assert found["privacy_stream_ratio"]["holds"] and not found["privacy_read_ratio"]["holds"]


def test_a_takeover_that_lost_something_does_not_hold() -> None:
    samples = {"wanted": 1, "rounds": [{}], "all": {"p50_ms": 60, "p99_ms": 251}, "lost_or_doubled": 1}
    found = judged({TAKEOVER: {"bmq": samples}})
    assert found["secure_takeover_p50_ms"]["holds"]
    assert not found["secure_takeover_p99_ms"]["holds"]
    assert not found["secure_takeover_lost_or_doubled"]["holds"]
