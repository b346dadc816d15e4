"""Full speed and steady speed, in and out, against a cluster: the loads of bench/workloads.py with three replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.cluster.admin import create_topic, create_topics_request, wait_for_leaders
from bench.cluster.sides import Side
from bench.measure import cpu_seconds, memory_mib
from bench.workloads import consume, produce

PARTITIONS: Final = 6
REPLICATION: Final = 3


@dataclass(frozen=True, slots=True)
class Sizes:
    """Records of each load; the warm-up records are sent in front and not measured."""

    warm_up_1k: int
    measured_1k: int
    warm_up_100b: int
    measured_100b: int
    warm_up_10k_rps: int
    measured_10k_rps: int
    consume_passes: int


FULL: Final = Sizes(200_000, 500_000, 500_000, 2_000_000, 30_000, 120_000, consume_passes=3)
QUICK: Final = Sizes(30_000, 100_000, 100_000, 300_000, 10_000, 30_000, consume_passes=2)


def run_all(side: Side, sizes: Sizes) -> dict[str, Any]:
    """Every load against one fresh cluster; the raw figures."""
    for topic in ("warm-up", "produce-1k", "produce-100b", "produce-10k-rps"):
        create_topic(side.addresses, create_topics_request(topic, PARTITIONS, REPLICATION))
        wait_for_leaders(side.addresses, topic, PARTITIONS)
    # The servers warm up too: a JVM compiles what runs often, and all open their files.
    produce(side, "warm-up", 1_024, sizes.warm_up_1k, sizes.warm_up_1k // 2)
    raw: dict[str, Any] = {}
    used = {name: cpu_seconds(pid) for name, pid in side.processes.items()}
    raw["produce_1k"] = produce(side, "produce-1k", 1_024, sizes.measured_1k, sizes.warm_up_1k)
    raw["cpu_s_by_process"] = {name: round(cpu_seconds(pid) - used[name], 2) for name, pid in side.processes.items()}
    raw["memory_after_produce"] = total_memory_mib(side.pids)
    raw["pss_mib_by_process"] = {name: round(memory_mib(pid)["pss_mib"], 1) for name, pid in side.processes.items()}
    records = sizes.measured_1k + sizes.warm_up_1k
    raw["consume"] = consume(side, "produce-1k", records, 1_024, sizes.consume_passes)
    raw["produce_100b"] = produce(side, "produce-100b", 100, sizes.measured_100b, sizes.warm_up_100b)
    raw["produce_10k_rps"] = produce(
        side, "produce-10k-rps", 1_024, sizes.measured_10k_rps, sizes.warm_up_10k_rps, throughput=10_000, linger_ms=0
    )
    return raw


def total_memory_mib(pids: Sequence[int]) -> dict[str, float]:
    """Of all processes together; pages they share are counted once in `pss_mib`."""
    sizes = [memory_mib(pid) for pid in pids]
    return {name: round(sum(size[name] for size in sizes), 1) for name in ("rss_mib", "pss_mib")}
