"""Which parts are run, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.runner import QUICK, SMOKE
from bench.topics.criteria import BESIDE, COMPACTION, KEYS

PARTS: Final = (COMPACTION, KEYS, BESIDE)


@dataclass(frozen=True, slots=True)
class Plan:
    """`records` of `keys` different keys are compacted; `distinct`: records with a key of their own each."""

    parts: tuple[str, ...]
    sides: tuple[str, ...]
    pairs: int = 3
    records: int = 5_000_000
    keys: int = 1_000_000
    value_bytes: int = 200
    distinct: int = 10_000_000
    warm_up: int = 50_000
    measured: int = 150_000


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    if size == SMOKE:
        return Plan(parts, sides, 1, 20_000, 2_000, 200, 20_000, 2_000, 10_000)
    if size == QUICK:
        return Plan(parts, sides, 1, 1_000_000, 200_000, 200, 1_000_000, 20_000, 50_000)
    return Plan(parts, sides)
