"""What a cluster has to show beside three Apache Kafka brokers, and alone. Pure.

Faults are measured twice and judged twice, by the same bounds: with each role in processes of its own, so that one role is
taken away alone, and in the combined layout (ids that end with `_combined`), where a process that dies is proxy, broker,
coordinator and controller at once.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Final

from bench import workloads
from bench.cluster.gaps import excess_gap
from bench.criteria import (
    BMQ,
    KAFKA,
    Absolute,
    Criterion,
    Evidence,
    Figure,
    Samples,
    judge_absolute,
    judge_ratio,
    judged,
    parts_by_id,
    unmeasured,
)

PAIRS: Final = "throughput"
DEFAULT_SESSION: Final = "kill9_default_session"
COMBINED_SUFFIX: Final = "_combined"
# restart 2: 300 partitions in use and 300 idle ones, both sides in one run. throughput 2: both sides are warmed until they
# stop improving, and latencies are measured in microseconds.
DEFINITIONS: Final = {"restart": 2, PAIRS: 2}
DRAIN_RATE_LEAST: Final = 0.5
"""Of Kafka's rate in the same run: a drain that is slower says nothing about what draining costs a producer."""


def _gaps(raw: Samples) -> list[float]:
    return [float(one["gap_s"]) for one in raw["rounds"]]


def _median_gap(raw: Samples) -> float:
    return statistics.median(_gaps(raw))


def _longest_gap(raw: Samples) -> float:
    return max(_gaps(raw))


def _longest(name: str, of: str = "rounds") -> Figure:
    return lambda raw: max(float(one[name]) for one in raw[of])


def _excess(raw: Samples) -> float:
    return excess_gap(raw["disturbed"]["gap_s"], raw["undisturbed"]["gap_s"])


def _move_gap(size: str) -> Figure:
    return lambda raw: max(float(one["gap_s"]) for one in raw["under_load"][size])


def _copied(raw: Samples) -> float:
    return max(float(one["copied_bytes"]) for one in raw["in_peace"])


def drain_ratio(raw: Samples) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(float(one["draining"]["p99_ms"]) / float(one["calm"]["p99_ms"]) for one in raw["rounds"])


def _drain_p99(window: str) -> Figure:
    return lambda raw: statistics.median(float(one[window]["p99_ms"]) for one in raw["rounds"])


def _apart(of: Figure) -> Figure:
    """The same of consumers that give way to all servers."""
    return lambda raw: of(raw["apart"])


NO_ZOOKEEPER: Final = "Kafka has no ZooKeeper any more"
NO_PROXY: Final = "Kafka has no proxies"
NO_SCALE: Final = "Kafka has no order to start or stop brokers"
NO_SUPERVISOR: Final = "Kafka's brokers have no supervisor of their own"
COPIES_ALL: Final = "Kafka copies all of it"
NOT_TUNED: Final = "nothing is tuned"


def _faults(suffix: str = "", where: str = "") -> tuple[Absolute, ...]:
    """Of one layout."""

    def fault(name: str, part: str, what: str, bound: float, of: Figure, no_rival: str = "") -> Absolute:
        return Absolute(f"{name}{suffix}", f"{part}{suffix}", f"{what}{where}", "s", bound, of, no_rival)

    return (
        fault("kill9_broker_gap_p50_s", "kill9_broker", "gap, kill -9 of a broker, median", 0.5, _median_gap),
        fault("kill9_broker_gap_max_s", "kill9_broker", "gap, kill -9 of a broker, longest", 1.5, _longest_gap),
        fault("hung_broker_gap_max_s", "hung_broker", "gap, a broker hangs, longest", 4, _longest_gap),
        fault("controller_kill_excess_gap_s", "controller_kill", "excess gap, active controller killed", 0, _excess),
        fault("zookeeper_away_excess_gap_s", "zookeeper_away", "excess gap, ZooKeeper away", 0, _excess, NO_ZOOKEEPER),
    )


