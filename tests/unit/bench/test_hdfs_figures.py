"""Percentiles, ratios and verdicts of the HDFS benchmarks, and the contents by which a lost byte is found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.criteria import Criterion, Evidence
from bench.hdfs import criteria
from bench.hdfs.figures import around_changes, histogram, latency_summary, percentile
from bench.hdfs.loads import CONTENDERS_OF
from bench.hdfs.pattern import content, problem
from bench.hdfs.plan import plan_of
from bench.runner import FULL, SMOKE

pytestmark = pytest.mark.campaign("unit")


def test_a_percentile_is_one_of_the_samples() -> None:
    samples = [float(number) for number in range(200, 0, -1)]
    assert percentile(samples, 0.5) == 100
    assert percentile(samples, 0.99) == 198
    assert percentile(samples, 1) == 200
    assert percentile(samples, 0) == 1
    assert percentile([7.0], 0.99) == 7.0


@pytest.mark.parametrize(("samples", "share"), [([], 0.5), ([1.0], 1.1), ([1.0], -0.1)])
def test_a_percentile_of_nothing_is_refused(samples: list[float], share: float) -> None:
    with pytest.raises(ValueError, match=r"percentile|share"):
        percentile(samples, share)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_so_many_samples_do_not_exceed_a_percentile(samples: list[float], share: float) -> None:
    value = percentile(samples, share)
    assert value in samples
    assert sum(sample <= value for sample in samples) >= share * len(samples) - 1e-6 * len(samples)


def test_summaries_are_in_milliseconds() -> None:
    assert latency_summary([1000, 3000, 2000]) == {
        "count": 3,
        "p50_ms": 2.0,
        "p90_ms": 3.0,
        "p99_ms": 3.0,
        "max_ms": 3.0,
        "histogram_us": "1067:1 2080:1 3045:1",
    }


@given(st.lists(st.floats(0, 1e7), max_size=50))
def test_a_histogram_has_every_sample_in_a_bucket_that_is_hardly_greater(samples: list[float]) -> None:
    buckets = [tuple(map(int, bucket.split(":"))) for bucket in histogram(samples).split()]
    uppers = [upper for upper, count in buckets for _ in range(count)]
    assert len(uppers) == len(samples)
    for upper, sample in zip(uppers, sorted(samples), strict=True):
        assert sample <= upper + 0.5
        assert upper <= max(10, 1.1 * sample + 1)


def test_places_around_a_change_are_those_on_both_sides_of_it() -> None:
    assert around_changes([0] * 5 + [1] * 5, 2) == {3, 4, 5, 6}
    assert around_changes([0, 1, 1, 1, 2], 3) == {0, 1, 2, 3, 4}
    assert around_changes([4] * 9, 3) == set()
    assert around_changes([], 3) == set()


@given(st.integers(0, 1000), st.integers(0, 100_000), st.integers(0, 5_000))
def test_any_part_of_a_content_is_the_same_wherever_it_is_cut(number: int, position: int, length: int) -> None:
    whole = content(number, 0, position + length)
    assert content(number, position, length) == whole[position:]


def test_contents_repeat_nowhere() -> None:
    data = content(5, 0, 80_000)
    words = {data[position : position + 8] for position in range(0, len(data), 8)}
    assert len(words) == len(data) // 8
    assert words.isdisjoint(content(6, begin, 8) for begin in range(0, 800, 8))


@given(st.integers(16, 5_000), st.data())
def test_a_byte_that_is_missing_doubled_or_changed_is_found(length: int, data: st.DataObject) -> None:
    right = content(9, 0, length)
    acknowledged = data.draw(st.integers(0, length))
    assert problem(9, right, acknowledged) is None
    assert problem(9, right[: acknowledged - 1], acknowledged) is not None or acknowledged == 0
    place = data.draw(st.integers(0, length - 9))
    for wrong in (
        right[:place] + right[place + 8 :],
        right[:place] + right[place : place + 8] + right[place:],
        right[:place] + bytes([right[place] ^ 1]) + right[place + 1 :],
    ):
        assert problem(9, wrong, 0) is not None
    assert problem(8, right, 0) is not None


def pair_of(speed: float) -> dict[str, Any]:
    """Both sides measured, bmq `speed` times as good as its rival in everything."""

    def raw(factor: float) -> dict[str, float]:
        return {
            "p50_ms": 1 / factor,
            "p99_ms": 9 / factor,
            "acks_per_s": 100 * factor,
            "mb_per_s": 100 * factor,
            "cpu_s_per_gb": 1 / factor,
            "cpu_us_per_ack": 10 / factor,
        }

    return {
        "fanout": {load: raw(speed) for load in CONTENDERS_OF},
        "pipeline": {load: raw(speed) for load in CONTENDERS_OF},
        "java": {load: raw(1.0) for load in CONTENDERS_OF},
        "native": {load: raw(1.0) for load in CONTENDERS_OF},
    }


def takeover_of(p50_ms: float, lost_or_doubled: int = 0, wanted: int = 2) -> dict[str, Any]:
    times = {"p50_ms": p50_ms, "p99_ms": 3 * p50_ms, "max_ms": 10 * p50_ms}
    return {"wanted": wanted, "rounds": [{}, {}], "all": times, "lost_or_doubled": lost_or_doubled}


ALONE: dict[str, dict[str, Any]] = {
    "takeover": takeover_of(20),
    "takeover_dead_datanode": takeover_of(300),
    "takeover_hung_datanode": takeover_of(250),
    "roll": {"around": {"p99_ms": 3.0}, "elsewhere": {"p99_ms": 1.5}},
}


def judged(
    pairs: list[dict[str, Any]], alone: dict[str, dict[str, Any]], failures: dict[str, list[str]] | None = None
) -> dict[str, Criterion]:
    parts: dict[str, Any] = {part: {"bmq": raw} for part, raw in alone.items()}
    parts[criteria.LOADS] = {"wanted": len(pairs), "pairs": pairs}
    measured = {part: {"revision": "abc", "definition": 1} for part in parts}
    return {one["id"]: one for one in criteria.judge(Evidence(parts, failures or {}, measured, criteria.DEFINITIONS))}


def test_the_medians_of_the_pairs_and_the_figures_alone_are_judged() -> None:
    found = judged([pair_of(speed) for speed in (2.0, 1.0, 4.0)], ALONE)
    assert found["append_16k_p50_ratio"]["value"] == 0.5
    assert found["stream_ratio"]["value"] == 2.0
    assert found["cpu_per_gb_pipeline_ratio"]["value"] == 0.5
    assert found["cpu_per_gb_pipeline_ratio"]["holds"]
    assert (found["takeover_p50_ms"]["value"], found["takeover_p99_ms"]["value"]) == (20, 60)
    assert not found["takeover_dead_datanode_p50_ms"]["holds"]
    assert found["takeover_hung_datanode_s"]["value"] == 2.5
    assert found["takeover_lost_or_doubled"]["holds"]
    assert found["roll_p99_ratio"]["value"] == 2.0


def test_the_bounds_are_those_that_were_asked_for() -> None:
    bounds = {name: (one["op"], one["bound"]) for name, one in judged([pair_of(1.0)], ALONE).items() if "holds" in one}
    assert bounds == {
        "append_16k_p50_ratio": ("<=", 1.0),
        "append_16k_hsync_p50_ratio": ("<=", 1.2),
        "outstanding_64_acks_ratio": (">=", 1.0),
        "stream_ratio": (">=", 0.6),
        "cpu_per_gb_fanout_ratio": ("<=", 1.0),
        "cpu_per_gb_pipeline_ratio": ("<=", 0.5),
        "read_closed_ratio": (">=", 1.0),
        "takeover_p50_ms": ("<=", 40),
        "takeover_p99_ms": ("<=", 150),
        "takeover_lost_or_doubled": ("<=", 0),
        "takeover_dead_datanode_p50_ms": ("<=", 200),
        "takeover_hung_datanode_s": ("<=", 3),
        "roll_p99_ratio": ("<=", 2),
    }


def test_the_rival_is_named() -> None:
    found = judged([pair_of(1.0)], ALONE)
    assert (found["stream_ratio"]["rival"], found["read_closed_ratio"]["rival"]) == ("Hadoop's client", "hdfs-native")


def test_what_was_not_measured_is_named_with_its_reason() -> None:
    pair = pair_of(1.0)
    pair["java"]["stream"] = {"failure": "java: it ended"}
    found = judged([pair, pair_of(1.0)], {}, {"roll": ["no room"]})
    for name in ("stream_ratio", "cpu_per_gb_fanout_ratio", "cpu_per_gb_pipeline_ratio"):
        assert (found[name]["value"], found[name]["holds"]) == (None, False)
        assert "1 of 2 pairs" in found[name]["reason"]
    assert found["roll_p99_ratio"]["reason"] == "not measured: no room"
    assert found["takeover_p99_ms"]["reason"] == "not measured: it was not run"
    assert found["append_16k_p50_ratio"]["value"] == 1.0


@pytest.mark.parametrize(
    ("hung", "value"), [(takeover_of(250, 2), 2), (takeover_of(250, 2, wanted=15), None), (None, None)]
)
def test_contents_are_judged_over_takeovers_of_every_kind(hung: dict[str, Any] | None, value: int | None) -> None:
    alone = {**ALONE, "takeover_hung_datanode": hung} if hung else {part: ALONE[part] for part in list(ALONE)[:2]}
    found = judged([pair_of(1.0)], alone)["takeover_lost_or_doubled"]
    assert (found["value"], found["holds"]) == (value, False)
    assert ("takeover_hung_datanode: " in found.get("reason", "")) == (value is None)


def test_the_default_of_every_jvm_is_reported_and_not_judged() -> None:
    names = {ratio.id for ratio in criteria.WITH_JVM_DEFAULTS}
    assert len(names) == 7
    assert all("holds" not in judged([pair_of(1.0)], ALONE)[name] for name in names)
    assert (plan_of(criteria.PARTS, ("bmq",), FULL).takeovers, plan_of(criteria.PARTS, ("bmq",), FULL).pairs) == (
        200,
        9,
    )
    assert plan_of(criteria.PARTS, ("bmq",), SMOKE).parts == criteria.PARTS[:-1]
