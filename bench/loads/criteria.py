"""What a cluster of bmq has to show beside three Apache Kafka brokers under loads that hide nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.criteria import BMQ, KAFKA, Criterion, Evidence, Ratio, Samples, evaluate, parts_by_id

PAIRS: Final = "loads"
WORKERS: Final = "workers"
OVERLOAD: Final = "overload"
SEPARATE: Final = "bmq_separate"
"""In a pair: bmq with proxies and brokers in processes of their own."""
ONE: Final = "one"
TWO: Final = "two"
"""In a pair of WORKERS: nodes side by side."""

Figure = Callable[[Samples], float]


def _rate(load: str, unit: float = 1.0) -> Figure:
    """Records acknowledged in a second, or bytes of them."""
    return lambda raw: float(raw[load]["records"]) / float(raw[load]["seconds"]) * unit


def _cpu_per_gb(name: str) -> Figure:
    def figure(raw: Samples) -> float:
        load = raw["produce_1k"]
        return float(load[name]) / (float(load["records"]) * 1024 / 1e9)

    return figure


def _latency(kind: str, name: str) -> Figure:
    return lambda raw: float(raw["rate_10k"][kind][name])


def _kcat(load: str, name: str) -> Figure:
    return lambda raw: float(raw[load][name])


def _fresh_java(raw: Samples) -> float:
    return float(raw["fresh_java"]["mib_per_s_of_passes"][0])


def _idle_cpu(raw: Samples) -> float:
    """Of a core, in percent."""
    return 100 * float(raw["idle_consumers"]["server_cpu_s"]) / float(raw["idle_consumers"]["seconds"])


def _memory(raw: Samples) -> float:
    return float(raw["memory"]["pss_mib"])


def _overload(window: str, name: str) -> Figure:
    return lambda raw: float(raw[window][name])


def _memory_most(raw: Samples) -> float:
    return max(float(sum(one.values())) for one in raw["memory_pss_mib"])


MB_OF_1K: Final = 1024 / 1e6
# id, what, unit, op, bound, figure
_FIGURES: Final[tuple[tuple[str, str, str, str, float, Figure], ...]] = (
    ("produce_1k_ratio", "produce 1 KiB", "MB/s", ">=", 1.7, _rate("produce_1k", MB_OF_1K)),
    ("produce_100b_ratio", "produce 100 B", "records/s", ">=", 1.7, _rate("produce_100b")),
    ("user_cpu_per_gb_ratio", "user CPU of all servers per GB of 1 KiB produced", "s", "<=", 0.18,
     _cpu_per_gb("server_user_s")),
    ("cpu_per_gb_ratio", "CPU of all servers per GB of 1 KiB produced", "s", "<=", 0.55, _cpu_per_gb("server_cpu_s")),
    ("p99_10k_rps_ratio", "p99 at 10,000 records/s", "us", "<=", 0.4, _latency("acknowledged", "p99_us")),
    ("end_to_end_p99_ratio", "p99 at 10,000 records/s, to a consumer", "us", "<=", 0.5, _latency("consumed", "p99_us")),
    ("fresh_backlog_ratio", "what was just produced, first pass, kcat", "MB/s", ">=", 1.0,
     _kcat("fresh_backlog", "first_mb_per_s")),
    ("fresh_backlog_java_ratio", "what was just produced, first pass, Java consumer", "MiB/s", ">=", 1.0, _fresh_java),
    ("old_backlog_ratio", "an old backlog after a restart, page caches dropped, kcat", "MB/s", ">=", 1.0,
     _kcat("old_backlog", "first_mb_per_s")),
    ("produce_300_partitions_ratio", "100 B to 300 partitions at random", "records/s", ">=", 2.0, _rate("partitions_300")),
    ("produce_1000_partitions_ratio", "100 B to 1,000 partitions at random", "records/s", ">=", 5.0,
     _rate("partitions_1000")),
    ("idle_consumers_1000_cpu_ratio", "CPU of all servers, 1,000 idle consumers, of a core", "%", "<=", 0.3, _idle_cpu),
    ("memory_ratio", "memory (PSS) of all servers behind these loads", "MiB", "<=", 0.6, _memory),
)  # fmt: skip
_REPORTED: Final[tuple[tuple[str, str, str, Figure], ...]] = (
    ("again_backlog_ratio", "the same again, kcat", "MB/s", _kcat("fresh_backlog", "mb_per_s")),
    ("p50_10k_rps_ratio", "p50 at 10,000 records/s", "us", _latency("acknowledged", "p50_us")),
    ("p999_10k_rps_ratio", "p99.9 at 10,000 records/s", "us", _latency("acknowledged", "p999_us")),
    ("end_to_end_p50_ratio", "p50 at 10,000 records/s, to a consumer", "us", _latency("consumed", "p50_us")),
    ("end_to_end_p999_ratio", "p99.9 at 10,000 records/s, to a consumer", "us", _latency("consumed", "p999_us")),
)


def _raw_rate(raw: Samples) -> float:
    """Of the product: its rate. Of the raw writers: that of the faster one."""
    if "records" in raw:
        return float(raw["records"]) * MB_OF_1K / float(raw["seconds"])
    return max(float(one) for one in raw.values())


RAW: Final = Ratio(
    "raw_hdfs_share", PAIRS, "produce 1 KiB, of what the faster raw HDFS client writes with three replicas", "MB/s", ">=",
    0.75, _raw_rate, (BMQ, "produce_1k"), (BMQ, "raw_hdfs"), rival="a raw HDFS client",
)  # fmt: skip
RATIOS: Final = (
    *(Ratio(name, PAIRS, what, unit, op, bound, of) for name, what, unit, op, bound, of in _FIGURES),
    RAW,
    Ratio(
        "workers_2_ratio", WORKERS, "fetch from two nodes side by side on two cores, to one", "MB/s", ">=", 1.5,
        lambda raw: raw["fetch_mb_per_s"], (TWO,), (ONE,), rival="one node",
    ),
    *(Ratio(name, PAIRS, what, unit, "", 0, of) for name, what, unit, of in _REPORTED),
    *(
        Ratio(f"separate_{name}", PAIRS, f"{what}; separate proxies and brokers", unit, "", 0, of, (SEPARATE,), (KAFKA,))
        for name, what, unit, _, _, of in _FIGURES
    ),
    Ratio(
        "workers_2_produce_ratio", WORKERS, "produce 1 KiB to two nodes side by side on two cores, to one", "MB/s", "", 0,
        lambda raw: raw["produce_mb_per_s"], (TWO,), (ONE,), rival="one node",
    ),
    Ratio(
        "overload_p99_ratio", OVERLOAD, "p99 at 1,000 records/s among too many clients", "us", "<=", 1.0,
        _overload("crowded", "p99_us"),
    ),
    Ratio(
        "overload_calm_p99_ratio", OVERLOAD, "the same without them", "us", "", 0, _overload("calm", "p99_us"),
    ),
    Ratio(
        "overload_fast_ratio", OVERLOAD, "what 50 fast producers get through meanwhile", "MB/s", "", 0,
        _overload("crowded", "fast_mb_per_s"),
    ),
    Ratio(
        "overload_memory_ratio", OVERLOAD, "memory (PSS) of all servers meanwhile, at most", "MiB", "", 0, _memory_most,
    ),
    Ratio(
        "overload_stalled_p99_ratio", OVERLOAD, "p99 at 1,000 records/s, a DataNode standing still as well; to that without",
        "us", "", 0, lambda raw: raw["p99_us"], (BMQ, "stalled"), (BMQ, "crowded"), rival="bmq itself",
    ),
)  # fmt: skip
PART_OF: Final = parts_by_id(RATIOS)


def judge(evidence: Evidence) -> list[Criterion]:
    return evaluate(evidence, RATIOS, ())
