"""Which parts are run, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.hdfs.loads import Sizes
from bench.runner import QUICK, SMOKE

FULL_SIZES: Final = Sizes(200, 2_000, 0, 0, 1 << 30, 1 << 30, 0)
QUICK_SIZES: Final = Sizes(100, 600, 0, 0, 256 << 20, 256 << 20, 0)
SMOKE_SIZES: Final = Sizes(8, 50, 0, 0, 8 << 20, 16 << 20, 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """`pairs`: of appends in each mode, `bulk_pairs`: of streams and reads, each behind its warm-up rounds. `limit_s`: of
    each part. A whole run takes some 16 minutes.
    """

    parts: tuple[str, ...]
    sides: tuple[str, ...]
    pairs: int = 7
    warm_up_rounds: int = 2
    bulk_pairs: int = 3
    bulk_warm_up_rounds: int = 1
    takeovers: int = 200
    sizes: Sizes = FULL_SIZES
    limit_s: float = 300.0


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    if size == SMOKE:
        return Plan(parts, sides, 1, 0, 1, 0, 6, SMOKE_SIZES)
    if size == QUICK:
        return Plan(parts, sides, 3, 2, 2, 1, 30, QUICK_SIZES)
    return Plan(parts, sides)
