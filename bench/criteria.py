"""What the figures have to show: each criterion from the raw samples, or the reason why it could not be measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Samples = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ratio:
    """bmq's figure divided by Apache Kafka's, pair by pair; the criterion is the median."""

    id: str
    what: str
    unit: str
    op: str
    bound: float
    of: Callable[[Samples], float]


def _cpu_per_gb(raw: Samples) -> float:
    """Server seconds to take a gigabyte in and to give a gigabyte out, together."""
    return sum(float(raw[load]["server_cpu_s"]) / float(raw[load]["gb"]) for load in ("produce_1k", "consume"))


RATIOS = (
    Ratio("produce_1k_ratio", "produce 1 KiB", "MiB/s", ">=", 1.3, lambda raw: raw["produce_1k"]["mib_per_s"]),
    Ratio(
        "produce_100b_ratio", "produce 100 B", "records/s", ">=", 1.15, lambda raw: raw["produce_100b"]["records_per_s"]
    ),
    Ratio("p99_10k_rps_ratio", "p99 at 10k/s", "ms", "<=", 0.7, lambda raw: raw["produce_10k_rps"]["latency_p99_ms"]),
    Ratio("consume_ratio", "catch-up consume", "MB/s", ">=", 1.3, lambda raw: raw["consume"]["mb_per_s"]),
    Ratio("memory_ratio", "memory (PSS)", "MiB", "<=", 0.5, lambda raw: raw["memory_after_produce"]["pss_mib"]),
    Ratio("cpu_per_gb_ratio", "server CPU per GB in + out", "s", "<=", 0.5, _cpu_per_gb),
)
# Reported beside the criteria, without a bound.
MORE_RATIOS = (
    Ratio(
        "python_consume_ratio", "confluent-kafka consume", "MB/s", "", 0, lambda raw: raw["python_consume"]["mb_per_s"]
    ),
    Ratio("java_consume_ratio", "consumer-perf", "MiB/s", "", 0, lambda raw: raw["java_consume"]["mib_per_s"]),
    Ratio("p50_10k_rps_ratio", "p50 at 10k/s", "ms", "", 0, lambda raw: raw["produce_10k_rps"]["latency_p50_ms"]),
    Ratio("p999_10k_rps_ratio", "p99.9 at 10k/s", "ms", "", 0, lambda raw: raw["produce_10k_rps"]["latency_p999_ms"]),
    Ratio("start_ratio", "start, empty", "s", "", 0, lambda raw: raw["ready_s"]),
)


@dataclass(frozen=True, slots=True)
class Absolute:
    """A figure of bmq alone."""

    id: str
    bound: float
    of: Callable[[Samples], float]


ABSOLUTES = (
    Absolute("start_1000_partitions_s", 5, lambda raw: statistics.median(raw["many_partitions"]["start_s"])),
    Absolute("idle_cpu_1000_partitions_percent", 3, lambda raw: raw["many_partitions"]["idle_cpu_percent"]),
    Absolute("rss_1000_partitions_mib", 300, lambda raw: raw["many_partitions"]["rss_mib"]),
    Absolute("ready_s", 1.5, lambda raw: statistics.median(raw["ready_s"])),
)


def pair_ratios(ratio: Ratio, pairs: list[Samples]) -> list[float]:
    """One ratio for each pair in which both servers were measured."""
    found = []
    for pair in pairs:
        try:
            bmq, kafka = ratio.of(pair["bmq"]), ratio.of(pair["kafka"])
        except (KeyError, TypeError):
            continue
        if kafka:
            found.append(bmq / kafka)
    return found


def figures_of(ratio: Ratio, pairs: list[Samples], server: str) -> list[float]:
    """The figure behind the ratio, of every pair in which this server was measured."""
    found = []
    for pair in pairs:
        try:
            found.append(float(ratio.of(pair[server])))
        except (KeyError, TypeError):
            continue
    return found


def evaluate(pairs: list[Samples], bmq_alone: Samples) -> list[dict[str, Any]]:
    """All criteria, in order. One that could not be measured has no value, does not hold, and says why."""
    criteria = []
    for ratio in RATIOS:
        values = pair_ratios(ratio, pairs)
        if values:
            criteria.append(judged(ratio.id, statistics.median(values), ratio.op, ratio.bound))
        else:
            reasons = sorted(
                {str(pair[name].get("failure")) for pair in pairs for name in pair if "failure" in pair[name]}
            )
            criteria.append(unmeasured(ratio.id, ratio.op, ratio.bound, "; ".join(reasons) or "no pair was run"))
    for absolute in ABSOLUTES:
        try:
            value = float(absolute.of(bmq_alone))
        except (KeyError, TypeError, statistics.StatisticsError):
            reason = "; ".join(bmq_alone.get("failures", [])) or "it was not run"
            criteria.append(unmeasured(absolute.id, "<=", absolute.bound, reason))
        else:
            criteria.append(judged(absolute.id, value, "<=", absolute.bound))
    return criteria


def judged(name: str, value: float, op: str, bound: float) -> dict[str, Any]:
    holds = value >= bound if op == ">=" else value <= bound
    return {"id": name, "value": round(value, 4), "op": op, "bound": bound, "holds": holds}


def unmeasured(name: str, op: str, bound: float, reason: str) -> dict[str, Any]:
    return {"id": name, "value": None, "op": op, "bound": bound, "holds": False, "reason": f"not measured: {reason}"}
