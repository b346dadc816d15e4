"""What share groups have to reach beside Apache Kafka's, and beside a plain consumer of bmq; with what delayed records, views, half
messages and lanes have to.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from bench.criteria import (
    BMQ,
    KAFKA,
    Absolute,
    Criterion,
    Evidence,
    Figure,
    Ratio,
    Samples,
    judge_absolute,
    judge_ratio,
    parts_by_id,
)
from bench.queues.half import criteria as half
from bench.queues.lanes import criteria as lanes
from bench.queues.timers import criteria as timers
from bench.queues.views import criteria as views

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
FIRST_LOADS: Final = tuple(name for name, (_, consumers) in LOADS.items() if consumers == 1)
"""Whose time to the first record is told: that of one consumer."""
LAYOUTS: Final = {CONSUME: "", THREE: "three_"}
"""Parts of the tool's loads, and what stands in front of their figures' names: one node, and three."""
ACKS_SAMPLES: Final = {
    "": ("one node", ACKS, (BMQ,), (KAFKA,)),
    "three_": ("three nodes", THREE, (BMQ, ACKS), (KAFKA, ACKS)),
}
"""By what stands in front of a figure's name: the layout, its part, and where its samples are."""


def _rate(load: str, kind: str = "share") -> Callable[[Samples], float]:
    return lambda raw: float(raw[load][kind]["records_per_s"])


def _cpu(load: str) -> Callable[[Samples], float]:
    return lambda raw: 1e6 * float(raw[load]["share"]["server_cpu_s"]) / float(raw[load]["share"]["records"])


def _first(load: str) -> Callable[[Samples], float]:
    return lambda raw: float(raw[load]["share"]["first_record_s"])


def _each(
    criterion_id: str,
    what: str,
    unit: str,
    op: str,
    bound: float,
    of: Callable[[str], Callable[[Samples], float]],
    *,
    is_beside_plain: bool = False,
) -> dict[str, Ratio]:
    """A ratio by layout and load, none of which is judged by itself. `op`, `bound`: of the worst of them.

    `is_beside_plain`: to a plain consumer of bmq in place of Apache Kafka's share consumers.
    """
    found = {}
    for part, prefix in LAYOUTS.items():
        for load in LOADS:
            ratio = Ratio(criterion_id, part, f"{what}, {_said(part, load)}", unit, op, bound, of(load))
            if is_beside_plain:
                ratio = replace(
                    ratio, of=lambda raw: float(raw["records_per_s"]), ours=(BMQ, load, "share"),
                    theirs=(BMQ, load, "plain"), rival="plain consumers of bmq",
                )  # fmt: skip
            found[f"{prefix}{load}"] = ratio
    return found


def _said(part: str, load: str) -> str:
    record_bytes, consumers = LOADS[load]
    size = "1 KiB" if record_bytes == 1_024 else "100 B"
    return f"{'one node' if part == CONSUME else 'three nodes'}, {size}, {consumers} consumer{'s' if consumers > 1 else ''}"


def _rated(name: str) -> Callable[[Samples], float]:
    return lambda raw: float(raw["rated"][name])


def _saturated(name: str, of: str) -> Callable[[Samples], float]:
    return lambda raw: float(raw["saturated"][name]) / float(raw["saturated"][of])


WORST: Final = (
    _each("share_consume_ratio", "share consumers of Kafka's tool", "records/s", ">=", 1.5, _rate),
    _each("share_vs_plain", "share consumers to plain ones of bmq", "records/s", ">=", 0.5, _rate, is_beside_plain=True),
    _each("share_cpu_per_record_ratio", "server CPU a record, all processes", "us", "<=", 0.7, _cpu),
    {
        f"{prefix}{ACKS}": Ratio(
            "ack_p99_ratio", part, f"fetch of one, accept, at a fixed rate: p99 of the round trip, {said}", "us", "<=", 0.7,
            _rated("latency_p99_us"), ours, theirs,
        )
        for prefix, (said, part, ours, theirs) in ACKS_SAMPLES.items()
    },
)  # fmt: skip
"""Ratios by layout and load: the criterion is the worst of them. All are reported."""


def _mb_per_s(load: str, name: str) -> Callable[[Samples], float]:
    return lambda raw: float(raw[load][name]) / float(raw[load]["seconds"]) / 1e6


def _mb_per_cpu_s(load: str, name: str) -> Callable[[Samples], float]:
    return lambda raw: float(raw[load][name]) / float(raw[load]["server_cpu_s"]) / 1e6


def _plain(criterion_id: str, what: str, of: Figure, op: str = "") -> Ratio:
    return Ratio(criterion_id, PLAIN, what, "MB/s", op, 0.98, of, (BMQ,), (OLD,), rival="bmq before share groups")


