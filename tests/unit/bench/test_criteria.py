"""Ratios are of pairs, medians are judged against their bounds, and what was not measured whole never holds."""

from __future__ import annotations

from typing import Any

import pytest

from bench.criteria import Absolute, Criterion, Evidence, Ratio, judge_absolute, judge_ratio, shortfall

pytestmark = pytest.mark.campaign("unit")

RATE = Ratio("rate_ratio", "pairs", "produce", "MB/s", ">=", 1.3, lambda raw: raw["load"]["mb_per_s"])
GAP = Absolute("gap_s", "kill", "gap", "s", 0.5, lambda raw: max(one["gap_s"] for one in raw["rounds"]))
ALONE = Absolute("ready_s", "start", "ready", "s", 1.5, lambda raw: raw["ready_s"], "nobody else is asked")
CLEAN = {"revision": "abc", "definition": 1}


def pair_of(ours: float, theirs: float = 100) -> dict[str, Any]:
    return {"bmq": {"load": {"mb_per_s": ours}}, "kafka": {"load": {"mb_per_s": theirs}}}


def rounds_of(*gaps_s: float, wanted: int | None = None) -> dict[str, Any]:
    return {"wanted": len(gaps_s) if wanted is None else wanted, "rounds": [{"gap_s": gap_s} for gap_s in gaps_s]}


def evidence(
    parts: dict[str, Any],
    failures: dict[str, list[str]] | None = None,
    origin: dict[str, Any] | None = None,
    definitions: dict[str, int] | None = None,
) -> Evidence:
    return Evidence(parts, failures or {}, dict.fromkeys(parts, origin or CLEAN), definitions or {})


def of_pairs(*pairs: dict[str, Any], wanted: int | None = None, **known: Any) -> Criterion:
    samples = {"wanted": len(pairs) if wanted is None else wanted, "pairs": list(pairs)}
    return judge_ratio(RATE, evidence({"pairs": samples}, **known))


def is_not_measured(one: Criterion) -> bool:
    return one["value"] is None and one["holds"] is False and one["reason"].startswith("not measured: ")


def test_the_median_of_the_pairs_is_judged() -> None:
    assert of_pairs(pair_of(200), pair_of(120), pair_of(400)) == {
        "id": "rate_ratio",
        "part": "pairs",
        "what": "produce",
        "unit": "MB/s",
        "op": ">=",
        "bound": 1.3,
        "value": 2.0,
        "holds": True,
        "rival": "Apache Kafka",
        "medians": {"bmq": 200, "rival": 100},
        "spread": [1.2, 2.0, 4.0],
    }


def test_a_bound_is_part_of_what_holds() -> None:
    assert of_pairs(pair_of(130))["holds"]
    assert not of_pairs(pair_of(129.9))["holds"]
    both = {"kill": {"bmq": rounds_of(0.5), "kafka": rounds_of(9)}}
    assert judge_absolute(GAP, evidence(both))["holds"]
    assert not judge_absolute(GAP, evidence({"kill": {**both["kill"], "bmq": rounds_of(0.5001)}}))["holds"]


@pytest.mark.parametrize(
    "pair",
    [
        {"bmq": {"load": {"mb_per_s": 900}}},
        {"bmq": {"load": {"mb_per_s": 900}}, "kafka": {"load": {"failure": "kafka: did not start"}}},
        {"bmq": {"load": {"mb_per_s": 900}}, "kafka": {"load": {"mb_per_s": 0}}},
        {"kafka": {"load": {"mb_per_s": 1}}},
        {},
    ],
)
def test_a_pair_without_one_side_is_not_left_out_of_the_median(pair: dict[str, Any]) -> None:
    found = of_pairs(pair_of(200), pair, pair_of(200))
    assert is_not_measured(found)
    assert "2 of 3 pairs" in found["reason"]
    assert found["spread"] == [2.0, 2.0, 2.0]


def test_pairs_that_are_missing_are_missed() -> None:
    assert is_not_measured(of_pairs(pair_of(200), wanted=3))
    assert is_not_measured(of_pairs(wanted=0))
    assert is_not_measured(judge_ratio(RATE, evidence({})))


def test_a_failure_of_either_side_takes_the_criterion_away() -> None:
    both = {"kill": {"bmq": rounds_of(0.1), "kafka": rounds_of(9)}}
    assert judge_absolute(GAP, evidence(both))["holds"]
    for reason in ("bmq: stuck", "kafka: did not start"):
        found = judge_absolute(GAP, evidence(both, {"kill": [reason]}))
        assert is_not_measured(found)
        assert reason in found["reason"]
        assert found["rival"] == 9


@pytest.mark.parametrize("side", ["bmq", "kafka"])
@pytest.mark.parametrize("rounds", [rounds_of(0.1, wanted=20), rounds_of(wanted=0), {}])
def test_rounds_that_are_missing_on_either_side_are_missed(side: str, rounds: dict[str, Any]) -> None:
    both = {"kill": {"bmq": rounds_of(0.1), "kafka": rounds_of(9), side: rounds}}
    assert is_not_measured(judge_absolute(GAP, evidence(both)))


def test_a_side_that_nobody_asked_for_leaves_nothing_judged() -> None:
    both = {"kill": {"bmq": rounds_of(0.1), "kafka": rounds_of(9)}}
    found = judge_absolute(GAP, evidence(both, origin={**CLEAN, "sides": ["kafka"]}))
    assert is_not_measured(found)
    assert "only kafka was measured" in found["reason"]


def test_who_has_no_rival_is_judged_alone() -> None:
    found = judge_absolute(ALONE, evidence({"start": {"bmq": {"ready_s": 1.0}}}))
    assert found["holds"]
    assert found["rival"] == "nobody else is asked"
    assert is_not_measured(judge_absolute(ALONE, evidence({"start": {"bmq": {}, "kafka": {"ready_s": 1.0}}})))


def test_samples_of_an_earlier_definition_are_kept_and_not_judged() -> None:
    found = of_pairs(pair_of(200), definitions={"pairs": 2})
    assert is_not_measured(found)
    assert found["medians"] == {"bmq": 200, "rival": 100}
    assert of_pairs(pair_of(200), definitions={"pairs": 2}, origin={**CLEAN, "definition": 2})["holds"]


@pytest.mark.parametrize("origin", [{"revision": "abc-dirty", "definition": 1}, {"definition": 1}])
def test_a_dirty_tree_proves_nothing(origin: dict[str, Any]) -> None:
    found = of_pairs(pair_of(200), origin=origin)
    assert is_not_measured(found)
    assert "dirty" in found["reason"]


def test_what_is_only_reported_is_shown_whatever_it_is_worth() -> None:
    shown = Ratio("rate", "pairs", "produce", "MB/s", "", 0, RATE.of)
    samples = {"pairs": {"wanted": 3, "pairs": [pair_of(200)]}}
    found = judge_ratio(shown, evidence(samples))
    assert (found["value"], found["reason"]) == (2.0, "1 of 3 pairs were measured on both sides")
    assert "holds" not in found and "bound" not in found


def test_a_shortfall_is_of_rounds_that_were_wanted() -> None:
    assert shortfall("bmq", {"seconds": 3}) == ""
    assert shortfall("bmq", rounds_of(1, 2)) == ""
    assert shortfall("bmq", rounds_of(1, wanted=2)) == "1 of 2 rounds of bmq"
