"""Which runs of a partition are merged, and how long the files of a merge may become. Decisions only.

Runs of tier 0 are written from the log. A merge of runs of one tier makes runs of the next tier, which do not overlap each other
in due time. So at most RUNS_OVERLAPPING_MAX runs of each tier are read at once, and a record is written once per tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.log.timers.run_reference import RunReference

RUNS_OVERLAPPING_MAX: Final = 32
"""Most runs of a tier that may overlap at one due time."""
RUNS_MAX: Final = 1_000
"""Most runs that a manifest names, 300 bytes each. At this number none is written until some are merged or delivered."""
FILE_BYTES: Final = 64 * 1024 * 1024
"""Length of a run of tier 1. Runs of higher tiers are longer, so that more records do not mean more files."""
FILE_GROWTH: Final = 8
FILE_BYTES_MAX: Final = 1024 * 1024 * 1024
TIER_MAX: Final = 4


def file_bytes_of(tier: int) -> int:
    """The length at which a merge ends a run of this tier, in bytes; a run may be a little longer."""
    return min(FILE_BYTES_MAX, FILE_BYTES * int(FILE_GROWTH ** (max(1, tier) - 1)))


def next_merge(runs: Sequence[RunReference]) -> tuple[RunReference, ...]:
    """The runs to merge now; empty if there are none.

    They are of the lowest tier in which too many runs overlap: those that overlap at the first place where too many do.
    """
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
