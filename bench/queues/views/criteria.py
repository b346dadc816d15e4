"""What views have to reach beside reading their whole base with the same client."""

from __future__ import annotations

import statistics
from typing import Final

from bench.criteria import Absolute, Criterion, Evidence, Figure, Ratio, Samples, judge_absolute, judge_ratio

READS: Final = "view-reads"
TAIL: Final = "view-tail"

BASE: Final = "base"
FIRST: Final = "first"
NEXT: Final = "next"
ALL: Final = "all"
"""Who reads: a reader of the base, the first one of a view of 1 %, the next one of it, one of a view of everything."""
_NO_RIVAL: Final = "no system that is measured here has views"
_WHOLE: Final = "the same client reading the whole topic"


def _seconds(raw: Samples) -> float:
    return float(raw["seconds"])


def _received(raw: Samples) -> float:
    return float(raw["received_bytes"])


def _ratio(criterion_id: str, what: str, unit: str, bound: float, of: Figure, reader: str, op: str = "<=") -> Ratio:
    return Ratio(criterion_id, READS, what, unit, op, bound, of, (reader,), (BASE,), rival=_WHOLE)


def _worst(name: str) -> Figure:
    return lambda raw: max(float(one[name]) for one in raw["rounds"])


def _median(name: str) -> Figure:
    return lambda raw: statistics.median(float(one[name]) for one in raw["rounds"])


RATIOS: Final = (
    _ratio(
        "view_read_ratio", "read a view that 1 % of records of 1 KiB pass, its first reader", "s", 0.1, _seconds, FIRST
    ),
    _ratio("view_read_bytes_ratio", "bytes that this reader got", "B", 0.02, _received, FIRST),
    _ratio("view_all_ratio", "read a view that every record passes", "s", 1.3, _seconds, ALL),
)
REPORTED: Final = (_ratio("view_next_read_ratio", "the next reader of the view of 1 %", "s", 0, _seconds, NEXT, op=""),)
ABSOLUTES: Final = (
    Absolute("view_owner_cpu_us", TAIL, "CPU of the owner for a record and a view with one reader at the end of the log", "us", 3,
             _median("one_reader_us"), no_rival=_NO_RIVAL),
)  # fmt: skip
REPORTED_ABSOLUTES: Final = (
    Absolute("view_ten_readers_cpu_us", TAIL, "the same with ten readers of the view, together", "us", 0,
             _median("ten_readers_us"), no_rival=_NO_RIVAL, op=""),
    Absolute("view_plain_reader_cpu_us", TAIL, "the same with one reader of the base and none of the view", "us", 0,
             _median("plain_reader_us"), no_rival=_NO_RIVAL, op=""),
    Absolute("view_tail_wrong", TAIL, "records that readers of the view did not get, or that do not pass", "", 0, _worst("wrong"),
             no_rival=_NO_RIVAL),
)  # fmt: skip
PART_OF: Final = {one.id: one.part for one in (*RATIOS, *REPORTED, *ABSOLUTES, *REPORTED_ABSOLUTES)}


def judge(evidence: Evidence) -> list[Criterion]:
    return [
        *(judge_ratio(one, evidence) for one in RATIOS),
        *(judge_absolute(one, evidence) for one in (*ABSOLUTES, *REPORTED_ABSOLUTES)),
        *(judge_ratio(one, evidence) for one in REPORTED),
    ]
