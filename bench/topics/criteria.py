"""What the life of a topic has to cost beside Apache Kafka: compaction. Pure."""

from __future__ import annotations

from typing import Final

from bench.criteria import BMQ, KAFKA, Absolute, Criterion, Evidence, Ratio, evaluate, parts_by_id

COMPACTION: Final = "compaction"
KEYS: Final = "keys"
BESIDE: Final = "beside_producers"

RATIOS: Final = (
    Ratio(
        "compaction_cpu_per_gb_ratio", COMPACTION, "processor time to compact a GB", "s", "<=", 1.5,
        lambda raw: raw["cpu_s"] / raw["gb"],
    ),
    Ratio(
        "compaction_rate_ratio", COMPACTION, "rate of compaction", "MB/s", ">=", 0.7,
        lambda raw: 1_000 * raw["gb"] / raw["seconds"],
    ),
    Ratio(
        "compaction_produce_p99_ratio", BESIDE, "p99 at 10,000 records/s while compacting, to without", "us", "<=", 1.5,
        lambda raw: raw["latency_p99_us"], (BMQ, "with"), (BMQ, "without"), "bmq without",
    ),
    Ratio(
        "kafka_compaction_produce_p99_ratio", BESIDE, "the same of Apache Kafka", "us", "", 0,
        lambda raw: raw["latency_p99_us"], (KAFKA, "with"), (KAFKA, "without"), "Kafka without",
    ),
)  # fmt: skip
ABSOLUTES: Final = (
    Absolute(
        "compaction_memory_mib", KEYS, "memory (PSS) of what compacts 10 million keys, at most", "MiB", 200,
        lambda raw: raw["worker_pss_mib"], "Kafka's cleaner is a thread of the broker",
    ),
)  # fmt: skip
PART_OF: Final = parts_by_id(RATIOS, ABSOLUTES)


def judge(evidence: Evidence) -> list[Criterion]:
    return evaluate(evidence, RATIOS, ABSOLUTES)
