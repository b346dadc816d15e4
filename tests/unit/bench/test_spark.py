"""The figures of Spark's pipeline: who is put beside whom, and what is counted of topics, processes and traffic."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from bench.criteria import BMQ, Criterion, Evidence
from bench.runner import FULL, QUICK, SMOKE
from bench.spark import criteria
from bench.spark.__main__ import CONTENDERS, RUNS, in_turn, topic_of  # type: ignore[attr-defined]
from bench.spark.campaigns import CAMPAIGNS
from bench.spark.criteria import (
    CLOSED,
    CODECS,
    CONNECTOR,
    CONNECTOR_ON_KAFKA,
    DECODE,
    EXECUTOR,
    MIRROR,
    RESUME,
    SCANS_1K,
    SCANS_100B,
    SOURCE,
    TABLES,
)
from bench.spark.memory import MemoryWatch
from bench.spark.plan import PARTS, SMOKE_PARTS, plan_of
from bench.spark.scanner import Scanner
from bench.spark.scans import share_of_files
from bench.spark.traffic import Traffic
from bmq.spark.source.plan import FilePiece, ProxyPiece, RangeToRead

pytestmark = pytest.mark.campaign("unit")


def judged(parts: Mapping[str, Any]) -> dict[str, Criterion]:
    measured = {part: {"revision": "abc"} for part in parts}
    return {one["id"]: one for one in criteria.judge(Evidence(parts, {}, measured, {}))}


def scanned(seconds: float, records: int = 1_000, **more: int) -> dict[str, Any]:
    return {"records": records, "value_bytes": 100 * records, "seconds": seconds, **more}


def round_of(source_s: float, connector_s: float, kafka_s: float, *, narrow_s: float = 0.5) -> dict[str, Any]:
    """A scan of everything by each, and those of the source alone."""
    return {
        SOURCE: {
            "full": scanned(source_s, node_bytes=20_000, datanode_bytes=80_000),
            "narrow": scanned(narrow_s),
            "last_tenth": scanned(source_s / 4, 101, node_bytes=5_000, datanode_bytes=9_000),
        },
        CONNECTOR: {"full": scanned(connector_s)},
        CONNECTOR_ON_KAFKA: {"full": scanned(kafka_s)},
    }


@pytest.mark.parametrize(("part", "prefix"), [(SCANS_100B, ""), (SCANS_1K, "one_kib_")])
def test_the_source_is_put_beside_the_connector_on_both(part: str, prefix: str) -> None:
    rounds = [round_of(1.0, 4.0, 5.0), round_of(1.0, 3.0, 2.0), round_of(2.0, 7.0, 6.0)]
    found = judged({part: {"wanted": 3, "pairs": rounds}})
    values = {name.removeprefix(prefix): one["value"] for name, one in found.items() if one["part"] == part}
    assert values["scan_ratio_same_cluster"] == 3.5
    assert values["scan_ratio_kafka"] == 3.0
    assert values["connector_ratio"] == pytest.approx(6 / 7, abs=1e-4)
    assert values["narrow_scan_ratio"] == 2.0
    assert values["time_range_bytes_ratio"] == 0.14
    assert values["time_range_records_ratio"] == 0.101
    failing = {
        name.removeprefix(prefix) for name, one in found.items() if one["part"] == part and not one.get("holds", 1)
    }
    assert failing == {"connector_ratio"}


def test_a_contender_that_is_missing_in_a_round_leaves_no_figure_of_it() -> None:
    without = {name: one for name, one in round_of(1.0, 4.0, 5.0).items() if name != CONNECTOR_ON_KAFKA}
    found = judged({SCANS_100B: {"wanted": 2, "pairs": [round_of(1.0, 4.0, 5.0), without]}})
    assert found["scan_ratio_kafka"]["value"] is None and found["connector_ratio"]["value"] is None
    assert found["scan_ratio_same_cluster"]["value"] == 4.0


def test_bytes_of_closed_segments_that_came_from_brokers() -> None:
    sent = {"brokers": {"bytes": 20}, "all": {"bytes": 1_000}}
    found = judged({CLOSED: {"wanted": 1, "pairs": [sent]}})["closed_bytes_from_brokers"]
    assert (found["value"], found["holds"]) == (0.02, False)
    sent["brokers"]["bytes"] = 0
    assert judged({CLOSED: {"wanted": 1, "pairs": [sent]}})["closed_bytes_from_brokers"]["holds"]


def test_the_largest_executor_of_all_scans_counts() -> None:
    rounds = [
        {
            "python_pss_mib": most,
            "worker_pss_mib": most / 2,
            "planners_pss_mib": 50.0,
            "jvm_pss_mib": 900.0,
            "jvm_heap_mib": 300.0,
        }
        for most in (400.0, 513.0, 100.0)
    ]
    found = judged({EXECUTOR: {BMQ: {"wanted": 3, "rounds": rounds}}})
    assert (found["executor_memory_mib"]["value"], found["executor_memory_mib"]["holds"]) == (513.0, False)
    assert found["executor_worker_memory_mib"]["value"] == 256.5


def test_decoding_is_judged_by_processor_time_and_only_without_compression() -> None:
    def passes(read_s: float, verify_s: float) -> dict[str, Any]:
        return {
            name: {"bytes": 1, "value_bytes": 100_000_000, "seconds": 3 * cpu_s, "cpu_s": cpu_s}
            for name, cpu_s in (("read", read_s), ("verify", verify_s))
        }

    found = judged({DECODE: {"wanted": 1, "pairs": [{codec: passes(0.1, 0.4) for codec in CODECS}]}})
    assert found["decode_mb_per_core_ratio"]["value"] == 0.25 and not found["decode_mb_per_core_ratio"]["holds"]
    assert found["decode_mb_per_core_ratio"]["medians"] == {"bmq": 250.0, "rival": 1_000.0}
    assert {f"decode_mb_per_core_{codec}_ratio" for codec in CODECS[1:]} <= found.keys()
    assert all("holds" not in found[f"decode_mb_per_core_{codec}_ratio"] for codec in CODECS[1:])


def test_campaigns_give_their_figures_or_none() -> None:
    def once(**found: Any) -> dict[str, Any]:
        return {BMQ: {"wanted": 1, "rounds": [found]}}

    found = judged(
        {
            TABLES: once(table_rows_lost_or_doubled=0, table_lag_s=21.5),
            MIRROR: once(mirror_lost_or_doubled=None),
            RESUME: once(jobs_resumed_differently=1),
        }
    )
    assert found["table_rows_lost_or_doubled"]["holds"]
    assert (found["table_lag_s"]["value"], found["table_lag_s"]["holds"]) == (21.5, False)
    assert found["mirror_lost_or_doubled"]["value"] is None
    assert not found["jobs_resumed_differently"]["holds"]


@pytest.mark.parametrize("size", [FULL, QUICK, SMOKE])
def test_every_size_has_a_plan(size: str) -> None:
    plan = plan_of(PARTS, (BMQ,), size)
    assert plan.parts == (SMOKE_PARTS if size == SMOKE else PARTS)
    assert set(RUNS) == set(PARTS) == set(criteria.PART_OF.values()) and set(CAMPAIGNS) <= set(PARTS)
    assert topic_of(SCANS_100B, plan).record_bytes == 100 and topic_of(SCANS_1K, plan).records == plan.records_1k


def test_a_whole_run_is_what_is_asked_for() -> None:
    plan = plan_of(PARTS, (BMQ,), FULL)
    assert (plan.records_100b, plan.records_1k, plan.rounds) == (10_000_000, 2_000_000, 3)
    assert (plan.job_kills, plan.broker_kills, plan.away_s) == (10, 5, 60.0)


def test_each_contender_is_first_once_and_last_once() -> None:
    orders = [in_turn(CONTENDERS, number) for number in range(3)]
    assert {order[0] for order in orders} == {order[-1] for order in orders} == set(CONTENDERS)
    assert all(set(order) == set(CONTENDERS) for order in orders)


def test_what_was_sent_since() -> None:
    assert Traffic(150, 90).since(Traffic(100, 90)) == {"node_bytes": 50, "datanode_bytes": 0}


def test_offsets_that_lie_in_closed_segments() -> None:
    pieces = (FilePiece("/a", 1, 0, 500, 0, 75), ProxyPiece(75, 100))
    ranges = [RangeToRead("t", "id", 0, 0, 100, pieces), RangeToRead("t", "id", 1, 0, 100, pieces[:1])]
    assert share_of_files(ranges) == pytest.approx(150 / 175, abs=1e-4)


def test_memory_of_processes_below_another() -> None:
    hold = "import sys; held = bytearray(b'x') * (48 << 20); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"held\n"
        watch = MemoryWatch(os.getpid())
        with watch:
            while not watch.most["looks"]:
                pass
    assert 48 <= watch.most["worker_pss_mib"] <= watch.most["python_pss_mib"]
    assert watch.most["python_processes"] >= 1 and watch.most["jvm_pss_mib"] == 0


def test_what_is_asked_of_a_spark_that_is_not_there(tmp_path: Any) -> None:
    scanner = Scanner("source", "bmq", "localhost:1", tmp_path)
    scanner.close()
    with pytest.raises(AssertionError, match="source does not run"):
        scanner.scan("topic", ("count(*)",))
