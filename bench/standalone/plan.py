"""Which parts are run, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.runner import QUICK, SMOKE
from bench.standalone.criteria import EMPTY, MANY, PAIRS
from bench.workloads import Sizes

PARTS: Final = (EMPTY, MANY, PAIRS)
FULL_SIZES: Final = Sizes(600_000, 6, 200_000, 1_000_000, 1_000_000, 4_000_000, 50_000, 150_000, consume_passes=3)
QUICK_SIZES: Final = Sizes(100_000, 3, 50_000, 200_000, 200_000, 600_000, 20_000, 50_000, consume_passes=2)
SMOKE_SIZES: Final = Sizes(5_000, 1, 5_000, 20_000, 10_000, 50_000, 2_000, 10_000, consume_passes=2)


@dataclass(frozen=True, slots=True)
class Plan:
    parts: tuple[str, ...]
    sides: tuple[str, ...]
    sizes: Sizes = FULL_SIZES
    pairs: int = 5
    starts: int = 5
    partitions: int = 1_000
    partition_starts: int = 3
    idle_s: float = 20


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    if size == SMOKE:
        return Plan(parts, sides, SMOKE_SIZES, 1, 1, 20, 1, 1)
    if size == QUICK:
        return Plan(parts, sides, QUICK_SIZES, 1, 3, 1_000, 1, 10)
    return Plan(parts, sides)
