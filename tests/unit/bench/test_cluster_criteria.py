"""Which figure each criterion of a cluster is judged by, what is measured for it, and that nothing unmeasured ever holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cluster import criteria
from bench.cluster.criteria import BOUNDS, PAIRS, SEPARATE, VARIANTS
from bench.cluster.moves import BOOKKEEPING_BYTES, copied, next_broker, written_bytes
from bench.cluster.parts import RUNS, pair_order
from bench.cluster.plan import PARTS, SMOKE_PARTS, Plan, blocks, plan_of
from bench.cluster.sides import most_loaded
from bench.criteria import Criterion, Evidence
from bench.runner import FULL, QUICK, SMOKE
from tests.unit.bench.test_standalone_criteria import raw_of

pytestmark = pytest.mark.campaign("unit")


def rounds_of(*gaps_s: float, wanted: int | None = None) -> dict[str, Any]:
    rounds = [{"gap_s": gap_s, "back_s": gap_s, "heal_gap_s": gap_s / 2, "stop_s": 30 * gap_s} for gap_s in gaps_s]
    return {"wanted": wanted or len(gaps_s), "rounds": rounds}


def windows_of(undisturbed_s: float, disturbed_s: float) -> dict[str, Any]:
    return {"undisturbed": {"gap_s": undisturbed_s}, "disturbed": {"gap_s": disturbed_s}}


def drain_of(*p99_ms: tuple[float, float], mb_per_s: float = 300.0) -> dict[str, Any]:
    rounds = [{"calm": {"p99_ms": calm}, "draining": {"p99_ms": draining}} for calm, draining in p99_ms]
    return {"wanted": len(rounds), "rounds": rounds, "drained_mb_per_s": mb_per_s}


FAULTS: dict[str, dict[str, Any]] = {
    "kill9_broker": rounds_of(0.3, 1.4, 0.4),
    "hung_broker": rounds_of(2.5, 3.5),
    "controller_kill": windows_of(0.05, 0.19),
    "zookeeper_away": windows_of(0.2, 0.35),
}
GOOD: dict[str, dict[str, Any]] = {
    **FAULTS,
    **{f"{part}_combined": raw for part, raw in FAULTS.items()},
    "hung_worker": rounds_of(2.6, 3.1),
    "kill9_proxy": rounds_of(0.2, 0.9),
    "move": {
        "under_load": {size: [{"gap_s": 0.1}, {"gap_s": 0.25}] for size in ("10mib", "1gib", "5gib")},
        "in_peace": [{"copied_bytes": 0}],
    },
    "restart": {**rounds_of(0.5, 0.8), "client_errors": 0},
    "scale": {
        "steps": [{"settled_s": 4.0, "gap_s": 1.7}, {"settled_s": 6.0, "gap_s": 0.4}],
        "client_errors": 0,
        "lost_or_doubled": 0,
    },
    "drain": drain_of((5.0, 6.0), (90.0, 4.0), (4.0, 70.0)),
    "metadata": {"median_ms": 90.0, "changed_ms": [90.0]},
    "controller_failover": {"wanted": 2, "rounds": [{"answered_s": 0.8}, {"answered_s": 1.2}]},
    "shard_replay": {"heavy": {"answered_s": 0.7}, "light": {"answered_s": 0.5}},
}


def pair_of(speed: float) -> dict[str, Any]:
    return {"order": [], "bmq": raw_of(speed), "kafka": raw_of(1.0), SEPARATE: raw_of(speed / 2)}


def judged(
    parts: dict[str, Any], pairs: list[dict[str, Any]], failures: dict[str, list[str]] | None = None
) -> dict[str, Criterion]:
    """Both sides with the same samples, where a part has no sides yet."""
    known = {part: raw if {"bmq", "kafka"} & set(raw) else {"bmq": raw, "kafka": raw} for part, raw in parts.items()}
    known[PAIRS] = {"wanted": len(pairs), "pairs": pairs}
    measured = {part: {"revision": "abc", "definition": criteria.DEFINITIONS.get(part, 1)} for part in known}
    found = criteria.judge(Evidence(known, failures or {}, measured, criteria.DEFINITIONS))
    return {one["id"]: one for one in found}


def not_held(found: dict[str, Criterion]) -> set[str]:
    return {name for name, one in found.items() if one.get("holds") is False}


def test_every_criterion_is_judged_and_good_figures_hold() -> None:
    found = judged(GOOD, [pair_of(3.0)])
    assert not_held(found) == set()
    values = {name: one["value"] for name, one in found.items()}
    assert values["kill9_broker_gap_p50_s"] == values["kill9_broker_gap_p50_s_combined"] == 0.4
    assert values["kill9_broker_gap_max_s"] == 1.4
    assert values["hung_broker_gap_max_s"] == 3.5
    assert values["zookeeper_away_excess_gap_s"] == 0
    assert values["move_gap_5gib_s"] == 0.25
    assert values["scale_settled_s"] == 6.0
    assert values["drain_produce_p99_ratio"] == 1.2
    assert values["drain_rate_ratio"] == 1.0
    assert values["controller_failover_10000_s"] == 1.2
    assert values["produce_1k_ratio"] == 3.0
    assert values["p99_10k_rps_ratio"] == 0.3333


def test_the_bounds_are_those_that_were_asked_for() -> None:
    found = judged(GOOD, [pair_of(3.0)])
    bounds = {name: (one["op"], one["bound"]) for name, one in found.items() if "holds" in one}
    faults = {
        "kill9_broker_gap_p50_s": ("<=", 0.5),
        "kill9_broker_gap_max_s": ("<=", 1.5),
        "hung_broker_gap_max_s": ("<=", 4),
        "controller_kill_excess_gap_s": ("<=", 0),
        "zookeeper_away_excess_gap_s": ("<=", 0),
    }
    assert bounds == {
        **faults,
        **{f"{name}_combined": bound for name, bound in faults.items()},
        "hung_worker_gap_max_s": ("<=", 4),
        "kill9_proxy_gap_max_s": ("<=", 1),
        "move_gap_10mib_s": ("<=", 0.3),
        "move_gap_1gib_s": ("<=", 0.3),
        "move_gap_5gib_s": ("<=", 0.3),
        "move_bytes_copied": ("<=", 0),
        "restart_client_errors": ("<=", 0),
        "restart_gap_max_s": ("<=", 1),
        "scale_settled_s": ("<=", 10),
        "scale_client_errors": ("<=", 0),
        "scale_lost_or_doubled": ("<=", 0),
        "drain_produce_p99_ratio": ("<=", 1.5),
        "drain_rate_ratio": (">=", 0.5),
        "metadata_10000_ms": ("<=", 150),
        "controller_failover_10000_s": ("<=", 2),
        "shard_replay_100k_offsets_s": ("<=", 1),
        "produce_1k_ratio": (">=", 2.5),
        "produce_100b_ratio": (">=", 2),
        "p99_10k_rps_ratio": ("<=", 0.4),
        "consume_ratio": (">=", 1.0),
    }


def test_a_figure_beyond_its_bound_does_not_hold() -> None:
    bad = {
        **GOOD,
        "kill9_broker": rounds_of(0.6, 0.6, 1.6),
        "controller_kill_combined": windows_of(0.05, 0.21),
        "move": {**GOOD["move"], "in_peace": [{"copied_bytes": 0}, {"copied_bytes": 1}]},
        "restart": {**rounds_of(1.1), "client_errors": 1},
    }
    found = judged(bad, [pair_of(2.4)])
    assert not_held(found) == {
        "kill9_broker_gap_p50_s",
        "kill9_broker_gap_max_s",
        "controller_kill_excess_gap_s_combined",
        "move_bytes_copied",
        "restart_client_errors",
        "restart_gap_max_s",
        "produce_1k_ratio",
        "p99_10k_rps_ratio",
    }
    assert found["controller_kill_excess_gap_s_combined"]["value"] == pytest.approx(0.01)


def test_what_was_not_measured_says_why_and_does_not_hold() -> None:
    failures = {"move": ["bmq: the disk is full"], PAIRS: ["kafka: no Java"]}
    found = judged({"move": {"bmq": {"under_load": {"10mib": [{"gap_s": 0.1}]}}}}, [], failures)
    assert not_held(found) == {name for name, one in found.items() if "holds" in one}
    assert found["move_gap_10mib_s"]["value"] is None
    assert found["move_gap_1gib_s"]["reason"] == "not measured: bmq: the disk is full"
    assert found["restart_gap_max_s"]["reason"] == "not measured: it was not run"
    assert found["kill9_proxy_gap_max_s"]["rival"] == criteria.NO_PROXY
    assert found["produce_1k_ratio"]["reason"] == "not measured: kafka: no Java"


def test_a_gap_that_had_not_ended_is_at_least_what_was_seen() -> None:
    endless = {"wanted": 1, "rounds": [{"gap_s": 40.2, "back_s": None}]}
    found = judged({**GOOD, "hung_broker": {"bmq": rounds_of(2.0), "kafka": endless}}, [pair_of(3.0)])
    assert found["hung_broker_gap_max_s"]["holds"]
    assert found["hung_broker_gap_max_s"]["rival_at_least"]
    worse = judged({**GOOD, "hung_broker_combined": {"bmq": endless, "kafka": endless}}, [pair_of(3.0)])
    assert not_held(worse) == {"hung_broker_gap_max_s_combined"}
    assert worse["hung_broker_gap_max_s_combined"]["value_at_least"]


# -- Draining --------------------------------------------------------------------------------------------------------------


def drained(bmq: dict[str, Any], kafka: dict[str, Any]) -> tuple[Criterion, Criterion]:
    found = judged({**GOOD, "drain": {"bmq": bmq, "kafka": kafka}}, [pair_of(3.0)])
    return found["drain_produce_p99_ratio"], found["drain_rate_ratio"]


def test_a_drain_is_the_median_of_its_rounds_ratios() -> None:
    latency, _ = drained(drain_of((1, 1), (10, 20), (1, 3)), drain_of((1, 1)))
    assert latency["value"] == 2.0  # 20 to 1 is what the medians of the windows would have made of it


def test_a_drain_that_is_slower_than_half_of_kafkas_does_not_count() -> None:
    fast = drain_of((5.0, 5.0), mb_per_s=338)
    latency, rate = drained(drain_of((5.0, 5.0), mb_per_s=16), fast)
    assert (latency["value"], latency["holds"]) == (1.0, False)
    assert "0.0473 of Kafka's rate" in latency["reason"]
    assert (rate["value"], rate["holds"]) == (0.0473, False)
    latency, rate = drained(drain_of((5.0, 5.0), mb_per_s=169), fast)
    assert latency["holds"] and rate["holds"]


@pytest.mark.parametrize("kafka", [{}, {**drain_of((5, 5)), "wanted": 10}])
def test_a_drain_without_kafkas_of_the_same_run_is_not_measured(kafka: dict[str, Any]) -> None:
    latency, rate = drained(drain_of((5.0, 5.0)), kafka)
    assert latency["value"] is None and rate["value"] is None
    assert not latency["holds"] and not rate["holds"]
    assert "kafka" in latency["reason"]


# -- Layouts and variants --------------------------------------------------------------------------------------------------


def test_both_layouts_are_in_the_same_pairs() -> None:
    found = judged(GOOD, [pair_of(3.0)])
    assert found["separate_produce_1k_ratio"]["value"] == 1.5
    assert "holds" not in found["separate_produce_1k_ratio"]


def test_a_variant_is_beside_the_other_side_of_its_own_pair() -> None:
    pairs = [
        {**pair_of(3.0), "bmq_normal_scheduling": raw_of(2.0)},
        {**pair_of(3.0), "kafka_batch_scheduling": raw_of(1.5)},
        pair_of(4.0),
    ]
    found = judged(GOOD, pairs, {f"{PAIRS}/bmq_jvm_defaults": ["pair 3: no memory"]})
    assert found["bmq_normal_scheduling_produce_1k_ratio"]["value"] == 2.0
    assert found["kafka_batch_scheduling_produce_1k_ratio"]["value"] == 2.0
    assert found["bmq_jvm_defaults_produce_1k_ratio"]["value"] is None
    assert found["bmq_jvm_defaults_produce_1k_ratio"]["reason"] == "pair 3: no memory"
    assert found["produce_1k_ratio"]["value"] == 3.0
    assert not_held(found) == set()


def test_every_variant_is_run_once_beside_its_side() -> None:
    plan = Plan(PARTS)
    orders = [pair_order(plan, number) for number in range(plan.pairs)]
    assert orders[0] == ["bmq", "bmq_normal_scheduling", SEPARATE, "kafka"]
    assert orders[1] == ["kafka_batch_scheduling", "kafka", SEPARATE, "bmq"]
    everyone = [name for order in orders for name in order]
    assert {variant.name: everyone.count(variant.name) for variant in VARIANTS} == dict.fromkeys(
        (variant.name for variant in VARIANTS), 1
    )
    assert {name: everyone.count(name) for name in ("bmq", "kafka", SEPARATE)} == {"bmq": 3, "kafka": 3, SEPARATE: 3}


# -- What is run -----------------------------------------------------------------------------------------------------------


def test_every_part_can_be_run_and_is_run_for_some_figure() -> None:
    assert set(RUNS) == set(PARTS) == set(criteria.PART_OF.values())
    plan = plan_of(PARTS, ("bmq", "kafka"), FULL)
    assert (plan.broker_kills, plan.broker_hangs, plan.proxy_kills, plan.partitions) == (20, 5, 10, 10_000)
    assert (plan.partitions_in_use, plan.partitions_idle, plan.zookeeper_away_s) == (300, 300, 60)
    assert plan_of(PARTS, ("bmq", "kafka"), QUICK).broker_kills < plan.broker_kills
    assert plan_of(PARTS, ("bmq", "kafka"), SMOKE).parts == SMOKE_PARTS
    assert set(BOUNDS) <= {one.id for one in criteria.RATIOS if one.op}


def test_what_a_move_wrote_is_what_grew_and_what_is_new() -> None:
    before = {"dn0/blk_1": 100, "dn0/blk_2": 50, "dn1/blk_1": 100}
    assert written_bytes(before, before) == 0
    assert written_bytes(before, {"dn0/blk_1": 130, "dn1/blk_1": 90, "dn1/blk_3": 7}) == 37
    assert copied(BOOKKEEPING_BYTES * 3, 3) == 0
    assert copied(BOOKKEEPING_BYTES * 3 + 5, 3) == 5


def test_of_equal_brokers_the_one_behind_the_last_is_hurt() -> None:
    equal = {0: 4, 1: 5, 2: 6}
    assert most_loaded(equal, [4, 5, 6]) == (4, 1)
    assert [most_loaded(equal, [4, 5, 6], previous)[0] for previous in (4, 5, 6, 9)] == [5, 6, 4, 4]
    assert most_loaded({0: 4, 1: 6, 2: 6}, [4, 5, 6], 6) == (6, 2)


def test_the_next_broker_stands_behind_it_in_a_ring() -> None:
    assert [next_broker([4, 5, 6], node_id) for node_id in (4, 5, 6)] == [5, 6, 4]


@given(st.integers(1, 40), st.integers(0, 5))
def test_the_sides_take_turns_and_nothing_is_left_out(ours: int, theirs: int) -> None:
    found = blocks(ours, theirs)
    assert sum(first for first, _ in found) == ours
    assert sum(second for _, second in found) == theirs
    assert max(first for first, _ in found) - min(first for first, _ in found) <= 1
    assert max(second for _, second in found) <= max(1, -(-theirs // len(found)))


def test_turns_of_twenty_and_three() -> None:
    assert blocks(20, 3) == [(7, 1), (7, 1), (6, 1)]
    assert blocks(5, 0) == [(5, 0)]
