"""Which parts are run, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from bench.queues.criteria import ACKS, CONSUME, FAILOVER, IDLE, KILLS, LOCKS, MOVES, PLAIN, THREE
from bench.runner import QUICK, SMOKE

PARTS: Final = (CONSUME, ACKS, LOCKS, IDLE, PLAIN, THREE, FAILOVER, MOVES, KILLS)


@dataclass(frozen=True, slots=True)
class Plan:
    """`records_100b`, `records_1k`: that the consumers of a load read, once to warm and then `passes` times. `members` fetch
    one record at a time, `ack_rate` of them a second, and then as many as are answered; `warm_ups_max` runs of `warming_s`
    come first. `idle_members` in groups of `idle_each` poll for `poll_ms` and are watched for `idle_s`.
    `limit_s`: the longest that a part may take.
    """

    parts: tuple[str, ...]
    sides: tuple[str, ...]
    pairs: int = 3
    records_100b: int = 2_000_000
    records_1k: int = 400_000
    passes: int = 2
    members: int = 200
    ack_rate: int = 5_000
    warming_s: float = 6
    warm_ups_max: int = 5
    warm_s: float = 2
    seconds: float = 12
    lock_rounds: int = 3
    idle_rounds: int = 3
    idle_members: int = 10_000
    idle_each: int = 1_000
    poll_ms: int = 10_000
    idle_s: float = 20
    failovers: int = 5
    moves: int = 5
    kills: int = 50
    kill_records: int = 1_000_000
    kill_wait_s: float = 1_800
    limit_s: float = 3_600


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    """A quick or smoke plan has a figure for most criteria, and none to be believed."""
    plan = Plan(parts, sides)
    if size == SMOKE:
        return replace(
            _quick(plan), records_100b=20_000, records_1k=5_000, members=20, ack_rate=200, warming_s=1, warm_ups_max=1,
            warm_s=0.5, seconds=1, idle_members=100, idle_each=50, poll_ms=1_000, idle_s=2, kills=1, kill_records=5_000,
        )  # fmt: skip
    return _quick(plan) if size == QUICK else plan


def _quick(plan: Plan) -> Plan:
    return replace(
        plan, pairs=1, records_100b=500_000, records_1k=100_000, passes=1, warming_s=3, warm_ups_max=2, warm_s=1,
        seconds=5, lock_rounds=1, idle_rounds=1, idle_s=8, failovers=1, moves=1, kills=4, kill_records=60_000,
        kill_wait_s=120, limit_s=480,
    )  # fmt: skip
