"""What one core of bmq has to show beside one core of Apache Kafka: work for each second of the server's processor time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.criteria import BMQ, KAFKA, Criterion, Evidence, Ratio, Samples, evaluate, parts_by_id

PAIRS: Final = "one_core"
COMPRESSED: Final = "compressed"


def _per_cpu_second(load: str, name: str, unit: float = 1) -> Callable[[Samples], float]:
    return lambda raw: float(raw[load][name]) / float(raw[load]["server_cpu_s"]) / unit


def _per_second(load: str, name: str, unit: float = 1) -> Callable[[Samples], float]:
    return lambda raw: float(raw[load][name]) / float(raw[load]["seconds"]) / unit


def _figure(load: str, name: str) -> Callable[[Samples], float]:
    return lambda raw: float(raw[load][name])


def _rate(place: int, name: str) -> Callable[[Samples], float]:
    return lambda raw: float(raw["rates"][place][name])


# id, what, unit, op, bound, figure
_FIGURES: Final[tuple[tuple[str, str, str, str, float, Callable[[Samples], float]], ...]] = (
    ("core_produce_1k_ratio", "produce 1 KiB, per CPU second", "MB", ">=", 2.5,
     _per_cpu_second("produce_1k", "value_bytes", 1e6)),
    ("core_produce_100b_ratio", "produce 100 B, per CPU second", "records", ">=", 2.5,
     _per_cpu_second("produce_100b", "records")),
    ("core_fetch_ratio", "fetch a backlog, per CPU second", "MB", ">=", 2.5,
     _per_cpu_second("fetch", "received_bytes", 1e6)),
    ("core_small_requests_ratio", "requests of one record, per CPU second", "requests", ">=", 1.0,
     _per_cpu_second("small_requests", "answers")),
    ("core_produce_1k_rate_ratio", "produce 1 KiB", "MB/s", "", 0, _per_second("produce_1k", "value_bytes", 1e6)),
    ("core_produce_100b_rate_ratio", "produce 100 B", "records/s", "", 0, _per_second("produce_100b", "records")),
    ("core_fetch_rate_ratio", "fetch a backlog", "MB/s", "", 0, _per_second("fetch", "received_bytes", 1e6)),
    ("core_small_requests_rate_ratio", "requests of one record", "requests/s", "", 0,
     _per_second("small_requests", "answers")),
    ("core_p50_low_rate_ratio", "p50 at the lower rate", "us", "", 0, _rate(0, "latency_p50_us")),
    ("core_p99_low_rate_ratio", "p99 at the lower rate", "us", "", 0, _rate(0, "latency_p99_us")),
    ("core_p999_low_rate_ratio", "p99.9 at the lower rate", "us", "", 0, _rate(0, "latency_p999_us")),
    ("core_p50_high_rate_ratio", "p50 at the higher rate", "us", "", 0, _rate(-1, "latency_p50_us")),
    ("core_p99_high_rate_ratio", "p99 at the higher rate", "us", "", 0, _rate(-1, "latency_p99_us")),
    ("core_p999_high_rate_ratio", "p99.9 at the higher rate", "us", "", 0, _rate(-1, "latency_p999_us")),
    ("core_saturated_p99_ratio", "p99 while producing 1 KiB as fast as it goes", "us", "", 0,
     _figure("produce_1k", "latency_p99_us")),
)  # fmt: skip
PLAIN: Final = tuple(
    Ratio(name, PAIRS, what, unit, op, bound, of, (BMQ,), (KAFKA,)) for name, what, unit, op, bound, of in _FIGURES
)
CLOSED_BATCHES: Final = tuple(
    ratio
    for codec in ("lz4", "zstd")
    for ratio in (
        Ratio(f"core_produce_{codec}_rate_ratio", COMPRESSED, f"produce 100 B in {codec} batches of 16 KB", "records/s",
              ">=", 1.0, _per_second(f"produce_{codec}", "records"), (BMQ,), (KAFKA,)),
        Ratio(f"core_produce_{codec}_ratio", COMPRESSED, f"the same in {codec}, per CPU second", "records", "", 0,
              _per_cpu_second(f"produce_{codec}", "records"), (BMQ,), (KAFKA,)),
    )
)  # fmt: skip
RATIOS: Final = PLAIN + CLOSED_BATCHES
PART_OF: Final = parts_by_id(RATIOS)


def judge(evidence: Evidence) -> list[Criterion]:
    return evaluate(evidence, RATIOS, ())
