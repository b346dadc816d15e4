"""Which faults, when and to whom: from a seed, before anything runs. Pure.

Two tracks run at the same time: one hurts DataNodes, never two at once; the other kills the server or restarts the
NameNode. So a server is also killed while a DataNode hangs, and must start in that state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

FIRST_S: Final = 4.0
QUIET_END_S: Final = 8.0
ROUND_FAULTS: Final = 3  # of each track, one of each sort


class Kind(StrEnum):
    DATANODE_KILL = "datanode_kill"
    DATANODE_PAUSE = "datanode_pause"
    DATANODE_RESTART = "datanode_restart"
    SERVER_KILL = "server_kill"
    NAMENODE_RESTART = "namenode_restart"


@dataclass(frozen=True, slots=True)
class Fault:
    """`after_s`: from when all was well again after the one before it. `lasts_s`: how long it stays so before it is made
    good, which takes a while more. `target`: which DataNode.
    """

    kind: Kind
    after_s: float
    lasts_s: float
    target: int = 0


@dataclass(frozen=True, slots=True)
class _Sort:
    kind: Kind
    lasts_s: tuple[float, float]


_DATANODE_SORTS: Final = (
    _Sort(Kind.DATANODE_PAUSE, (5, 20)),
    _Sort(Kind.DATANODE_KILL, (2, 10)),
    _Sort(Kind.DATANODE_RESTART, (0, 0.5)),
)
_OTHER_SORTS: Final = (
    _Sort(Kind.SERVER_KILL, (0, 1)),
    _Sort(Kind.NAMENODE_RESTART, (0, 3)),
    _Sort(Kind.SERVER_KILL, (0, 3)),
)
_DATANODE_GAP_S: Final = (4.0, 10.0)
_OTHER_GAP_S: Final = (6.0, 14.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """Faults of both tracks, each in order: as many as there is time for when nothing takes long to heal."""

    datanodes: tuple[Fault, ...]
    others: tuple[Fault, ...]


def plan(seed: int, duration_s: float, datanode_count: int) -> Plan:
    """The faults of a run; the end of it stays quiet, so that everything can recover."""
    random = Random(seed)
    return Plan(
        tuple(_track(random, _DATANODE_SORTS, _DATANODE_GAP_S, duration_s, datanode_count)),
        tuple(_track(random, _OTHER_SORTS, _OTHER_GAP_S, duration_s, 1)),
    )


def is_due(fault: Fault, place: int, now_s: float, duration_s: float) -> bool:
    """Whether a fault is still caused when healing took longer than planned: the first of each sort always are.

    `place`: among the faults of its track; `now_s`: since the beginning.
    """
    return place < ROUND_FAULTS or now_s + fault.after_s + fault.lasts_s <= duration_s - QUIET_END_S


def _track(
    random: Random, sorts: tuple[_Sort, ...], gap_s: tuple[float, float], duration_s: float, targets: int
) -> Iterator[Fault]:
    """Rounds in random order: in the time of one round every sort happens, whatever the seed."""
    now_s = 0.0
    after_s = random.uniform(FIRST_S, FIRST_S + gap_s[0])
    while True:
        for sort in random.sample(sorts, len(sorts)):
            lasts_s = random.uniform(*sort.lasts_s)
            now_s += after_s + lasts_s
            if now_s > duration_s - QUIET_END_S:
                return
            yield Fault(sort.kind, round(after_s, 2), round(lasts_s, 2), random.randrange(targets))
            after_s = random.uniform(*gap_s)
