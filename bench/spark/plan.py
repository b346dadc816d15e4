"""Which parts of the benchmark run, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from bench.criteria import BMQ
from bench.runner import QUICK, SMOKE
from bench.spark.criteria import CLOSED, DECODE, EXECUTOR, MIRROR, RESUME, SCANS_1K, SCANS_100B, TABLES

MIB: Final = 1024 * 1024
PARTS: Final = (SCANS_100B, SCANS_1K, CLOSED, EXECUTOR, DECODE, TABLES, MIRROR, RESUME)
SMOKE_PARTS: Final = (SCANS_100B, SCANS_1K, CLOSED, EXECUTOR, DECODE)


@dataclass(frozen=True, slots=True)
class Plan:
    """`records_100b`, `records_1k`: in the topics that are read. `rounds`: of each scan, after a warm-up.
    `segment_bytes`: of all topics, on both sides. `codec_records`: in each codec's topic.

    For the campaigns, whose faults come in an order that `seed` determines: `job_kills` of the job and `broker_kills`
    of brokers, for tables and for the mirror each; `away_s`: how long the mirror's target is away; `table_lag_watch_s`:
    how long a table's lag is watched; `resume_records`: in the topic that each job reads when it is killed and run
    again.
    """

    parts: tuple[str, ...]
    sides: tuple[str, ...] = (BMQ,)
    rounds: int = 3
    partitions: int = 4
    records_100b: int = 10_000_000
    records_1k: int = 2_000_000
    segment_bytes: int = 64 * MIB
    codec_records: int = 200_000
    job_kills: int = 10
    broker_kills: int = 5
    away_s: float = 60.0
    table_lag_watch_s: float = 125.0
    resume_records: int = 90_000
    seed: int = 1
    scans_limit_s: float = 2_400.0
    limit_s: float = 1_500.0


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    """A quick or smoke plan yields most criteria's figures, but none that is reliable."""
    plan = Plan(parts, sides)
    if size == SMOKE:
        return replace(_quick(plan), parts=tuple(part for part in parts if part in SMOKE_PARTS), records_100b=200_000,
                       records_1k=40_000, segment_bytes=4 * MIB, codec_records=5_000)  # fmt: skip
    return _quick(plan) if size == QUICK else plan


def _quick(plan: Plan) -> Plan:
    return replace(
        plan,
        rounds=1,
        records_100b=2_000_000,
        records_1k=400_000,
        segment_bytes=16 * MIB,
        codec_records=50_000,
        job_kills=2,
        broker_kills=1,
        away_s=5.0,
        table_lag_watch_s=30.0,
        resume_records=30_000,
        limit_s=600.0,
    )
