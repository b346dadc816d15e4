"""Which runs of a partition are merged, and how long the files of a merge may become. Decisions only.

A run of tier 0 was written from the log; a merge of runs of one tier makes runs of the next, whose times do not overlap. So at
most RUNS_OVERLAPPING_MAX of each tier are in memory at once, and a record is written once for each tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.log.timers.run_reference import RunReference

RUNS_OVERLAPPING_MAX: Final = 32
"""Runs of a tier that may have one time in common."""
RUNS_MAX: Final = 1_000
"""Runs that a manifest names, 300 bytes for each. With so many no further one is written until some were merged or delivered."""
FILE_BYTES: Final = 64 * 1024 * 1024
"""Length of a run of tier 1. Those of higher tiers are longer, so that a partition with much in it has no more files."""
FILE_GROWTH: Final = 8
FILE_BYTES_MAX: Final = 1024 * 1024 * 1024
TIER_MAX: Final = 4


def file_bytes_of(tier: int) -> int:
    """About how long a merge lets a run of this tier become."""
    return min(FILE_BYTES_MAX, FILE_BYTES * int(FILE_GROWTH ** (max(1, tier) - 1)))


def next_merge(runs: Sequence[RunReference]) -> tuple[RunReference, ...]:
    """The runs to merge now: of the lowest tier of which too many overlap, those at the first such place. Empty: none."""
    for tier in sorted({run.tier for run in runs}):
        same = sorted((run for run in runs if run.tier == tier), key=lambda run: run.first)
        open_here: list[RunReference] = []
        for run in same:
            open_here = [other for other in open_here if other.last >= run.first]
            open_here.append(run)
            if len(open_here) > RUNS_OVERLAPPING_MAX:
                return tuple(open_here)
    return ()


def tier_of_merged(merged: Sequence[RunReference]) -> int:
    return min(TIER_MAX, max(run.tier for run in merged) + 1)
