"""What share groups have to reach beside Apache Kafka's, and beside a plain consumer of bmq."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench.criteria import (
    BMQ,
    Absolute,
    Criterion,
    Evidence,
    Ratio,
    Samples,
    judge_absolute,
    judge_ratio,
    parts_by_id,
)

CONSUME: Final = "consume"
THREE: Final = "consume-three"
ACKS: Final = "acks"
LOCKS: Final = "locks"
IDLE: Final = "idle"
PLAIN: Final = "plain"
FAILOVER: Final = "failover"
MOVES: Final = "moves"
KILLS: Final = "kills"

OLD: Final = "old"
"""The revision before share groups, beside bmq in the part PLAIN."""
LOADS: Final[dict[str, tuple[int, int]]] = {
    "100b_1": (100, 1),
    "100b_8": (100, 8),
    "1k_1": (1_024, 1),
    "1k_8": (1_024, 8),
}
"""By name: bytes of a record, and consumers."""
PLAIN_LOADS: Final = tuple(name for name, (_, consumers) in LOADS.items() if consumers == 1)
"""Kafka's tool has no plain consumers side by side."""


def _rate(load: str, kind: str = "share") -> Callable[[Samples], float]:
    return lambda raw: float(raw[load][kind]["records_per_s"])


def _cpu(load: str) -> Callable[[Samples], float]:
    return lambda raw: 1e6 * float(raw[load]["share"]["server_cpu_s"]) / float(raw[load]["share"]["records"])


def _first(load: str) -> Callable[[Samples], float]:
    return lambda raw: float(raw[load]["share"]["first_record_s"])


def _each(
    criterion_id: str,
    part: str,
    what: str,
    unit: str,
    op: str,
    bound: float,
    of: Callable[[str], Callable[[Samples], float]],
    loads: Sequence[str] = tuple(LOADS),
) -> dict[str, Ratio]:
    """A ratio for each load, and none is judged by itself. `op`, `bound`: of the worst of them."""
    return {load: Ratio(criterion_id, part, f"{what}, {_said(load)}", unit, op, bound, of(load)) for load in loads}


def _said(load: str) -> str:
    record_bytes, consumers = LOADS[load]
    return f"{'1 KiB' if record_bytes == 1_024 else '100 B'}, {consumers} consumer{'s' if consumers > 1 else ''}"


WORST: Final = (
    _each("share_consume_ratio", CONSUME, "share consumers of Kafka's tool", "records/s", ">=", 1.5, _rate),
    {
        load: Ratio("share_vs_plain", CONSUME, f"a share consumer to a plain one of bmq, {_said(load)}", "records/s", ">=",
                    0.5, lambda raw: float(raw["records_per_s"]), (BMQ, load, "share"), (BMQ, load, "plain"), rival="a plain consumer of bmq")
        for load in PLAIN_LOADS
    },
    _each("share_cpu_per_record_ratio", CONSUME, "server CPU a record, all processes", "us", "<=", 0.7, _cpu),
)  # fmt: skip
"""Ratios by load: the criterion is the worst load's. All loads are reported."""


RATIOS: Final = (
    Ratio("ack_p99_ratio", ACKS, "fetch of one, accept: p99 of the round trip at the fixed rate", "us", "<=", 0.7,
          lambda raw: float(raw["rated"]["latency_p99_us"])),
    Ratio("plain_produce", PLAIN, "produce 1 KiB, per CPU second", "MB", ">=", 0.98,
          lambda raw: float(raw["produce_1k"]["value_bytes"]) / float(raw["produce_1k"]["server_cpu_s"]) / 1e6,
          (BMQ,), (OLD,), rival="bmq before share groups"),
    Ratio("plain_fetch", PLAIN, "fetch a backlog, per CPU second", "MB", ">=", 0.98,
          lambda raw: float(raw["fetch"]["received_bytes"]) / float(raw["fetch"]["server_cpu_s"]) / 1e6,
          (BMQ,), (OLD,), rival="bmq before share groups"),
)  # fmt: skip
REPORTED: Final = (
    Ratio("ack_p50_ratio", ACKS, "p50 of the same", "us", "", 0, lambda raw: float(raw["rated"]["latency_p50_us"])),
    Ratio("ack_rate_ratio", ACKS, "fetches of one with an accept, as many as are answered", "1/s", "", 0,
          lambda raw: float(raw["saturated"]["round_trips"]) / float(raw["saturated"]["seconds"])),
    Ratio("ack_cpu_ratio", ACKS, "server CPU of one of these", "us", "", 0,
          lambda raw: 1e6 * float(raw["saturated"]["server_cpu_s"]) / float(raw["saturated"]["round_trips"])),
    *(
        Ratio(f"share_first_record_{load}_ratio", CONSUME, f"from the start to the first record, {_said(load)}", "s", "", 0,
              _first(load))
        for load in PLAIN_LOADS
    ),
    *(
        Ratio(f"three_share_consume_{load}_ratio", THREE, f"three nodes: share consumers, {_said(load)}", "records/s", "", 0,
              _rate(load))
        for load in LOADS
    ),
    *(
        Ratio(f"three_share_cpu_{load}_ratio", THREE, f"three nodes: server CPU a record, {_said(load)}", "us", "", 0,
              _cpu(load))
        for load in LOADS
    ),
)  # fmt: skip


