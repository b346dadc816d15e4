"""What one bmq node has to show beside one Apache Kafka node."""

from __future__ import annotations

import statistics
from typing import Final

from bench import workloads
from bench.criteria import BMQ, Absolute, Criterion, Evidence, evaluate, parts_by_id

PAIRS: Final = "pairs"
EMPTY: Final = "empty_starts"
MANY: Final = "many_partitions"
# 2: both sides are warmed until they stop improving, and latencies are measured in microseconds.
DEFINITIONS: Final = {PAIRS: 2}

BOUNDS: Final = {
    "produce_1k_ratio": (">=", 1.3),
    "produce_100b_ratio": (">=", 1.15),
    "p99_10k_rps_ratio": ("<=", 0.7),
    "consume_ratio": (">=", 1.3),
    "memory_ratio": ("<=", 0.5),
    "cpu_per_gb_ratio": ("<=", 0.5),
}
RATIOS: Final = workloads.ratios(PAIRS, BOUNDS, BMQ)
ABSOLUTES: Final = (
    Absolute(
        "start_1000_partitions_s", MANY, "start with 1,000 partitions", "s", 5,
        lambda raw: statistics.median(raw["start_s"]),
    ),
    Absolute(
        "idle_cpu_1000_partitions_percent", MANY, "idle with 1,000 partitions, of a core", "%", 3,
        lambda raw: raw["idle_cpu_percent"],
    ),
    Absolute("rss_1000_partitions_mib", MANY, "memory (RSS) with 1,000 partitions", "MiB", 300, lambda raw: raw["rss_mib"]),
    Absolute("ready_s", EMPTY, "an empty server is ready", "s", 1.5, lambda raw: statistics.median(raw["ready_s"])),
)  # fmt: skip
PART_OF: Final = parts_by_id(RATIOS, ABSOLUTES)


def judge(evidence: Evidence) -> list[Criterion]:
    return evaluate(evidence, RATIOS, ABSOLUTES)
