"""The criteria of Spark's pipeline on bmq against Spark's Kafka connector. Pure.

bmq on HDFS and Apache Kafka hold the same records. In each round every contender reads all of them, in changing order:
the bmq source, the connector on bmq, the connector on Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from bench.criteria import Absolute, Criterion, Evidence, Figure, Ratio, Samples, evaluate, parts_by_id

SCANS_100B: Final = "scans_100b"
SCANS_1K: Final = "scans_1k"
CLOSED: Final = "closed"
EXECUTOR: Final = "executor"
DECODE: Final = "decode"
TABLES: Final = "tables"
MIRROR: Final = "mirror"
RESUME: Final = "resume"

SOURCE: Final = "source"
"""format("bmq")."""
CONNECTOR: Final = "connector"
"""Spark's Kafka connector on the same bmq."""
CONNECTOR_ON_KAFKA: Final = "connector_on_kafka"

# Which part of a topic is read.
FULL: Final = "full"
NARROW: Final = "narrow"
LAST_TENTH: Final = "last_tenth"

CODECS: Final = ("none", "lz4", "zstd", "gzip", "snappy")
NO_PYTHON: Final = "no Python"
NO_TABLES: Final = "no tables"
NO_MIRROR: Final = "not compared"


def _records_per_s(raw: Samples) -> float:
    return float(raw["records"]) / float(raw["seconds"])


def _bytes(raw: Samples) -> float:
    """Bytes sent by DataNodes and nodes together."""
    return float(raw["datanode_bytes"]) + float(raw["node_bytes"])


def _mb_per_core_s(raw: Samples) -> float:
    """Of values before compression, so that codecs are comparable."""
    return float(raw["value_bytes"]) / float(raw["cpu_s"]) / 1e6


def _mb_per_s(raw: Samples) -> float:
    return float(raw["value_bytes"]) / float(raw["seconds"]) / 1e6


def _scans(part: str, prefix: str, where: str) -> tuple[Ratio, ...]:
    """The same criteria for both record sizes."""

    def ratio(
        name: str,
        what: str,
        unit: str,
        op: str,
        bound: float,
        of: Figure,
        ours: tuple[str, ...],
        theirs: tuple[str, ...],
        rival: str,
    ) -> Ratio:
        return Ratio(f"{prefix}{name}", part, f"{what}; {where}", unit, op, bound, of, ours, theirs, rival)

    source, connector = (SOURCE, FULL), (CONNECTOR, FULL)
    return (
        ratio("scan_ratio_same_cluster", "scan by format('bmq'), to the connector on the same bmq", "records/s", ">=", 3,
              _records_per_s, source, connector, "the connector"),
        ratio("scan_ratio_kafka", "scan by format('bmq'), to the connector on Apache Kafka", "records/s", ">=", 2,
              _records_per_s, source, (CONNECTOR_ON_KAFKA, FULL), "the connector on Apache Kafka"),
        ratio("connector_ratio", "scan by the connector on bmq, to the same on Apache Kafka", "records/s", ">=", 1.0,
              _records_per_s, connector, (CONNECTOR_ON_KAFKA, FULL), "Apache Kafka"),
        ratio("narrow_scan_ratio", "scan of timestamps and offsets only, to the full scan", "records/s", ">=", 2,
              _records_per_s, (SOURCE, NARROW), source, "the full scan"),
        ratio("time_range_bytes_ratio", "bytes read for the last tenth by timestamp, to all", "bytes", "<=", 0.15,
              _bytes, (SOURCE, LAST_TENTH), source, "the full scan"),
        ratio("time_range_s_ratio", "time of a scan of the last tenth by timestamp, to all", "s", "", 0,
              lambda raw: raw["seconds"], (SOURCE, LAST_TENTH), source, "the full scan"),
        ratio("time_range_records_ratio", "records in the last tenth by timestamp, to all", "records", "", 0,
              lambda raw: raw["records"], (SOURCE, LAST_TENTH), source, "the full scan"),
    )  # fmt: skip


