"""Which parts are run, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.hdfs import loads
from bench.hdfs.criteria import JVM_DEFAULTS
from bench.runner import QUICK, SMOKE

WARM_UP_ROUNDS: Final = 2
"""Of every load on every client, so that a JVM has compiled what runs often."""


@dataclass(frozen=True, slots=True)
class Plan:
    parts: tuple[str, ...]
    sides: tuple[str, ...]
    pairs: int = 9
    default_pairs: int = 3
    warm_up_rounds: int = WARM_UP_ROUNDS
    sizes: loads.Sizes = loads.FULL
    takeovers: int = 200
    dead_datanode_rounds: int = 3
    hung_datanode_rounds: int = 5
    rolls: int = 40
    limit_s: float = 900.0


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    if size == SMOKE:
        # The last part is the first again, on an HDFS of its own.
        return Plan(tuple(part for part in parts if part != JVM_DEFAULTS), sides, 1, 1, 0, loads.SMOKE, 6, 1, 1, 3)
    if size == QUICK:
        return Plan(parts, sides, 3, 1, WARM_UP_ROUNDS, loads.QUICK, 15, 1, 1, 6)
    return Plan(parts, sides)
