"""Which faults, when and to whom: from a seed, before anything runs. Pure.

Two tracks run at the same time: one hurts DataNodes, never two at once but for a power loss, which hits all; the other
kills the server or restarts the NameNode. So a server is also killed while a DataNode hangs, and must start in that state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

FIRST_S: Final = 4.0
QUIET_END_S: Final = 8.0


class Kind(StrEnum):
    """Those of HAZARDS happen only where they are asked for."""

    DATANODE_KILL = "datanode_kill"
    DATANODE_PAUSE = "datanode_pause"
    DATANODE_RESTART = "datanode_restart"
    SERVER_KILL = "server_kill"
    NAMENODE_RESTART = "namenode_restart"
    SERVER_STANDSTILL = "server_standstill"
    DATANODE_STANDSTILL = "datanode_standstill"
    LATE_CALLS = "late_calls"
    POWER_LOSS = "power_loss"


HAZARDS: Final = frozenset({Kind.SERVER_STANDSTILL, Kind.DATANODE_STANDSTILL, Kind.LATE_CALLS, Kind.POWER_LOSS})


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
# A standstill is longer than any patience but that of a producer; calls are late by up to half a minute more than this.
_DATANODE_HAZARDS: Final = (
    _Sort(Kind.DATANODE_STANDSTILL, (60, 65)),
    _Sort(Kind.POWER_LOSS, (0, 3)),
)
_OTHER_HAZARDS: Final = (
    _Sort(Kind.SERVER_STANDSTILL, (60, 65)),
    _Sort(Kind.LATE_CALLS, (10, 20)),
)
_DATANODE_GAP_S: Final = (4.0, 10.0)
_OTHER_GAP_S: Final = (6.0, 14.0)


@dataclass(frozen=True, slots=True)
class Track:
    """Faults one after the other. `round_faults`: so many from the first on have one of each sort."""

    faults: tuple[Fault, ...]
    round_faults: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Faults of both tracks, each in order: as many as there is time for when nothing takes long to heal."""

    datanodes: Track
    others: Track


def plan(seed: int, duration_s: float, datanode_count: int, hazards: frozenset[Kind] = frozenset()) -> Plan:
    """The faults of a run, these `hazards` among them; the end of it stays quiet, so that everything can recover."""
    random = Random(seed)
    datanode_sorts = (*_DATANODE_SORTS, *(sort for sort in _DATANODE_HAZARDS if sort.kind in hazards))
    other_sorts = (*_OTHER_SORTS, *(sort for sort in _OTHER_HAZARDS if sort.kind in hazards))
    return Plan(
        Track(tuple(_faults(random, datanode_sorts, _DATANODE_GAP_S, duration_s, datanode_count)), len(datanode_sorts)),
        Track(tuple(_faults(random, other_sorts, _OTHER_GAP_S, duration_s, 1)), len(other_sorts)),
    )


def is_due(track: Track, place: int, now_s: float, duration_s: float) -> bool:
    """Whether a fault is still caused when healing took longer than planned: the first of each sort always are.

    `place`: among the faults of its track; `now_s`: since the beginning.
    """
    fault = track.faults[place]
    return place < track.round_faults or now_s + fault.after_s + fault.lasts_s <= duration_s - QUIET_END_S


def _faults(
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
