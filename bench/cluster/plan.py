"""Which parts are run, how much of each, and for how long at most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from bench.cluster import throughput
from bench.cluster.criteria import BMQ, CRITERIA, KAFKA, PAIRS, RATIOS
from bench.cluster.moves import SIZES

MIB: Final = 1024 * 1024
# In this order. The last three are made of one run, on one cluster with many partitions.
PARTS: Final = (
    "kill9_broker",
    "hung_broker",
    "kill9_proxy",
    "controller_kill",
    "zookeeper_away",
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


@dataclass(frozen=True, slots=True)
class Plan:
    """`limit_s`: what a part may take, whatever is left of it then. `sides`: who is measured."""

    parts: tuple[str, ...]
    sides: tuple[str, ...] = (BMQ, KAFKA)
    broker_kills: int = 20
    kafka_broker_kills: int = 3
    broker_hangs: int = 5
    kafka_broker_hangs: int = 1
    proxy_kills: int = 10
    controller_kills: int = 3
    controller_kills_apart_s: float = 8.0
    zookeeper_away_s: float = 60.0
    moves: int = 3
    move_sizes: tuple[str, ...] = tuple(SIZES)
    kafka_move_sizes: tuple[str, ...] = ("10mib", "1gib")
    restarts: int = 2
    kafka_restarts: int = 1
    partitions_per_broker: int = 300
    backlog_bytes: int = 768 * MIB
    drains: int = 10
    drain_window_s: float = 6.0
    pairs: int = 3
    sizes: throughput.Sizes = throughput.FULL
    partitions: int = 10_000
    offsets: int = 100_000
    kafka_shard_partitions: int = 1_000
    metadata_requests: int = 30
    controller_failovers: int = 3
    kafka_controller_failovers: int = 1
    limit_s: float = 480.0
    pairs_limit_s: float = 1_200.0


def quick(plan: Plan) -> Plan:
    """A rough look: a figure for most criteria, and none to be believed."""
    return replace(
        plan,
        broker_kills=3,
        kafka_broker_kills=1,
        broker_hangs=1,
        kafka_broker_hangs=0,
        proxy_kills=2,
        controller_kills=1,
        zookeeper_away_s=8.0,
        moves=2,
        move_sizes=("10mib",),
        kafka_move_sizes=("10mib",),
        restarts=1,
        kafka_restarts=0,
        partitions_per_broker=50,
        backlog_bytes=128 * MIB,
        drains=2,
        drain_window_s=4.0,
        pairs=1,
        sizes=throughput.QUICK,
        partitions=1_000,
        offsets=10_000,
        metadata_requests=9,
        controller_failovers=1,
        kafka_controller_failovers=0,
    )


def parts_of(names: Iterable[str]) -> tuple[str, ...]:
    """The parts that are named, or that have a criterion that is named, in their order; all without a name.

    Raises ValueError for a name that is neither.
    """
    part_of = {criterion.id: criterion.part for criterion in CRITERIA}
    part_of.update({ratio.id: PAIRS for ratio in RATIOS})
    part_of.update({part: part for part in PARTS})
    wanted = set()
    for name in names:
        if name not in part_of:
            raise ValueError(f"{name!r} is neither a part nor a criterion; parts are: {', '.join(PARTS)}")
        wanted.add(part_of[name])
    return tuple(part for part in PARTS if part in wanted or not wanted)


def blocks(first: int, second: int) -> list[tuple[int, int]]:
    """So many rounds of one side and of the other, in turn: each of the second's rounds comes behind a share of the first's.

    [(7, 1), (7, 1), (6, 1)] of 20 and 3. Without any of the second: one block.
    """
    count = max(1, min(first, second))
    return [(_share(first, count, number), _share(second, count, number)) for number in range(count)]


def _share(total: int, count: int, number: int) -> int:
    return total // count + (number < total % count)
