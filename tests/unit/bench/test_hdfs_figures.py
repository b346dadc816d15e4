"""Percentiles, ratios and verdicts of the HDFS benchmarks, and the contents by which a lost byte is found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.hdfs import criteria
from bench.hdfs.figures import around_changes, latency_summary, percentile, spread
from bench.hdfs.pattern import content, problem

pytestmark = pytest.mark.unit


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
    }
    assert spread([2.0, 1.0, 4.0]) == {"min": 1.0, "median": 2.0, "max": 4.0, "pairs": [2.0, 1.0, 4.0]}


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

    loads = {load for ratio in (*criteria.RATIOS, *criteria.MORE_RATIOS) for _, load in (ratio.ours, ratio.theirs)}
    return {
        "fanout": {load: raw(speed) for load in loads},
        "pipeline": {load: raw(speed) for load in loads},
        "java": {load: raw(1.0) for load in loads},
        "native": {load: raw(1.0) for load in loads},
    }


def takeover_of(p50_ms: float) -> dict[str, Any]:
    return {"all": {"p50_ms": p50_ms, "p99_ms": 3 * p50_ms, "max_ms": 10 * p50_ms}}


ALONE = {
    "takeover": takeover_of(20),
    "takeover_dead_datanode": takeover_of(300),
    "takeover_hung_datanode": takeover_of(250),
    "takeover_contents": {"lost_or_doubled": 0},
    "roll": {"around": {"p99_ms": 3.0}, "elsewhere": {"p99_ms": 1.5}},
}


def test_the_medians_of_the_pairs_and_the_figures_alone_are_judged() -> None:
    pairs = [pair_of(speed) for speed in (2.0, 1.0, 4.0)]
    found = {one["id"]: one for one in criteria.evaluate(pairs, ALONE, {})}
    assert found["append_16k_p50_ratio"]["value"] == 0.5
    assert found["stream_ratio"]["value"] == 2.0
    assert found["cpu_per_gb_pipeline_ratio"] == {
        "id": "cpu_per_gb_pipeline_ratio",
        "value": 0.5,
        "op": "<=",
        "bound": 0.5,
        "holds": True,
    }
    assert (found["takeover_p50_ms"]["value"], found["takeover_p99_ms"]["value"]) == (20, 60)
    assert not found["takeover_dead_datanode_p50_ms"]["holds"]
    assert found["takeover_hung_datanode_s"]["value"] == 2.5
    assert found["takeover_lost_or_doubled"]["holds"]
    assert found["roll_p99_ratio"]["value"] == 2.0
    assert len(found) == len(criteria.RATIOS) + len(criteria.ABSOLUTES)


def test_a_smaller_latency_and_a_greater_rate_are_both_better() -> None:
    spreads = criteria.ratio_spreads([pair_of(2.0)])
    for ratio in (*criteria.RATIOS, *criteria.MORE_RATIOS):
        assert spreads[ratio.id]["median"] == (2.0 if ratio.above_1 == "bmq is faster" else 0.5)


def test_what_was_not_measured_is_named_with_its_reason() -> None:
    pair = pair_of(1.0)
    del pair["java"]["stream"]
    found = {
        one["id"]: one for one in criteria.evaluate([pair], {}, {"stream": ["java: it ended"], "roll": ["no room"]})
    }
    assert found["stream_ratio"]["value"] is None
    assert not found["stream_ratio"]["holds"]
    assert found["stream_ratio"]["reason"] == "not measured: java: it ended"
    assert found["roll_p99_ratio"]["reason"] == "not measured: no room"
    assert found["takeover_p99_ms"]["reason"] == "not measured: it was not run"
    assert found["append_16k_p50_ratio"]["value"] == 1.0
    assert found["takeover_p50_ms"]["value"] is None
