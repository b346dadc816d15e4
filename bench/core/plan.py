"""Which loads are run, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.core.criteria import COMPRESSED, PAIRS
from bench.runner import QUICK, SMOKE

PARTS: Final = (PAIRS, COMPRESSED)


@dataclass(frozen=True, slots=True)
class Plan:
    """`seconds`: of each load, behind `warm_s` of its own. `backlog_bytes`: of each partition, for the fetches."""

    parts: tuple[str, ...]
    sides: tuple[str, ...]
    pairs: int = 5
    warm_s: float = 2
    seconds: float = 8
    warm_ups_max: int = 8
    backlog_bytes: int = 64 * 1024 * 1024
    rates_per_s: tuple[int, ...] = (500, 2_000)


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    if size == SMOKE:
        return Plan(parts, sides, 1, 0.2, 0.5, 1, 4 * 1024 * 1024, (200,))
    if size == QUICK:
        return Plan(parts, sides, 1, 1, 3, 6, 16 * 1024 * 1024)
    return Plan(parts, sides)
