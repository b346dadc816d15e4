"""Which faults, when and to whom: from a seed, before anything runs. Pure.

A run is a row of phases. In each of them there is one fault that leaves all nodes standing, and in every second one a
node is fully gone for a while as well; then everything is made good, and it is quiet for a moment. In the phases of one
round every kind of fault happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

FIRST_S: Final = 3.0
QUIET_S: Final = (2.0, 6.0)
QUIET_END_S: Final = 5.0
# Two faults of one phase begin at most so far from each other.
SPREAD_S: Final = 3.0
# What waiting until all is well takes at least: it is not planned, and only guessed here.
HEALING_S: Final = 2.0
# With less time than this for each fault of a round they last as short as they may.
AMPLE_S: Final = 15.0
CONTROLLER: Final = 0


class Kind(StrEnum):
    NODE_KILL = "node_kill"
    NODE_PAUSE = "node_pause"
    NODE_RESTART = "node_restart"
    NODE_UNPLUGGED = "node_unplugged"
    CUT_BETWEEN_NODES = "cut_between_nodes"
    CUT_ONE_WAY = "cut_one_way"
    CUT_FROM_NODES = "cut_from_nodes"
    CUT_FROM_ZOOKEEPER = "cut_from_zookeeper"
    CUT_FROM_HDFS = "cut_from_hdfs"
    ZOOKEEPER_AWAY = "zookeeper_away"
    DATANODE_KILL = "datanode_kill"
    MOVES = "moves"
    DRAIN = "drain"
    NODE_STANDSTILL = "node_standstill"
    LATE_CALLS = "late_calls"
    POWER_LOSS = "power_loss"


# Those happen only where they are asked for: a pause beyond most patience, calls to the NameNode that are carried out after
# they were given up, and all DataNodes at once without what they did not sync.
HAZARDS: Final = frozenset({Kind.NODE_STANDSTILL, Kind.LATE_CALLS, Kind.POWER_LOSS})
# How long each lasts before it is made good. A pause is longer than a silence that gets a node fenced (2 s), being
# without ZooKeeper at times longer than a session.
LASTS_S: Final = {
    Kind.NODE_KILL: (0.0, 4.0),
    Kind.NODE_PAUSE: (2.5, 10.0),
    Kind.NODE_RESTART: (0.0, 1.0),
    Kind.NODE_UNPLUGGED: (2.5, 10.0),
    Kind.CUT_BETWEEN_NODES: (3.0, 10.0),
    Kind.CUT_ONE_WAY: (3.0, 10.0),
    Kind.CUT_FROM_NODES: (3.0, 12.0),
    Kind.CUT_FROM_ZOOKEEPER: (4.0, 12.0),
    Kind.CUT_FROM_HDFS: (2.0, 8.0),
    Kind.ZOOKEEPER_AWAY: (4.0, 15.0),
    Kind.DATANODE_KILL: (2.0, 8.0),
    Kind.MOVES: (2.0, 6.0),
    Kind.DRAIN: (2.0, 6.0),
    Kind.NODE_STANDSTILL: (60.0, 65.0),
    Kind.LATE_CALLS: (10.0, 20.0),
    Kind.POWER_LOSS: (0.0, 3.0),
}
GONE: Final = (Kind.NODE_KILL, Kind.NODE_PAUSE, Kind.NODE_RESTART, Kind.NODE_UNPLUGGED)
OTHERS: Final = tuple(kind for kind in Kind if kind not in GONE and kind not in HAZARDS)


@dataclass(frozen=True, slots=True)
class Fault:
    """`after_s`: from the beginning of its phase. `lasts_s`: before it is made good, which takes a while more.

    `target`: a node by its place from 1 on, CONTROLLER: whichever has the active controller then; a DataNode by its
    place from 0 on. `other`: the node at the other end of a cut, by its place among the other nodes from 0 on. `seed`:
    of what is still open, as which partitions are moved where.
    """

    kind: Kind
    after_s: float
    lasts_s: float
    target: int
    other: int
    seed: int

    @property
    def ends_s(self) -> float:
        """From the beginning of its phase."""
        return self.after_s + self.lasts_s


@dataclass(frozen=True, slots=True)
class Phase:
    """`quiet_s`: after all is well again, with nothing wrong at all."""

    faults: tuple[Fault, ...]
    quiet_s: float

    @property
    def seconds(self) -> float:
        """As long as it takes at least."""
        return max(fault.ends_s for fault in self.faults) + HEALING_S + self.quiet_s


@dataclass(frozen=True, slots=True)
class Plan:
    """Phases in order: those of the first round, and as many more as there is time for when all heals at once."""

    phases: tuple[Phase, ...]
    round_phases: int

    def is_due(self, place: int, now_s: float, duration_s: float) -> bool:
        """Whether a phase is still begun when healing took longer than planned: those of the first round always are."""
        return place < self.round_phases or now_s + self.phases[place].seconds <= duration_s - QUIET_END_S


def plan(seed: int, duration_s: float, nodes: int, datanodes: int, hazards: frozenset[Kind] = frozenset()) -> Plan:
    """The phases of a run, these `hazards` among them; the end of it stays quiet, so that everything can recover."""
    random = Random(seed)
    gone = (*GONE, *sorted(hazards & {Kind.NODE_STANDSTILL}))
    others = (*OTHERS, *sorted(hazards - {Kind.NODE_STANDSTILL}))
    haste = min(1.0, duration_s / (AMPLE_S * len(others)))
    found: list[Phase] = []
    left_s = duration_s - FIRST_S - QUIET_END_S
    while True:
        for phase in _round(random, haste, nodes, datanodes, gone, others):
            left_s -= phase.seconds
            if left_s < 0 and len(found) >= len(others):
                return Plan(tuple(found), len(others))
            found.append(phase)


def _round(
    random: Random, haste: float, nodes: int, datanodes: int, gone: Sequence[Kind], others: Sequence[Kind]
) -> Iterator[Phase]:
    kinds_of_others = random.sample(others, len(others))
    beside: list[Kind | None] = [*gone, *[None] * (len(others) - len(gone))]
    random.shuffle(beside)
    for with_it, kind in zip(beside, kinds_of_others, strict=True):
        kinds = [kind] if with_it is None else [kind, with_it]
        faults = [_fault(random, kind, haste, nodes, datanodes, is_alone=with_it is None) for kind in kinds]
        low_s, high_s = QUIET_S
        yield Phase(tuple(faults), round(low_s + (high_s - low_s) * haste * random.random(), 2))


def _fault(random: Random, kind: Kind, haste: float, nodes: int, datanodes: int, *, is_alone: bool) -> Fault:
    low_s, high_s = LASTS_S[kind]
    lasts_s = low_s + (high_s - low_s) * haste * random.random()
    after_s = 0.0 if is_alone else SPREAD_S * haste * random.random()
    target = random.randrange(datanodes) if kind is Kind.DATANODE_KILL else random.randrange(CONTROLLER, nodes + 1)
    return Fault(
        kind, round(after_s, 2), round(lasts_s, 2), target, random.randrange(nodes - 1), random.getrandbits(32)
    )