def _median(name: str) -> Callable[[Samples], float]:
    return lambda raw: statistics.median(float(one[name]) for one in raw["rounds"])


def _sum(name: str) -> Callable[[Samples], float]:
    return lambda raw: float(sum(one[name] for one in raw["rounds"]))


def _longest(name: str) -> Callable[[Samples], float]:
    return lambda raw: max(float(one[name]) for one in raw["rounds"])


_NO_KILLS: Final = "Apache Kafka's counts of records that are locked are lost with their leader"
ABSOLUTES: Final = (
    Absolute("share_failover_gap_s", FAILOVER, "kill -9 of the node of shard and owner: longest time without a delivery",
             "s", 1.0, _median("gap_s")),
    Absolute("counts_lost", KILLS, "deliveries with a lower count than deliveries seen", "", 0, _sum("counts_lost"),
             no_rival=_NO_KILLS),
    Absolute("accepted_twice", KILLS, "records given again after their accept was acknowledged", "", 0,
             _sum("accepted_twice"), no_rival=_NO_KILLS),
    Absolute("lost", KILLS, "records that were never accepted", "", 0, _sum("lost"), no_rival=_NO_KILLS),
    Absolute("redelivered_by_move", MOVES, "locked records given again because their data partition moved", "", 0,
             _sum("redelivered")),
    Absolute("locks_memory_mib", LOCKS, "1,000,000 records locked in 1,000 share partitions, 500 at a time", "MiB", 60,
             _longest("memory_mib"), no_rival="a bound of its own"),
    Absolute("idle_10000_members_cpu_percent", IDLE, "heartbeats and long polls of 10,000 members, one node", "%", 25,
             _longest("cpu_percent"), no_rival="a bound of its own"),
)  # fmt: skip
REPORTED_ABSOLUTES: Final = (
    Absolute("locks_memory_single_mib", LOCKS, "the same, each record locked by itself", "MiB", 0,
             _longest("single_memory_mib"), no_rival="a bound of its own", op=""),
    Absolute("failover_gap_longest_s", FAILOVER, "the longest of all these gaps", "s", 0, _longest("gap_s"), op=""),
)  # fmt: skip
PART_OF: Final = parts_by_id(
    [one for by_load in WORST for one in by_load.values()], RATIOS, REPORTED, ABSOLUTES, REPORTED_ABSOLUTES
)


def judge(evidence: Evidence) -> list[Criterion]:
    return [
        *(judge_absolute(one, evidence) for one in ABSOLUTES),
        *(worst([judge_ratio(one, evidence) for one in by_load.values()]) for by_load in WORST),
        *(judge_ratio(one, evidence) for one in RATIOS),
        *(judge_absolute(one, evidence) for one in REPORTED_ABSOLUTES),
        *(judge_ratio(one, evidence) for one in REPORTED),
        *(
            {**_unjudged(judge_ratio(one, evidence)), "id": f"{one.id}_{load}"}
            for by_load in WORST
            for load, one in by_load.items()
        ),
    ]


def worst(found: Sequence[Criterion]) -> Criterion:
    """The one that is farthest from its bound; one that was not measured is worse than all."""
    unmeasured = [one for one in found if one["value"] is None]
    if unmeasured:
        return unmeasured[0]
    choose = min if found[0]["op"] == ">=" else max
    return choose(found, key=lambda one: float(one["value"]))


def _unjudged(one: Criterion) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name not in ("op", "bound", "holds")}