ABSOLUTES: Final = (
    *_faults(),
    *_faults(COMBINED_SUFFIX, "; combined layout"),
    Absolute(
        "hung_worker_gap_max_s", "hung_worker", "gap, a supervised node hangs, longest", "s", 4, _longest_gap, NO_SUPERVISOR
    ),
    Absolute("kill9_proxy_gap_max_s", "kill9_proxy", "gap, kill -9 of a proxy, longest", "s", 1, _longest_gap, NO_PROXY),
    Absolute("move_gap_10mib_s", "move", "gap, a partition of 10 MiB moves", "s", 0.3, _move_gap("10mib")),
    Absolute("move_gap_1gib_s", "move", "gap, a partition of 1 GiB moves", "s", 0.3, _move_gap("1gib")),
    Absolute("move_gap_5gib_s", "move", "gap, a partition of 5 GiB moves", "s", 0.3, _move_gap("5gib")),
    Absolute("move_bytes_copied", "move", "copied by a move", "B", 0, _copied, COPIES_ALL),
    Absolute(
        "restart_client_errors", "restart", "client errors, brokers restarted", "", 0, lambda raw: raw["client_errors"]
    ),
    Absolute(
        "restart_gap_max_s", "restart", "gap, a broker is restarted (300 partitions in use, 300 idle)", "s", 1, _longest_gap
    ),
    Absolute(
        "scale_settled_s", "scale", "settled after an order to scale, longest", "s", 10, _longest("settled_s", "steps"),
        NO_SCALE,
    ),
    Absolute(
        "scale_client_errors", "scale", "client errors while scaling", "", 0, lambda raw: raw["client_errors"], NO_SCALE
    ),
    Absolute(
        "scale_lost_or_doubled", "scale", "lost or doubled while scaling", "", 0, lambda raw: raw["lost_or_doubled"],
        NO_SCALE,
    ),
    Absolute("metadata_10000_ms", "metadata", "Metadata of 10,000 partitions", "ms", 150, lambda raw: raw["median_ms"]),
    Absolute(
        "controller_failover_10000_s", "controller_failover", "new controller, 10,000 partitions, longest", "s", 2,
        _longest("answered_s"),
    ),
    Absolute(
        "shard_replay_100k_offsets_s", "shard_replay", "group shard with 100,000 offsets back after a kill", "s", 1,
        lambda raw: raw["heavy"]["answered_s"],
    ),
)  # fmt: skip

DRAIN: Final = Absolute(
    "drain_produce_p99_ratio", "drain", "produce p99, drained / calm, median round", "", 1.5, drain_ratio
)
DRAIN_RATE: Final = Absolute(
    "drain_rate_ratio", "drain", "a backlog is drained, bmq / Kafka", "", DRAIN_RATE_LEAST,
    lambda raw: raw["drained_mb_per_s"], op=">=",
)  # fmt: skip

# What a user meets beside the judged figures, without a bound.
REPORTED: Final = tuple(
    Absolute(name, part, what, unit, 0, of, no_rival, op="")
    for name, part, what, unit, of, no_rival in (
        ("kill9_broker_return_gap_s", "kill9_broker", "gap, a killed broker returns, longest", "s", _longest("heal_gap_s"), ""),
        (
            "kill9_broker_return_gap_s_combined", "kill9_broker_combined",
            "gap, a killed broker returns, longest; combined layout", "s", _longest("heal_gap_s"), "",
        ),
        ("kill9_proxy_gap_p50_s", "kill9_proxy", "gap, kill -9 of a proxy, median", "s", _median_gap, NO_PROXY),
        ("restart_stop_max_s", "restart", "a stop takes, longest", "s", _longest("stop_s"), ""),
        ("restart_wait_max_s", "restart", "a record waits while a broker is restarted, longest", "s", _longest("longest_wait_s"), ""),
        ("scale_gap_max_s", "scale", "gap while scaling, longest", "s", _longest("gap_s", "steps"), NO_SCALE),
        ("drain_mb_per_s", "drain", "a backlog is drained by eight consumers", "MB/s", lambda raw: raw["drained_mb_per_s"], ""),
        ("drain_calm_p99_ms", "drain", "produce p99 without draining, median", "ms", _drain_p99("calm"), ""),
        ("drain_p99_ms", "drain", "produce p99 while drained, median", "ms", _drain_p99("draining"), ""),
        (
            "drain_apart_mb_per_s", "drain", "a backlog is drained by eight consumers that give way to all servers", "MB/s",
            _apart(lambda raw: raw["drained_mb_per_s"]), "",
        ),
        ("drain_apart_p99_ratio", "drain", "produce p99, drained / calm; these consumers", "", _apart(drain_ratio), ""),
        ("drain_apart_calm_p99_ms", "drain", "produce p99 without draining; these consumers", "ms", _apart(_drain_p99("calm")), ""),
        ("drain_apart_p99_ms", "drain", "produce p99 while drained; these consumers", "ms", _apart(_drain_p99("draining")), ""),
        (
            "metadata_first_ms", "metadata", "Metadata of 10,000 partitions, longest", "ms",
            lambda raw: max(raw["changed_ms"]), "",
        ),
        (
            "shard_light_s", "shard_replay", "group shard with a single group's offsets back", "s",
            lambda raw: raw["light"]["answered_s"], "",
        ),
        (
            "kill9_broker_gap_default_session_s", DEFAULT_SESSION,
            "gap, kill -9 of a broker, longest; combined layout, default ZooKeeper session", "s", _longest_gap, NOT_TUNED,
        ),
    )
)  # fmt: skip

