"""What is judged of bench/topics, and how much each size asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from bench.cluster.admin import AdminFailed
from bench.criteria import Evidence
from bench.runner import FULL, QUICK, SMOKE
from bench.topics.__main__ import RUNS
from bench.topics.configs import CHANGES, TOPIC_RESOURCE, Change, Node, effective_s
from bench.topics.criteria import BESIDE, COMPACTION, CONFIGS, DELETION, KEYS, PART_OF, RETENTION, judge
from bench.topics.deletion import closed_segments
from bench.topics.plan import PARTS, plan_of
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse

pytestmark = pytest.mark.campaign("unit")

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
    criterion = found(**{KEYS: {"bmq": {"worker_pss_mib": 250.0}}})["compaction_memory_mib"]
    assert (criterion["value"], criterion["holds"]) == (250.0, False)


def test_a_deletion_is_judged_beside_the_same_producer_without_it() -> None:
    pair = {
        "bmq": {"with": {"latency_p99_us": 2_200}, "without": {"latency_p99_us": 2_000}},
        "kafka": {"with": {"latency_p99_us": 6_000}, "without": {"latency_p99_us": 3_000}},
    }
    criteria = found(**{DELETION: {"wanted": 1, "pairs": [pair]}})
    assert criteria["delete_10000_segments_p99_ratio"]["value"] == 1.1
    assert criteria["delete_10000_segments_p99_ratio"]["holds"]
    assert criteria["kafka_delete_10000_segments_p99_ratio"]["value"] == 2
    assert "holds" not in criteria["kafka_delete_10000_segments_p99_ratio"]


def test_retention_is_judged_by_the_processor_time_of_the_whole_node() -> None:
    criterion = found(**{RETENTION: {"bmq": {"cpu_percent": 5.1}}})["retention_10000_partitions_cpu_percent"]
    assert (criterion["value"], criterion["holds"]) == (5.1, False)


def test_of_changes_of_configs_the_longest_of_all_rounds_counts() -> None:
    ours: dict[str, Any] = {
        "wanted": 2,
        "rounds": [{"effective_s": {"a": 0.2, "b": 0.9}}, {"effective_s": {"a": 0.3, "b": 0.1}}],
    }
    theirs = {"wanted": 2, "rounds": [{"effective_s": {"a": 0.1}}] * 2}
    criterion = found(**{CONFIGS: {"bmq": ours, "kafka": theirs}})["config_change_effective_s"]
    assert (criterion["value"], criterion["rival"], criterion["holds"]) == (0.9, 0.1, True)
    short = found(**{CONFIGS: {"bmq": {**ours, "rounds": ours["rounds"][:1]}, "kafka": theirs}})
    assert short["config_change_effective_s"]["value"] is None


class Answering:
    """A connection to a node."""

    def __init__(self) -> None:
        self.altered: list[Any] = []

    def call(self, _: ApiKey, request: Any) -> Any:
        self.altered.append(request)
        return IncrementalAlterConfigsResponse()


def nodes_of(count: int) -> tuple[list[Node], list[Answering]]:
    connections = [Answering() for _ in range(count)]
    return [Node(f"host:{number}", cast(Any, one), "topic", 0) for number, one in enumerate(connections)], connections


def test_a_change_is_in_force_once_every_node_shows_it() -> None:
    nodes, connections = nodes_of(3)
    looks = {"host:0": 0, "host:1": 3, "host:2": 1}

    def seen(node: Node) -> bool:
        if connections[0].altered:
            looks[node.address] -= 1
        return looks[node.address] < 0

    assert effective_s(Change("a", "1", TOPIC_RESOURCE, seen), nodes, nodes[0], is_set=True) > 0
    assert set(looks.values()) == {-1}
    (request,) = connections[0].altered
    assert [one.resource_name for one in request.resources] == ["topic"]


def test_what_is_seen_before_it_is_changed_measures_nothing() -> None:
    nodes, _ = nodes_of(1)
    with pytest.raises(AdminFailed, match="before it is changed"):
        effective_s(Change("a", "1", TOPIC_RESOURCE, lambda _: True), nodes, nodes[0], is_set=True)


def test_no_config_is_changed_twice_in_a_round() -> None:
    names = [change.config for change in CHANGES]
    assert len(set(names)) == len(names)


def test_of_each_partition_one_segment_counts_as_open(tmp_path: Path) -> None:
    for partition, rolls in (("0", 3), ("1", 2)):
        (tmp_path / partition).mkdir()
        for roll in range(rolls):
            (tmp_path / partition / f"{roll:08d}.log").write_bytes(b"x")
        (tmp_path / partition / "00000009.log").touch()
        (tmp_path / partition / "00000000.index").write_bytes(b"x")
    assert closed_segments([tmp_path / "0", tmp_path / "1"], 2) == 3
    assert closed_segments([], 2) == 0
