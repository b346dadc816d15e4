"""Which parts are run, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from bench.criteria import BMQ, KAFKA
from bench.loads.criteria import OVERLOAD, PAIRS, WORKERS
from bench.runner import QUICK, SMOKE

MIB: Final = 1024 * 1024
PARTS: Final = (PAIRS, WORKERS, OVERLOAD)


@dataclass(frozen=True, slots=True)
class Plan:
    """`seconds`: of each load, behind `warm_s` of its own. `separate_pairs`: in so many pairs bmq is measured with separate
    proxies and brokers as well. `latency_s`: of the load at a fixed rate.
    """

    parts: tuple[str, ...]
    sides: tuple[str, ...] = (BMQ, KAFKA)
    pairs: int = 5
    separate_pairs: int = 1
    warm_ups_max: int = 6
    warm_s: float = 2.0
    seconds: float = 8.0
    latency_s: float = 15.0
    backlog_bytes: int = 600 * MIB
    raw_bytes: int = 512 * MIB
    many_partitions: tuple[int, ...] = (300, 1_000)
    many_warm_s: float = 5.0
    idle_consumers: int = 1_000
    workers_rounds: int = 5
    workers_backlog_bytes: int = 16 * MIB
    overload_rounds: int = 3
    overload_s: float = 15.0
    overload_backlog_bytes: int = 200 * MIB
    idle_connections: int = 20_000
    slow_consumers: int = 200
    fast_producers: int = 50
    limit_s: float = 5_400.0


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    """A quick or smoke plan has a figure for most criteria, and none to be believed."""
    plan = Plan(parts, sides)
    if size == SMOKE:
        return replace(_quick(plan), parts=tuple(part for part in parts if part == PAIRS), separate_pairs=0,
                       many_partitions=(), seconds=1.0, latency_s=2.0, warm_s=0.5, warm_ups_max=1,
                       backlog_bytes=8 * MIB, raw_bytes=16 * MIB, idle_consumers=50)  # fmt: skip
    return _quick(plan) if size == QUICK else plan


def _quick(plan: Plan) -> Plan:
    return replace(
        plan,
        pairs=1,
        warm_ups_max=3,
        warm_s=1.0,
        seconds=4.0,
        latency_s=6.0,
        backlog_bytes=200 * MIB,
        raw_bytes=128 * MIB,
        many_partitions=(100,),
        many_warm_s=2.0,
        idle_consumers=300,
        workers_rounds=1,
        overload_rounds=1,
        overload_s=6.0,
        overload_backlog_bytes=60 * MIB,
        idle_connections=3_000,
        limit_s=900.0,
    )