BOUNDS: Final = {
    "produce_1k_ratio": (">=", 2.5),
    "produce_100b_ratio": (">=", 2.0),
    "p99_10k_rps_ratio": ("<=", 0.4),
    "consume_ratio": (">=", 1.0),
}
SEPARATE: Final = "bmq_separate"
"""In a pair: bmq with proxies and brokers in processes of their own."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One more run in one of the pairs, in which something that is tuned is as it comes, or is tuned on Kafka's side too."""

    name: str
    side: str
    what: str


VARIANTS: Final = (
    Variant("bmq_normal_scheduling", BMQ, "bmq under the kernel's usual policy"),
    Variant("kafka_batch_scheduling", KAFKA, "Kafka under SCHED_BATCH as well"),
    Variant("bmq_jvm_defaults", BMQ, "HDFS with the defaults of its JVMs"),
)
RATIOS: Final = workloads.ratios(PAIRS, BOUNDS, BMQ)
SEPARATE_RATIOS: Final = workloads.ratios(
    PAIRS, {}, SEPARATE, prefix="separate_", where="; separate proxies and brokers"
)
SHOWN_OF_VARIANTS: Final = tuple(BOUNDS)
PART_OF: Final = parts_by_id(ABSOLUTES, (DRAIN, DRAIN_RATE), REPORTED, RATIOS, SEPARATE_RATIOS)


def judge(evidence: Evidence) -> list[Criterion]:
    return [
        *(_with_lower_bounds(judge_absolute(one, evidence), evidence) for one in (*ABSOLUTES, *REPORTED)),
        *judge_drain(evidence),
        *(judge_ratio(ratio, evidence) for ratio in (*RATIOS, *SEPARATE_RATIOS)),
        *judge_variants(evidence),
    ]


def judge_drain(evidence: Evidence) -> list[Criterion]:
    """The producer's latency counts only where the drain was fast enough, beside Kafka's of the same run."""
    latency = judge_absolute(DRAIN, evidence)
    rates = judge_absolute(DRAIN_RATE, evidence)
    if latency["value"] is None or rates["value"] is None:
        reason = str(latency.get("reason", rates.get("reason"))).removeprefix("not measured: ")
        return [{**unmeasured(one, reason), "rival": "not measured"} for one in (DRAIN, DRAIN_RATE)]
    rate = {**judged(DRAIN_RATE, rates["value"] / rates["rival"]), "rival": ""}
    if not rate["holds"]:
        latency = {
            **latency,
            "holds": False,
            "reason": f"does not count: the drain moved {rate['value']:g} of Kafka's rate, "
            f"and at least {DRAIN_RATE_LEAST:g} is asked for",
        }
    return [latency, rate]


def judge_variants(evidence: Evidence) -> list[Criterion]:
    """Each beside the other side of its own pair."""
    found: list[Criterion] = []
    for variant in VARIANTS:
        pairs = [pair for pair in evidence.parts.get(PAIRS, {}).get("pairs", ()) if variant.name in pair]
        parts = {PAIRS: {"wanted": 1, "pairs": pairs}} if PAIRS in evidence.parts else {}
        failures = {PAIRS: evidence.failures.get(f"{PAIRS}/{variant.name}", ())}
        its_own = Evidence(parts, failures, evidence.measured, evidence.definitions)
        ours, theirs = (variant.name, KAFKA) if variant.side == BMQ else (BMQ, variant.name)
        prefix = f"{variant.name}_"
        every = workloads.ratios(PAIRS, {}, ours, theirs, prefix=prefix, where=f"; {variant.what}")
        found += [judge_ratio(one, its_own) for one in every if one.id.removeprefix(prefix) in SHOWN_OF_VARIANTS]
    return found


def _with_lower_bounds(one: Criterion, evidence: Evidence) -> Criterion:
    """Says of a longest gap that it had not ended yet when the round was given up."""
    sides = evidence.parts.get(one["part"], {})
    marks = {
        mark: True
        for mark, side in (("value_at_least", BMQ), ("rival_at_least", KAFKA))
        if any(each.get("back_s", 0) is None for each in sides.get(side, {}).get("rounds", ()))
    }
    return {**one, **marks}
