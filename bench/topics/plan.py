"""Which parts are run, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.runner import QUICK, SMOKE
from bench.topics.criteria import BESIDE, COMPACTION, CONFIGS, DELETION, KEYS, RETENTION

PARTS: Final = (COMPACTION, KEYS, BESIDE, DELETION, RETENTION, CONFIGS)
PART_S_MAX: Final = 1_800


@dataclass(frozen=True, slots=True)
class Plan:
    """`records` of `keys` different keys are compacted, behind `warm_records` of a first topic that are not measured;
    `distinct`: records with a key of their own each. `roll_ms`: `segment.ms` of what is compacted.

    `warm_up` and `measured` are records of a steady producer. A topic of `deleted_partitions` is deleted once it has
    `deleted_segments` closed ones. `idle_s` of a node with `idle_partitions` are measured; they have to have a check of
    retention in them, every `retention_check_ms` (0: as by default).
    """

    parts: tuple[str, ...]
    sides: tuple[str, ...]
    pairs: int = 3
    records: int = 5_000_000
    warm_records: int = 1_000_000
    keys: int = 1_000_000
    value_bytes: int = 200
    distinct: int = 10_000_000
    warm_up: int = 30_000
    measured: int = 100_000
    roll_ms: int = 2_000
    deletion_measured: int = 60_000
    deleted_segments: int = 10_000
    deleted_partitions: int = 500
    idle_partitions: int = 10_000
    idle_s: float = 310.0
    settle_s: float = 10.0
    retention_check_ms: int = 0
    config_rounds: int = 3
    is_cluster: bool = True


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    if size == SMOKE:
        return Plan(
            parts,
            sides,
            pairs=1,
            records=10_000,
            warm_records=1_000,
            keys=1_000,
            distinct=10_000,
            warm_up=2_000,
            measured=5_000,
            roll_ms=500,
            deletion_measured=5_000,
            deleted_segments=20,
            deleted_partitions=20,
            idle_partitions=50,
            idle_s=5.0,
            settle_s=0.0,
            retention_check_ms=1_000,
            config_rounds=1,
            is_cluster=False,  # of three nodes takes longer to start than all the rest
        )
    if size == QUICK:
        return Plan(
            parts,
            sides,
            pairs=1,
            records=1_000_000,
            warm_records=200_000,
            keys=200_000,
            distinct=1_000_000,
            warm_up=20_000,
            measured=50_000,
            deletion_measured=40_000,
            deleted_segments=1_000,
            deleted_partitions=100,
            idle_partitions=1_000,
            idle_s=30.0,
            settle_s=5.0,
            retention_check_ms=10_000,
            config_rounds=1,
        )
    return Plan(parts, sides)