RATIOS: Final = (
    _plain("plain_produce", "produce 1 KiB", _mb_per_s("produce", "value_bytes"), ">="),
    _plain("plain_fetch", "fetch a backlog", _mb_per_s("fetch", "received_bytes"), ">="),
)
REPORTED: Final = (
    _plain("plain_produce_cpu", "produce 1 KiB, per CPU second", _mb_per_cpu_s("produce", "value_bytes")),
    _plain("plain_fetch_cpu", "fetch a backlog, per CPU second", _mb_per_cpu_s("fetch", "received_bytes")),
    *(
        ratio
        for prefix, (said, part, ours, theirs) in ACKS_SAMPLES.items()
        for ratio in (
            Ratio(f"{prefix}ack_p50_ratio", part, f"p50 of the same, {said}", "us", "", 0, _rated("latency_p50_us"), ours, theirs),
            Ratio(f"{prefix}ack_rate_ratio", part, f"fetches of one with an accept, as many as are answered, {said}", "1/s",
                  "", 0, _saturated("round_trips", "seconds"), ours, theirs),
            Ratio(f"{prefix}ack_cpu_ratio", part, f"server CPU of one of these, {said}", "s", "", 0,
                  _saturated("server_cpu_s", "round_trips"), ours, theirs),
        )
    ),
    *(
        Ratio(f"{prefix}share_first_record_{load}_ratio", part, f"from the start to the first record, {_said(part, load)}", "s",
              "", 0, _first(load))
        for part, prefix in LAYOUTS.items()
        for load in FIRST_LOADS
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
             "s", 1.0, _longest("gap_s")),
    Absolute("counts_lost", KILLS, "deliveries with a lower count than deliveries seen", "", 0, _sum("counts_lost"),
             no_rival=_NO_KILLS),
    Absolute("accepted_twice", KILLS, "records given again after their accept was acknowledged", "", 0,
             _sum("accepted_twice"), no_rival=_NO_KILLS),
    Absolute("lost", KILLS, "records that were never accepted", "", 0, _sum("lost"), no_rival=_NO_KILLS),
    Absolute("redelivered_by_move", MOVES, "locked records given again because their data partition moved", "", 0,
             _sum("redelivered")),
    Absolute("locks_memory_mib", LOCKS, "1,000,000 records locked one by one in 1,000 share partitions", "MiB", 60,
             _longest("memory_mib"), no_rival="a bound of its own"),
    Absolute("idle_10000_members_cpu_percent", IDLE, "heartbeats and polls of 10,000 members, as of stock clients, scaled to all, one node",
             "%", 25, _longest("cpu_percent"), no_rival="a bound of its own"),
)  # fmt: skip
REPORTED_ABSOLUTES: Final = (
    Absolute("locks_memory_runs_mib", LOCKS, "the same number of records, locked 500 at a time", "MiB", 0,
             _longest("run_memory_mib"), no_rival="a bound of its own", op=""),
    Absolute("share_failover_gap_median_s", FAILOVER, "the median of these gaps", "s", 0, _median("gap_s"), op=""),
    Absolute("idle_polls_per_s", IDLE, "polls of the 10,000 members that were answered", "1/s", 0, _median("polls_per_s"),
             no_rival="a figure beside idle_10000_members_cpu_percent", op=""),
    Absolute("idle_long_polls_cpu_percent", IDLE, "the same members with fetch.max.wait.ms of 10 s", "%", 0,
             _longest("long_polls_cpu_percent"), no_rival="a bound of its own", op=""),
)  # fmt: skip
DETAILS: Final = {f"{one.id}_{layout}": one for by_layout in WORST for layout, one in by_layout.items()}
"""What a criterion of WORST is the worst of."""
PART_OF: Final = {
    **parts_by_id([one for by_layout in WORST for one in by_layout.values()], RATIOS, REPORTED),
    **parts_by_id(ABSOLUTES, REPORTED_ABSOLUTES),
    **{name: one.part for name, one in DETAILS.items()},
    **parts_by_id(timers.INSERTS, timers.OFFS, timers.ABSOLUTES, timers.REPORTED),
    "timer_insert_ratio": timers.INSERT,
    "delay_off_cost": timers.OFF,
    **views.PART_OF,
    **half.PART_OF,
    **lanes.PART_OF,
}


def judge(evidence: Evidence) -> list[Criterion]:
    return [
        *(judge_absolute(one, evidence) for one in ABSOLUTES),
        *(worst([judge_ratio(one, evidence) for one in by_layout.values()]) for by_layout in WORST),
        *(judge_ratio(one, evidence) for one in RATIOS),
        *(judge_absolute(one, evidence) for one in REPORTED_ABSOLUTES),
        *(judge_ratio(one, evidence) for one in REPORTED),
        *({**_unjudged(judge_ratio(one, evidence)), "id": name} for name, one in DETAILS.items()),
        *timers.judge(evidence),
        *views.judge(evidence),
        *half.judge(evidence),
        *lanes.judge(evidence),
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
