"""What delayed records have to reach: beside the same topic without delay, beside bmq before there was delay, and alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Final

from bench.criteria import BMQ, Absolute, Criterion, Evidence, Figure, Ratio, Samples, judge_absolute, judge_ratio

INSERT: Final = "timer-insert"
ERROR: Final = "timer-error"
PENDING: Final = "timer-pending"
KILLED: Final = "timer-kills"
THUNDER: Final = "timer-thunder"
OFF: Final = "delay-off"

DELAYED: Final = "delayed"
UNDELAYED: Final = "undelayed"
BEFORE_DELAY: Final = "before-delay"
INSERT_BYTES: Final = {"1k": 1_024, "100b": 100}
"""By name: bytes of a record."""
_NO_RIVAL: Final = "no system that is measured here has delayed records"


def _insert_rate(raw: Samples) -> float:
    return float(raw["records"]) / float(raw["seconds"])


def _mb_per_s(load: str, name: str) -> Callable[[Samples], float]:
    return lambda raw: float(raw[load][name]) / float(raw[load]["seconds"]) / 1e6


def _all(name: str, choose: Callable[[list[float]], float]) -> Figure:
    return lambda raw: choose([float(one[name]) for one in raw["rounds"]])


def _insert(name: str) -> Ratio:
    what = f"produce {INSERT_BYTES[name]:,} B to a topic with delay, all delayed up to 30 days, one node, HDFS"
    return Ratio(
        f"timer_insert_{name}_ratio", INSERT, what, "records/s", ">=", 0.5, _insert_rate,
        (name, DELAYED), (name, UNDELAYED), rival="the same records to a topic without delay",
    )  # fmt: skip


def _off(criterion_id: str, what: str, of: Figure) -> Ratio:
    return Ratio(criterion_id, OFF, what, "MB/s", ">=", 0.99, of, (BMQ,), (BEFORE_DELAY,), rival="bmq before delay")


INSERTS: Final = tuple(map(_insert, INSERT_BYTES))
OFFS: Final = (
    _off("delay_off_produce", "produce 1 KiB to topics without delay", _mb_per_s("produce", "value_bytes")),
    _off("delay_off_fetch", "fetch a backlog of topics without delay", _mb_per_s("fetch", "received_bytes")),
)


def _alone(criterion_id: str, part: str, what: str, unit: str, bound: float, of: Figure, op: str = "<=") -> Absolute:
    return Absolute(criterion_id, part, what, unit, bound, of, no_rival=_NO_RIVAL, op=op)


ABSOLUTES: Final = (
    _alone("timer_error_p99_ms", ERROR, "10,000 due per second for a minute: when a consumer has a record, behind its due time",
           "ms", 100, _all("error_p99_ms", max)),
    _alone("timers_10m_memory_mib", PENDING, "10 million pending records of 1 KiB over 30 days: owner's memory above that before them",
           "MiB", 64, _all("memory_mib", max)),
    _alone("timers_10m_takeover_s", PENDING, "a takeover of the same partition, until it serves", "s", 0.5, _all("takeover_s", max)),
    _alone("timers_lost_doubled_early", KILLED, "50 kills under load: records that were lost, came twice or too early",
           "", 0, _all("wrong", sum)),
    _alone("thundering_second", THUNDER, "1,000,000 due in one second: p99 of produces to other partitions, to that of a calm time",
           "x", 1.5, _all("produce_p99_ratio", max)),
    _alone("thundering_second_wrong", THUNDER, "of these, records that were lost, came twice, out of order or too early",
           "", 0, _all("wrong", sum)),
)  # fmt: skip
REPORTED: Final = (
    _alone("timer_error_p50_ms", ERROR, "the median of these", "ms", 0, _all("error_p50_ms", max), op=""),
    _alone("timer_error_wrong", ERROR, "of these, records that were lost, came twice, out of order or too early", "", 0,
           _all("wrong", sum), op=""),
    _alone("timers_held", PENDING, "records that were pending", "", 0, _all("records", max), op=""),
    _alone("timers_held_per_s", PENDING, "how fast they were held", "1/s", 0, _all("held_per_s", statistics.median), op=""),
    _alone("timers_longest_stall_ms", PENDING, "longest stall of the owner's event loop meanwhile", "ms", 0,
           _all("stall_ms", max), op=""),
    _alone("thundering_second_s", THUNDER, "until all of them were read", "s", 0, _all("seconds", max), op=""),
)  # fmt: skip


def judge(evidence: Evidence) -> list[Criterion]:
    """`timer_insert_ratio` is the worse of its two; so is `delay_off_cost`."""
    return [
        _worst("timer_insert_ratio", INSERTS, evidence),
        *(judge_absolute(one, evidence) for one in ABSOLUTES),
        _worst("delay_off_cost", OFFS, evidence),
        *(judge_absolute(one, evidence) for one in REPORTED),
        *(_unjudged(judge_ratio(one, evidence)) for one in (*INSERTS, *OFFS)),
    ]


def _worst(criterion_id: str, ratios: tuple[Ratio, ...], evidence: Evidence) -> Criterion:
    found = [judge_ratio(one, evidence) for one in ratios]
    unmeasured = [one for one in found if one["value"] is None]
    worst = unmeasured[0] if unmeasured else min(found, key=lambda one: float(one["value"]))
    return {**worst, "id": criterion_id}


def _unjudged(one: Criterion) -> Criterion:
    return {name: value for name, value in one.items() if name not in ("op", "bound", "holds")}
