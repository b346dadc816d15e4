"""Which figure each criterion is judged by, what is measured for it, and that nothing unmeasured ever holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cluster import criteria
from bench.cluster.moves import BOOKKEEPING_BYTES, copied, next_broker, written_bytes
from bench.cluster.parts import RUNS
from bench.cluster.plan import PARTS, Plan, blocks, parts_of, quick
from bench.cluster.sides import most_loaded
from bench.cluster.table import table

pytestmark = pytest.mark.unit


def rounds_of(*gaps_s: float, wanted: int | None = None) -> dict[str, Any]:
    return {"wanted": wanted or len(gaps_s), "rounds": [{"gap_s": gap_s} for gap_s in gaps_s]}


def windows_of(undisturbed_s: float, disturbed_s: float) -> dict[str, Any]:
    return {"undisturbed": {"gap_s": undisturbed_s}, "disturbed": {"gap_s": disturbed_s}}


GOOD: dict[str, dict[str, Any]] = {
    "kill9_broker": rounds_of(0.3, 1.4, 0.4),
    "hung_broker": rounds_of(2.5, 3.5),
    "kill9_proxy": rounds_of(0.2, 0.9),
    "controller_kill": windows_of(0.05, 0.19),
    "zookeeper_away": windows_of(0.2, 0.35),
    "move": {
        "under_load": {size: [{"gap_s": 0.1}, {"gap_s": 0.25}] for size in ("10mib", "1gib", "5gib")},
        "in_peace": [{"copied_bytes": 0}],
    },
    "restart": {**rounds_of(0.5, 0.8), "client_errors": 0},
    "scale": {"steps": [{"settled_s": 4.0}, {"settled_s": 6.0}], "client_errors": 0, "lost_or_doubled": 0},
    "drain": {
        "rounds": [
            {"calm": {"p99_ms": calm}, "draining": {"p99_ms": draining}}
            for calm, draining in ((5.0, 6.0), (90.0, 4.0), (4.0, 70.0))
        ]
    },
    "metadata": {"median_ms": 90.0},
    "controller_failover": {"wanted": 2, "rounds": [{"answered_s": 0.8}, {"answered_s": 1.2}]},
    "shard_replay": {"heavy": {"answered_s": 0.7}},
}


def pair_of(speed: float) -> dict[str, Any]:
    """Both sides measured, bmq `speed` times as good as Kafka in everything."""

    def raw(factor: float) -> dict[str, Any]:
        return {
            "produce_1k": {"mib_per_s": 40 * factor, "server_cpu_s": 10 / factor, "gb": 1.0},
            "produce_100b": {"records_per_s": 300_000 * factor},
            "produce_10k_rps": {
                "latency_p50_ms": 2 / factor,
                "latency_p99_ms": 100 / factor,
                "latency_p999_ms": 200 / factor,
            },
            "consume": {"mb_per_s": 500 * factor, "server_cpu_s": 1 / factor, "gb": 2.0},
            "memory_after_produce": {"pss_mib": 3_000 / factor},
        }

    return {"order": [], "bmq": raw(speed), "kafka": raw(1.0), "bmq_separate": raw(speed / 2)}


def judged(parts: dict[str, Any], pairs: list[dict[str, Any]], failures: dict[str, list[str]]) -> dict[str, Any]:
    return {one["id"]: one for one in criteria.evaluate(parts, pairs, failures)}


def both(parts: dict[str, Any]) -> dict[str, Any]:
    return {part: {"bmq": raw, "kafka": raw} for part, raw in parts.items()}


def test_every_criterion_is_judged_and_good_figures_hold() -> None:
    found = judged(both(GOOD), [pair_of(3.0)], {})
    assert len(found) == len(criteria.CRITERIA) + len(criteria.RATIOS)
    assert [one["id"] for one in found.values() if not one["holds"]] == []
    values = {name: one["value"] for name, one in found.items()}
    assert values["kill9_broker_gap_p50_s"] == 0.4
    assert values["kill9_broker_gap_max_s"] == 1.4
    assert values["hung_broker_gap_max_s"] == 3.5
    assert values["zookeeper_away_excess_gap_s"] == 0
    assert values["move_gap_5gib_s"] == 0.25
    assert values["scale_settled_s"] == 6.0
    assert values["drain_produce_p99_ratio"] == 1.2
    assert values["controller_failover_10000_s"] == 1.2
    assert values["produce_1k_ratio"] == 3.0
    assert values["p99_10k_rps_ratio"] == 0.3333


def test_a_figure_beyond_its_bound_does_not_hold() -> None:
    bad = {
        **GOOD,
        "kill9_broker": rounds_of(0.6, 0.6, 1.6),
        "controller_kill": windows_of(0.05, 0.21),
        "move": {**GOOD["move"], "in_peace": [{"copied_bytes": 0}, {"copied_bytes": 1}]},
        "restart": {**rounds_of(1.1), "client_errors": 1},
    }
    found = judged(both(bad), [pair_of(2.4)], {})
    broken = {name for name, one in found.items() if not one["holds"]}
    assert broken == {
        "kill9_broker_gap_p50_s",
        "kill9_broker_gap_max_s",
        "controller_kill_excess_gap_s",
        "move_bytes_copied",
        "restart_client_errors",
        "restart_gap_max_s",
        "produce_1k_ratio",
        "p99_10k_rps_ratio",
    }
    assert found["controller_kill_excess_gap_s"]["value"] == pytest.approx(0.01)


def test_what_was_not_measured_says_why_and_does_not_hold() -> None:
    failures = {"move": ["bmq: the disk is full"], "throughput": ["kafka: no Java"]}
    found = judged({"move": {"bmq": {"under_load": {"10mib": [{"gap_s": 0.1}]}}}}, [], failures)
    assert found["move_gap_10mib_s"]["holds"]
    assert found["move_gap_1gib_s"] == {
        "id": "move_gap_1gib_s",
        "value": None,
        "op": "<=",
        "bound": 0.3,
        "holds": False,
        "reason": "not measured: bmq: the disk is full",
        "kafka": "not measured",
    }
    assert found["restart_gap_max_s"]["reason"] == "not measured: it was not run"
    assert found["kill9_proxy_gap_max_s"]["kafka"] == criteria.NO_PROXY
    assert found["produce_1k_ratio"]["reason"] == "not measured: kafka: no Java"
    assert {one["holds"] for name, one in found.items() if name != "move_gap_10mib_s"} == {False}


def test_a_part_that_was_cut_short_does_not_hold_whatever_its_rounds_say() -> None:
    parts = {"kill9_broker": {"bmq": rounds_of(0.1, 0.1, wanted=20), "kafka": rounds_of(10.0, wanted=3)}}
    found = judged(parts, [], {"kill9_broker": ["bmq: partition 3 acknowledged nothing"]})
    assert found["kill9_broker_gap_max_s"]["value"] == 0.1
    assert not found["kill9_broker_gap_max_s"]["holds"]
    assert "partition 3" in found["kill9_broker_gap_max_s"]["reason"]
    assert found["kill9_broker_gap_max_s"]["kafka"] == 10.0


def test_a_failure_of_kafka_alone_takes_nothing_from_bmq() -> None:
    parts = {"kill9_broker": {"bmq": rounds_of(0.1), "kafka": rounds_of(wanted=3)}}
    found = judged(parts, [], {"kill9_broker": ["kafka: it did not start"]})
    assert found["kill9_broker_gap_max_s"]["holds"]
    assert found["kill9_broker_gap_max_s"]["kafka"] == "not measured"


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


def test_separate_processes_are_looked_at_in_the_same_pairs() -> None:
    pairs = [pair_of(3.0), {"order": [], "bmq": {}, "kafka": {}}]
    assert [pair["bmq"]["produce_1k"]["mib_per_s"] for pair in criteria.separate(pairs)] == [60]


def test_the_table_has_a_line_for_everything_that_was_asked_for() -> None:
    parts, pairs = both(GOOD), [pair_of(3.0)]
    result = {
        "parts": parts,
        "pairs": pairs,
        "plan": {"parts": list(PARTS)},
        "criteria": criteria.evaluate(parts, pairs, {}),
    }
    lines = table(result).splitlines()
    for criterion in criteria.CRITERIA:
        assert any(line.startswith(criterion.what) for line in lines), criterion.what
    only_moves = {**result, "parts": {}, "pairs": [], "plan": {"parts": ["move"]}}
    only_moves["criteria"] = criteria.evaluate({}, [], {})
    assert len(table(only_moves).splitlines()) == 1 + 4


def test_parts_are_named_by_themselves_or_by_a_criterion() -> None:
    assert parts_of([]) == PARTS
    assert parts_of(["drain", "move_gap_1gib_s", "kill9_broker"]) == ("kill9_broker", "move", "drain")
    assert parts_of(["p99_10k_rps_ratio"]) == ("throughput",)
    with pytest.raises(ValueError, match=r"'moves' is neither.*parts are: kill9_broker, "):
        parts_of(["moves"])


def test_every_part_can_be_run_and_is_run_for_some_criterion() -> None:
    assert set(RUNS) == set(PARTS)
    assert {criterion.part for criterion in criteria.CRITERIA} == set(PARTS) - {"throughput"}
    plan = Plan(PARTS)
    assert (plan.broker_kills, plan.broker_hangs, plan.proxy_kills, plan.partitions) == (20, 5, 10, 10_000)
    assert plan.zookeeper_away_s == 60
    assert quick(plan).broker_kills < plan.broker_kills


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