def _decoding(codec: str) -> tuple[Ratio, ...]:
    """Only uncompressed records are judged."""
    op, bound = (">=", 0.5) if codec == "none" else ("", 0)
    name = "decode_mb_per_core_ratio" if codec == "none" else f"decode_mb_per_core_{codec}_ratio"
    what = f"verify of 1 KiB records, {'not compressed' if codec == 'none' else codec}"
    ours, theirs, rival = (codec, "verify"), (codec, "read"), "reading alone"
    return (
        Ratio(name, DECODE, f"{what}, to reading the same blocks, by processor time", "MB per core and s", op, bound,
              _mb_per_core_s, ours, theirs, rival),
        Ratio(name.replace("per_core", "per_s"), DECODE, f"{what}, to reading the same blocks, by the clock",
              "MB/s", "", 0, _mb_per_s, ours, theirs, rival),
    )  # fmt: skip


def _most(name: str) -> Figure:
    return lambda raw: max(float(one[name]) for one in raw["rounds"])


RATIOS: Final = (
    *_scans(SCANS_100B, "", "100 B"),
    *_scans(SCANS_1K, "one_kib_", "1 KiB"),
    Ratio(
        "closed_bytes_from_brokers", CLOSED,
        "bytes from brokers and proxies, to all of a scan of closed segments", "bytes", "<=", 0.01,
        lambda raw: raw["bytes"], ("brokers",), ("all",), "all bytes",
    ),
    Ratio(
        "connector_closed_ratio", CLOSED,
        "scan by the connector of closed segments alone, to the same records on Apache Kafka; 100 B", "records/s", "", 0,
        _records_per_s, (CONNECTOR, FULL), (CONNECTOR_ON_KAFKA, FULL), "Apache Kafka",
    ),
    *(ratio for codec in CODECS for ratio in _decoding(codec)),
)  # fmt: skip
ABSOLUTES: Final = (
    Absolute(
        "executor_memory_mib", EXECUTOR,
        "memory (PSS) of all Python processes of an executor with two tasks, at most, any scan", "MiB", 512,
        _most("python_pss_mib"), NO_PYTHON,
    ),
    Absolute(
        "table_rows_lost_or_doubled", TABLES, "rows of a table lost or doubled, its job and brokers killed", "rows", 0,
        _most("table_rows_lost_or_doubled"), NO_TABLES,
    ),
    Absolute(
        "table_lag_s", TABLES, "from a record's acknowledgement to its row in a table at 10,000 records/s, at most", "s", 20,
        _most("table_lag_s"), NO_TABLES,
    ),
    Absolute(
        "mirror_lost_or_doubled", MIRROR,
        "records of a mirror lost or doubled, its job, brokers and for a minute its target away", "records", 0,
        _most("mirror_lost_or_doubled"), NO_MIRROR,
    ),
    Absolute(
        "jobs_resumed_differently", RESUME, "jobs that end differently after kill -9 in the middle and a resume", "jobs", 0,
        _most("jobs_resumed_differently"), NO_MIRROR,
    ),
    Absolute(
        "executor_worker_memory_mib", EXECUTOR, "of it the largest process", "MiB", 0, _most("worker_pss_mib"), NO_PYTHON,
        op="",
    ),
    Absolute(
        "driver_python_memory_mib", EXECUTOR, "memory (PSS) of the Python processes that plan on the driver, at most", "MiB", 0,
        _most("planners_pss_mib"), NO_PYTHON, op="",
    ),
    Absolute(
        "executor_jvm_memory_mib", EXECUTOR, "memory (PSS) of Spark's JVM meanwhile, driver and executor in one, at most",
        "MiB", 0, _most("jvm_pss_mib"), NO_PYTHON, op="",
    ),
    Absolute(
        "executor_jvm_heap_mib", EXECUTOR, "of it heap in use, at most", "MiB", 0, _most("jvm_heap_mib"), NO_PYTHON, op="",
    ),
)  # fmt: skip
PART_OF: Final = parts_by_id(RATIOS, ABSOLUTES)


def judge(evidence: Evidence) -> list[Criterion]:
    return evaluate(evidence, RATIOS, ABSOLUTES)
