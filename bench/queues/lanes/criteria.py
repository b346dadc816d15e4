"""What swimlanes have to reach while a lane comes and goes under load."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Final

from bench.criteria import Absolute, Criterion, Evidence, Figure, judge_absolute

LANES: Final = "lanes"
_NO_RIVAL: Final = "no system that is measured here has lanes that come and go"


def _all(name: str, choose: Callable[[list[float]], float]) -> Figure:
    return lambda raw: choose([float(one[name]) for one in raw["rounds"]])


def _flips(criterion_id: str, what: str, unit: str, of: Figure, op: str = "<=") -> Absolute:
    said = f"a lane's consumer joins and leaves 200 times under load: {what}"
    return Absolute(criterion_id, LANES, said, unit, 0, of, no_rival=_NO_RIVAL, op=op)


ABSOLUTES: Final = (
    _flips("lane_flips_skipped", "records that no consumer saw", "", _all("skipped", sum)),
    _flips(
        "lane_flips_doubled", "records that were seen twice, by the base group or the lane", "", _all("doubled", sum)
    ),
    _flips("lane_flips_misrouted", "records without the lane that its consumers saw", "", _all("misrouted", sum)),
)
REPORTED: Final = (
    _flips("lane_flips_taken", "records that the lane's consumers saw", "", _all("by_lane", sum), op=""),
    _flips("lane_flips_copied", "records that the base group saw as copies", "", _all("copied", sum), op=""),
    _flips(
        "lane_flips_join_s",
        "from a join to its first record, median",
        "s",
        _all("join_p50_s", statistics.median),
        op="",
    ),
)
PART_OF: Final = {one.id: one.part for one in (*ABSOLUTES, *REPORTED)}


def judge(evidence: Evidence) -> list[Criterion]:
    return [judge_absolute(one, evidence) for one in (*ABSOLUTES, *REPORTED)]
