"""What the figures have to show: each criterion from the raw samples, or the reason why it could not be measured. Pure.

Every part has its samples under `parts`, by side: `{"kill9_broker": {"bmq": {...}, "kafka": {...}}}`; `pairs` holds the
loads that both sides were put under right after each other.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.cluster.gaps import excess_gap
from bench.criteria import Ratio, judged, pair_ratios, unmeasured

Samples = Mapping[str, Any]
Figure = Callable[[Samples], float]
BMQ: Final = "bmq"
KAFKA: Final = "kafka"
PAIRS: Final = "throughput"


@dataclass(frozen=True, slots=True)
class Criterion:
    """A figure of bmq, from one side's samples of `part`; Apache Kafka's is looked at in the same way, beside it.

    `op` is "<=" in all of them. `no_rival`: why Kafka has none.
    """

    id: str
    part: str
    what: str
    unit: str
    bound: float
    of: Figure
    no_rival: str = ""


def _gaps(raw: Samples) -> list[float]:
    return [float(one["gap_s"]) for one in raw["rounds"]]


def _median_gap(raw: Samples) -> float:
    return statistics.median(_gaps(raw))


def _longest_gap(raw: Samples) -> float:
    return max(_gaps(raw))


def _excess(raw: Samples) -> float:
    return excess_gap(raw["disturbed"]["gap_s"], raw["undisturbed"]["gap_s"])


def _move_gap(size: str) -> Figure:
    return lambda raw: max(float(one["gap_s"]) for one in raw["under_load"][size])


def _copied(raw: Samples) -> float:
    return max(float(one["copied_bytes"]) for one in raw["in_peace"])


def _drain_ratio(raw: Samples) -> float:
    def typical(window: str) -> float:
        return statistics.median(float(one[window]["p99_ms"]) for one in raw["rounds"])

    return typical("draining") / typical("calm")


NO_ZOOKEEPER: Final = "Kafka has no ZooKeeper any more"
NO_PROXY: Final = "Kafka has no proxies"
NO_SCALE: Final = "Kafka has no order to start or stop brokers"

CRITERIA: Final = (
    Criterion("kill9_broker_gap_p50_s", "kill9_broker", "gap, kill -9 of a broker, median", "s", 0.5, _median_gap),
    Criterion("kill9_broker_gap_max_s", "kill9_broker", "gap, kill -9 of a broker, longest", "s", 1.5, _longest_gap),
    Criterion("hung_broker_gap_max_s", "hung_broker", "gap, a broker hangs, longest", "s", 4, _longest_gap),
    Criterion("kill9_proxy_gap_max_s", "kill9_proxy", "gap, kill -9 of a proxy, longest", "s", 1, _longest_gap, NO_PROXY),
    Criterion("controller_kill_excess_gap_s", "controller_kill", "excess gap, controller killed", "s", 0, _excess),
    Criterion("zookeeper_away_excess_gap_s", "zookeeper_away", "excess gap, ZooKeeper away", "s", 0, _excess, NO_ZOOKEEPER),
    Criterion("move_gap_10mib_s", "move", "gap, a partition of 10 MiB moves", "s", 0.3, _move_gap("10mib")),
    Criterion("move_gap_1gib_s", "move", "gap, a partition of 1 GiB moves", "s", 0.3, _move_gap("1gib")),
    Criterion("move_gap_5gib_s", "move", "gap, a partition of 5 GiB moves", "s", 0.3, _move_gap("5gib")),
    Criterion("move_bytes_copied", "move", "copied by a move", "B", 0, _copied),
    Criterion("restart_client_errors", "restart", "client errors, brokers restarted", "", 0, lambda raw: raw["client_errors"]),
    Criterion("restart_gap_max_s", "restart", "gap, broker with 300 partitions restarted", "s", 1, _longest_gap),
    Criterion(
        "scale_settled_s", "scale", "settled after an order to scale, longest", "s", 10,
        lambda raw: max(step["settled_s"] for step in raw["steps"]), NO_SCALE,
    ),
    Criterion("scale_client_errors", "scale", "client errors while scaling", "", 0, lambda raw: raw["client_errors"], NO_SCALE),
    Criterion("scale_lost_or_doubled", "scale", "lost or doubled while scaling", "", 0, lambda raw: raw["lost_or_doubled"], NO_SCALE),
    Criterion("drain_produce_p99_ratio", "drain", "produce p99, drained / calm", "", 1.5, _drain_ratio),
    Criterion("metadata_10000_ms", "metadata", "Metadata of 10,000 partitions", "ms", 150, lambda raw: raw["median_ms"]),
    Criterion(
        "controller_failover_10000_s", "controller_failover", "new controller, 10,000 partitions, longest", "s", 2,
        lambda raw: max(one["answered_s"] for one in raw["rounds"]),
    ),
    Criterion(
        "shard_replay_100k_offsets_s", "shard_replay", "group shard with 100,000 offsets back", "s", 1,
        lambda raw: raw["heavy"]["answered_s"],
    ),
)  # fmt: skip


def _cpu_per_gb(raw: Samples) -> float:
    """Server seconds to take a gigabyte in and to give a gigabyte out, together."""
    return sum(float(raw[load]["server_cpu_s"]) / float(raw[load]["gb"]) for load in ("produce_1k", "consume"))


RATIOS: Final = (
    Ratio("produce_1k_ratio", "produce 1 KiB", "MiB/s", ">=", 2.5, lambda raw: raw["produce_1k"]["mib_per_s"]),
    Ratio(
        "produce_100b_ratio", "produce 100 B", "records/s", ">=", 2, lambda raw: raw["produce_100b"]["records_per_s"]
    ),
    Ratio("p99_10k_rps_ratio", "p99 at 10k/s", "ms", "<=", 0.4, lambda raw: raw["produce_10k_rps"]["latency_p99_ms"]),
    Ratio("consume_ratio", "catch-up consume", "MB/s", ">=", 1.0, lambda raw: raw["consume"]["mb_per_s"]),
)
# Reported beside the criteria, without a bound.
MORE_RATIOS: Final = (
    Ratio("p50_10k_rps_ratio", "p50 at 10k/s", "ms", "", 0, lambda raw: raw["produce_10k_rps"]["latency_p50_ms"]),
    Ratio("p999_10k_rps_ratio", "p99.9 at 10k/s", "ms", "", 0, lambda raw: raw["produce_10k_rps"]["latency_p999_ms"]),
    Ratio("memory_ratio", "memory of all (PSS)", "MiB", "", 0, lambda raw: raw["memory_after_produce"]["pss_mib"]),
    Ratio("cpu_per_gb_ratio", "CPU of all per GB in + out", "s", "", 0, _cpu_per_gb),
)
SEPARATE: Final = "bmq_separate"
"""In a pair: bmq with proxies and brokers in processes of their own."""


def part_ids(part: str) -> list[str]:
    """The criteria that a part is run for."""
    if part == PAIRS:
        return [ratio.id for ratio in RATIOS]
    return [criterion.id for criterion in CRITERIA if criterion.part == part]


def figure(criterion: Criterion, parts: Mapping[str, Samples], side: str) -> float | None:
    """None when the side's samples do not have it."""
    try:
        return float(criterion.of(parts[criterion.part][side]))
    except (KeyError, IndexError, TypeError, ValueError, statistics.StatisticsError):
        return None


