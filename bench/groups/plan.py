"""Which parts are run, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from bench.criteria import BMQ, KAFKA
from bench.groups.criteria import FAILOVER, ONE, ONE_MEMBERS, THREE, THREE_MEMBERS
from bench.runner import QUICK, SMOKE

MIB: Final = 1024 * 1024
PARTS: Final = (ONE, THREE, ONE_MEMBERS, THREE_MEMBERS, FAILOVER)


@dataclass(frozen=True, slots=True)
class Plan:
    """`seconds`: of each load, behind `warm_s` of its own; `warming_s`: of each run of a warm-up, of which there are
    `warm_ups_min` at least: a JVM's compiler works through the first minute of load, and a run that happens to be slow
    would end a warm-up that has hardly begun. `rated_s`: of transactions at a fixed rate. `rebalances`: of which the
    first warms. `groups`: of idle members, `each` in every one; `idle_s`: how long they are watched, behind `idle_warm_s`: more than two heartbeats of each member, as the first one names another client
    than the one it joined with, which both servers write down.
    """

    parts: tuple[str, ...]
    sides: tuple[str, ...] = (BMQ, KAFKA)
    pairs: int = 3
    warm_ups_min: int = 3
    warm_ups_max: int = 6
    warming_s: float = 4.0
    warm_s: float = 2.0
    seconds: float = 8.0
    rated_s: float = 20.0
    read_bytes: int = 400 * MIB
    read_passes: int = 5
    rebalances: int = 3
    rebalance_members: int = 500
    groups: int = 1_000
    each: int = 10
    idle_warm_s: float = 8.0
    idle_s: float = 15.0
    kills: int = 5
    limit_s: float = 3_600.0


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    """A quick or smoke plan has a figure for most criteria, and none to be believed."""
    plan = Plan(parts, sides)
    if size == SMOKE:
        return replace(_quick(plan), warm_ups_min=1, warm_ups_max=1, warming_s=1.0, warm_s=0.5, seconds=1.0, rated_s=2.0,
                       read_bytes=64 * MIB, read_passes=1, rebalances=2, rebalance_members=20, groups=20, each=5,
                       idle_warm_s=1.0, idle_s=3.0, kills=1)  # fmt: skip
    return _quick(plan) if size == QUICK else plan


def _quick(plan: Plan) -> Plan:
    return replace(
        plan,
        pairs=1,
        warm_ups_min=2,
        warm_ups_max=3,
        warming_s=2.0,
        warm_s=1.0,
        seconds=4.0,
        rated_s=8.0,
        read_bytes=100 * MIB,
        read_passes=3,
        rebalances=2,
        groups=300,
        idle_s=9.0,
        kills=2,
        limit_s=900.0,
    )
