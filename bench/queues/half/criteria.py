"""What half messages have to reach: beside a transaction of one record on Apache Kafka, and alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.criteria import Absolute, Criterion, Evidence, Figure, Ratio, Samples, judge_absolute, judge_ratio

HALF: Final = "half"
CHECKS: Final = "half-checks"

BY_RECORD: Final = "record"
BY_HTTP: Final = "http"
"""How the producers of half messages are asked."""
_NO_RIVAL: Final = "no system that is measured here has half messages"


def _per_s(raw: Samples) -> float:
    return float(raw["small"]["transactions"]) / float(raw["small"]["seconds"])


def _latency(of: str, name: str) -> Figure:
    return lambda raw: float(raw["small"][of][name])


def _cpu_us(raw: Samples) -> float:
    return 1e6 * float(raw["small"]["server_cpu_s"]) / float(raw["small"]["transactions"])


def _all(way: str, name: str, choose: Callable[[list[float]], float]) -> Figure:
    return lambda raw: choose([float(one[way][name]) for one in raw["rounds"]])


def _ratio(criterion_id: str, what: str, unit: str, of: Figure, op: str = "", bound: float = 0) -> Ratio:
    rival = "a transaction of one record on Apache Kafka"
    return Ratio(criterion_id, HALF, what, unit, op, bound, of, rival=rival)


def _checks(
    criterion_id: str, what: str, unit: str, of: Figure, op: str = "", bound: float = 0, way: str = "by record"
) -> Absolute:
    return Absolute(
        criterion_id,
        CHECKS,
        f"100,000 undecided half messages, {way}: {what}",
        unit,
        bound,
        of,
        no_rival=_NO_RIVAL,
        op=op,
    )


RATIOS: Final = (
    _ratio("half_message_ratio", "a half message and its commit, 16 producers", "/s", _per_s, ">=", 3),
)  # fmt: skip
ABSOLUTES: Final = (
    _checks("check_back", "checks within 1 s of their time, and none after a decision", "%",
            _all(BY_RECORD, "right_percent", min), ">=", 100),
)  # fmt: skip
REPORTED: Final = (
    _ratio("half_message_p50_ratio", "p50 of these", "us", _latency("whole", "p50_us")),
    _ratio("half_message_p99_ratio", "p99 of these", "us", _latency("whole", "p99_us")),
    _ratio("half_message_cpu_ratio", "server CPU of one of these", "us", _cpu_us),
)
REPORTED_ABSOLUTES: Final = (
    _checks("check_back_p99_ms", "when the consumer has a check, behind its time, p99", "ms", _all(BY_RECORD, "p99_ms", max)),
    _checks("check_back_max_ms", "the longest of these", "ms", _all(BY_RECORD, "max_ms", max)),
    _checks("check_back_after_decisions", "checks that came after a decision", "", _all(BY_RECORD, "after_decision", sum)),
    _checks("check_back_http", "checks within 1 s of their time, and none after a decision", "%",
            _all(BY_HTTP, "right_percent", min), way="by HTTP"),
    _checks("check_back_http_p99_ms", "when the service has a check, behind its time, p99", "ms",
            _all(BY_HTTP, "p99_ms", max), way="by HTTP"),
    _checks("check_back_http_max_ms", "the longest of these", "ms", _all(BY_HTTP, "max_ms", max), way="by HTTP"),
)  # fmt: skip
PART_OF: Final = {one.id: one.part for one in (*RATIOS, *ABSOLUTES, *REPORTED, *REPORTED_ABSOLUTES)}


def judge(evidence: Evidence) -> list[Criterion]:
    return [
        *(judge_ratio(one, evidence) for one in RATIOS),
        *(judge_absolute(one, evidence) for one in (*ABSOLUTES, *REPORTED_ABSOLUTES)),
        *(judge_ratio(one, evidence) for one in REPORTED),
    ]
