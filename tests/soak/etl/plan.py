"""What is done to copiers and nodes, when and to whom: from a seed, before anything runs. Pure.

Three rows of orders run beside each other: copiers are killed, nodes are hurt, and partitions are moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

FIRST_S: Final = 8.0
"""Copiers begin in peace."""
QUIET_END_SHARE: Final = 0.1
BACK_S: Final = (0.0, 2.5)
FAULT_PAUSE_S: Final = (1.0, 6.0)
MOVE_PAUSE_S: Final = (1.0, 8.0)


class Kind(StrEnum):
    KILL = "kill"
    KILL_TWO = "kill_two"
    PAUSE = "pause"
    RESTART = "restart"
    DRAIN = "drain"


class Role(StrEnum):
    """Of the node that is hurt."""

    TRANSACTIONS = "transactions"
    GROUP = "group"
    SOURCE = "source"
    TARGET = "target"
    CONTROLLER = "controller"
    PROXY = "proxy"


MOVED: Final = (Role.TRANSACTIONS, Role.GROUP, Role.SOURCE, Role.TARGET)
"""Whose partitions are moved."""
# A pause may be longer than a silence that gets a node fenced (2 s) and than its session (3 s).
LASTS_S: Final = {
    Kind.KILL: (0.0, 4.0),
    Kind.KILL_TWO: (0.0, 3.0),
    Kind.PAUSE: (2.0, 8.0),
    Kind.RESTART: (0.0, 1.0),
    Kind.DRAIN: (1.0, 4.0),
}


@dataclass(frozen=True, slots=True)
class CopierKill:
    """kill -9 at `at_s` from the beginning; started again `back_s` later."""

    at_s: float
    copier: int
    back_s: float


@dataclass(frozen=True, slots=True)
class Fault:
    """`after_s`: the one before is made good. `lasts_s`: until this one is. `number`: which copier's shard, or which partition."""

    after_s: float
    kind: Kind
    role: Role
    number: int
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Move:
    """`after_s`: the one before has ended. `to`: a broker by its place among those that may take it."""

    after_s: float
    role: Role
    number: int
    to: int


@dataclass(frozen=True, slots=True)
class Plan:
    """`faults` and `moves` are more than there is time for: they are begun before `hurt_until_s` only."""

    seed: int
    duration_s: float
    copier_kills: tuple[CopierKill, ...]
    faults: tuple[Fault, ...]
    moves: tuple[Move, ...]

    @property
    def hurt_until_s(self) -> float:
        return self.duration_s * (1 - QUIET_END_SHARE)


def plan(seed: int, duration_s: float, copiers: int, kills_each: int, partitions: int) -> Plan:
    random = Random(seed)
    until_s = duration_s * (1 - QUIET_END_SHARE)
    first_s = min(FIRST_S, until_s / 4)
    kills = [
        CopierKill(round(random.uniform(first_s, until_s), 2), copier, _between(random, BACK_S))
        for copier in range(copiers)
        for _ in range(kills_each)
    ]
    # Each lasts for seconds, so these are enough.
    count = int(duration_s) + 1
    faults = tuple(_fault(random, kind, copiers * partitions) for kind in _kinds(random, count))
    moves = tuple(
        Move(
            _between(random, MOVE_PAUSE_S),
            random.choice(MOVED),
            random.randrange(copiers * partitions),
            random.randrange(6),
        )
        for _ in range(count)
    )
    return Plan(seed, duration_s, tuple(sorted(kills, key=lambda kill: kill.at_s)), faults, moves)


def _kinds(random: Random, count: int) -> Iterator[Kind]:
    """Every kind soon, those that hurt most more often."""
    given = 0
    while given < count:
        some = [*Kind, Kind.KILL, Kind.KILL]
        random.shuffle(some)
        yield from some
        given += len(some)


def _fault(random: Random, kind: Kind, numbers: int) -> Fault:
    return Fault(
        _between(random, FAULT_PAUSE_S),
        kind,
        random.choice(tuple(Role)),
        random.randrange(numbers),
        _between(random, LASTS_S[kind]),
    )


def _between(random: Random, bounds: tuple[float, float]) -> float:
    return round(random.uniform(*bounds), 2)