def is_cut_short(raw: Samples) -> bool:
    """Whether rounds that were wanted are missing."""
    return bool(len(raw.get("rounds", ())) < raw.get("wanted", 0))


def separate(pairs: Sequence[Samples]) -> list[dict[str, Any]]:
    """The same pairs with bmq's separate proxies and brokers in the place of bmq."""
    return [{**pair, BMQ: pair[SEPARATE]} for pair in pairs if SEPARATE in pair]


def evaluate(
    parts: Mapping[str, Samples], pairs: Sequence[dict[str, Any]], failures: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """All criteria, in order. One that could not be measured has no value, does not hold, and says why.

    `failures`: by part. A part that failed after some of its rounds has a figure of those, which does not hold.
    """
    found = []
    for criterion in CRITERIA:
        reason = "; ".join(failures.get(criterion.part, ()))
        value = figure(criterion, parts, BMQ)
        if value is None:
            one = unmeasured(criterion.id, "<=", criterion.bound, reason or "it was not run")
        else:
            one = judged(criterion.id, value, "<=", criterion.bound)
            if is_cut_short(parts[criterion.part][BMQ]):
                one.update(holds=False, reason=f"not all of it was measured: {reason}")
        rival = figure(criterion, parts, KAFKA)
        one["kafka"] = criterion.no_rival or "not measured" if rival is None else round(rival, 4)
        found.append(one)
    for ratio in RATIOS:
        values = pair_ratios(ratio, list(pairs))
        if values:
            found.append(judged(ratio.id, statistics.median(values), ratio.op, ratio.bound))
        else:
            reason = "; ".join(failures.get(PAIRS, ())) or "it was not run"
            found.append(unmeasured(ratio.id, ratio.op, ratio.bound, reason))
    return found
