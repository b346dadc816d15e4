"""Which parts are run, and how much of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from bench.queues.criteria import ACKS, CONSUME, FAILOVER, IDLE, KILLS, LOCKS, MOVES, PLAIN, THREE
from bench.queues.half.criteria import CHECKS, HALF
from bench.queues.lanes.criteria import LANES
from bench.queues.timers.criteria import ERROR, INSERT, KILLED, OFF, PENDING, THUNDER
from bench.queues.views.criteria import READS, TAIL
from bench.runner import QUICK, SMOKE

LIMITS_S: Final[Mapping[str, float]] = {
    CONSUME: 540,
    ACKS: 420,
    LOCKS: 960,
    IDLE: 240,
    PLAIN: 900,
    FAILOVER: 720,
    MOVES: 240,
    KILLS: 720,
    THREE: 1_500,
    INSERT: 420,
    ERROR: 300,
    THUNDER: 420,
    KILLED: 2_400,
    PENDING: 900,
    OFF: 900,
    READS: 300,
    TAIL: 180,
    HALF: 420,
    CHECKS: 900,
    LANES: 900,
}
"""The longest that each part may take. All of share groups together took an hour on two processors, with three nodes last (15 to 25
minutes), those of delayed records 45 minutes more, those of views 2, those of half messages and those of lanes 6 each.
"""
PARTS: Final = tuple(LIMITS_S)


@dataclass(frozen=True, slots=True)
class Plan:
    """`records_100b`, `records_1k`: that the consumers of a load read, once to warm and then `passes` times. `members` fetch
    one record at a time, `ack_rate` of them a second, and then as many as are answered; at most `warm_ups_max` runs of
    `warming_s` come first. `idle_members` in groups of `idle_each` poll as a stock client for `idle_s`, then with waits of
    `long_poll_ms` for as long. `plain_s`: of each of the alternating loads of `plain`, behind `plain_warm_s` of its own.
    `insert_s`: of each load of `insert_pairs`. `error_rate` records per second are due for `error_s`; `thunder_records` in one
    second, beside `thunder_other_rate` others per second, which had `thunder_calm_s` of calm. `pending_records`: held at once.
    `view_records` of 1 KiB are read in each of `view_pairs`; records come for `view_tail_s` with each kind of readers.
    `half_pairs`: of half messages beside transactions. So many half messages stay `undecided`; a lane's consumer joins and
    leaves in each of `flips`.
    `limits_s`: the longest that each part may take.
    """

    parts: tuple[str, ...]
    sides: tuple[str, ...]
    pairs: int = 3
    consume_pairs: int = 2
    three_pairs: int = 2
    records_100b: int = 1_000_000
    records_1k: int = 250_000
    passes: int = 1
    members: int = 200
    ack_rate: int = 5_000
    warming_s: float = 3
    warm_ups_max: int = 3
    warm_s: float = 2
    seconds: float = 8
    lock_rounds: int = 1
    idle_rounds: int = 1
    idle_members: int = 10_000
    idle_each: int = 1_000
    long_poll_ms: int = 10_000
    idle_s: float = 20
    plain_pairs: int = 24
    plain_warm_s: float = 0.3
    plain_s: float = 2
    plain_backlog_bytes: int = 16 * 1024 * 1024
    failovers: int = 5
    moves: int = 4
    kills: int = 50
    kill_records: int = 1_000_000
    kill_wait_s: float = 120
    insert_pairs: int = 3
    insert_s: float = 10
    error_rounds: int = 1
    error_rate: int = 10_000
    error_s: float = 60
    thunder_rounds: int = 1
    thunder_records: int = 1_000_000
    thunder_other_rate: float = 1_000
    thunder_calm_s: float = 15
    timer_kills: int = 50
    pending_rounds: int = 1
    pending_records: int = 10_000_000
    pending_bytes: int = 1_024
    view_pairs: int = 4
    view_records: int = 250_000
    view_rounds: int = 2
    view_tail_s: float = 6
    half_pairs: int = 3
    undecided: int = 100_000
    flips: int = 200
    limits_s: Mapping[str, float] = field(default_factory=lambda: dict(LIMITS_S))


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    """A quick or smoke plan has a figure for most criteria, and none to be believed."""
    plan = Plan(parts, sides)
    if size == SMOKE:
        return replace(
            _quick(plan), records_100b=20_000, records_1k=5_000, members=20, ack_rate=200, warming_s=1, warm_ups_max=1,
            warm_s=0.5, seconds=1, idle_members=100, idle_each=50, long_poll_ms=1_000, idle_s=2, plain_pairs=1, plain_s=0.5,
            plain_backlog_bytes=4 * 1024 * 1024, kills=1, kill_records=5_000, insert_s=1, error_rate=500, error_s=3, thunder_records=5_000,
            thunder_other_rate=100, thunder_calm_s=2, timer_kills=1, pending_records=50_000,
            view_pairs=1, view_records=20_000, view_rounds=1, view_tail_s=1,
            undecided=5_000, flips=2,
        )  # fmt: skip
    return _quick(plan) if size == QUICK else plan


def _quick(plan: Plan) -> Plan:
    return replace(
        plan, pairs=1, consume_pairs=1, three_pairs=1, records_100b=500_000, records_1k=100_000, warming_s=2, warm_ups_max=2, warm_s=1,
        seconds=5, idle_s=8, plain_pairs=2, plain_s=1, failovers=1, moves=1, kills=6, kill_records=60_000,
        insert_pairs=1, insert_s=5, error_s=15, thunder_records=200_000, timer_kills=6, pending_records=1_000_000,
        view_pairs=2, view_records=100_000, view_rounds=1, view_tail_s=3,
        half_pairs=1, flips=20,
    )  # fmt: skip
