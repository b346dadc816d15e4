"""What the life of a topic has to cost beside Apache Kafka: compaction, deletion, retention, configs. Pure."""

from __future__ import annotations

from typing import Final

from bench.criteria import BMQ, KAFKA, Absolute, Criterion, Evidence, Ratio, Samples, evaluate, parts_by_id

COMPACTION: Final = "compaction"
KEYS: Final = "keys"
BESIDE: Final = "beside_producers"
DELETION: Final = "deletion"
RETENTION: Final = "retention"
CONFIGS: Final = "configs"


def longest_s(raw: Samples) -> float:
    """Of all changes in all rounds."""
    return max(float(seconds) for found in raw["rounds"] for seconds in found["effective_s"].values())


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
    Ratio(
        "delete_10000_segments_p99_ratio", DELETION,
        "p99 at 10,000 records/s while DeleteTopics removes 10,000 segments, to without", "us", "<=", 1.2,
        lambda raw: raw["latency_p99_us"], (BMQ, "with"), (BMQ, "without"), "bmq without",
    ),
    Ratio(
        "kafka_delete_10000_segments_p99_ratio", DELETION, "the same of Apache Kafka, deletion", "us", "", 0,
        lambda raw: raw["latency_p99_us"], (KAFKA, "with"), (KAFKA, "without"), "Kafka without",
    ),
)  # fmt: skip
ABSOLUTES: Final = (
    Absolute(
        "compaction_memory_mib", KEYS, "memory (PSS) of what compacts 10 million keys, at most", "MiB", 200,
        lambda raw: raw["worker_pss_mib"], "Kafka's cleaner is a thread of the broker",
    ),
    Absolute(
        "retention_10000_partitions_cpu_percent", RETENTION,
        "CPU of a node with 10,000 partitions and no clients, over a check of retention", "% of a core", 5,
        lambda raw: raw["cpu_percent"], "what an idle node costs beside Kafka is in `make bench`",
    ),
    Absolute(
        "config_change_effective_s", CONFIGS,
        "IncrementalAlterConfigs until every node acts on it, the longest", "s", 1, longest_s,
    ),
)  # fmt: skip
PART_OF: Final = parts_by_id(RATIOS, ABSOLUTES)


def judge(evidence: Evidence) -> list[Criterion]:
    return evaluate(evidence, RATIOS, ABSOLUTES)
