"""Which parts are run, how much of each, and for how long at most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from bench.cluster.criteria import DEFAULT_SESSION, PAIRS
from bench.cluster.moves import SIZES
from bench.criteria import BMQ, KAFKA
from bench.runner import QUICK, SMOKE
from bench.workloads import Sizes

MIB: Final = 1024 * 1024
# In this order. The last three are made of one run, on one cluster with many partitions.
PARTS: Final = (
    "kill9_broker",
    "kill9_broker_combined",
    DEFAULT_SESSION,
    "hung_broker",
    "hung_broker_combined",
    "hung_worker",
    "kill9_proxy",
    "controller_kill",
    "controller_kill_combined",
    "zookeeper_away",
    "zookeeper_away_combined",
    "move",
    "restart",
    "scale",
    "drain",
    PAIRS,
    "metadata",
    "controller_failover",
    "shard_replay",
)
MANY_PARTITIONS: Final = ("metadata", "controller_failover", "shard_replay")
SMOKE_PARTS: Final = ("kill9_broker_combined", PAIRS)

FULL_SIZES: Final = Sizes(250_000, 6, 200_000, 500_000, 500_000, 2_000_000, 30_000, 120_000, consume_passes=3)
QUICK_SIZES: Final = Sizes(50_000, 3, 30_000, 100_000, 100_000, 300_000, 10_000, 30_000, consume_passes=2)
SMOKE_SIZES: Final = Sizes(2_000, 1, 2_000, 10_000, 5_000, 20_000, 1_000, 5_000, consume_passes=2)


@dataclass(frozen=True, slots=True)
class Plan:
    """`limit_s`: what a part may take, whatever is left of it then. `sides`: who is measured."""

    parts: tuple[str, ...]
    sides: tuple[str, ...] = (BMQ, KAFKA)
    broker_kills: int = 20
    kafka_broker_kills: int = 3
    default_session_kills: int = 5
    broker_hangs: int = 5
    kafka_broker_hangs: int = 1
    worker_hangs: int = 5
    proxy_kills: int = 10
    controller_kills: int = 3
    controller_kills_apart_s: float = 8.0
    zookeeper_away_s: float = 60.0
    moves: int = 3
    move_sizes: tuple[str, ...] = tuple(SIZES)
    restarts: int = 3
    partitions_in_use: int = 300
    partitions_idle: int = 300
    backlog_bytes: int = 768 * MIB
    drains: int = 10
    drain_window_s: float = 6.0
    pairs: int = 3
    are_all_layouts_paired: bool = True
    sizes: Sizes = FULL_SIZES
    partitions: int = 10_000
    offsets: int = 100_000
    kafka_shard_partitions: int = 1_000
    metadata_requests: int = 30
    controller_failovers: int = 3
    kafka_controller_failovers: int = 1
    limit_s: float = 600.0
    pairs_limit_s: float = 2_400.0


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    """A quick or smoke plan has a figure for most criteria, and none to be believed."""
    plan = Plan(parts, sides)
    if size == SMOKE:
        return _smoke(replace(plan, parts=tuple(part for part in parts if part in SMOKE_PARTS)))
    return _quick(plan) if size == QUICK else plan


def _quick(plan: Plan) -> Plan:
    return replace(
        plan,
        broker_kills=3,
        kafka_broker_kills=1,
        default_session_kills=1,
        broker_hangs=1,
        kafka_broker_hangs=0,
        worker_hangs=1,
        proxy_kills=2,
        controller_kills=1,
        zookeeper_away_s=8.0,
        moves=2,
        move_sizes=("10mib",),
        restarts=1,
        partitions_in_use=50,
        partitions_idle=50,
        backlog_bytes=128 * MIB,
        drains=2,
        drain_window_s=4.0,
        pairs=1,
        sizes=QUICK_SIZES,
        partitions=1_000,
        offsets=10_000,
        metadata_requests=9,
        controller_failovers=1,
        kafka_controller_failovers=0,
    )


def _smoke(plan: Plan) -> Plan:
    return replace(
        _quick(plan),
        broker_kills=1,
        kafka_broker_kills=0,
        sizes=SMOKE_SIZES,
        are_all_layouts_paired=False,
        limit_s=240.0,
        pairs_limit_s=240.0,
    )


def blocks(first: int, second: int) -> list[tuple[int, int]]:
    """So many rounds of one side and of the other, in turn: each of the second's rounds comes behind a share of the first's.

    [(7, 1), (7, 1), (6, 1)] of 20 and 3. Without any of the second: one block.
    """
    count = max(1, min(first, second))
    return [(_share(first, count, number), _share(second, count, number)) for number in range(count)]


def _share(total: int, count: int, number: int) -> int:
    return total // count + (number < total % count)
