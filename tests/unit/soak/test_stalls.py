"""Pauses are attributed to what was under way; the worst cause comes first."""

from __future__ import annotations

import pytest

from tests.soak.report import Report
from tests.soak.stalls import AFTERMATH_S, STALL_S, Stall, StallWatch, Trouble, by_cause, cause_of

pytestmark = pytest.mark.campaign("unit")

PAUSE = Trouble("datanode_pause", 10.0, 20.0)
KILL = Trouble("server_kill", 15.0, 18.0)


def test_a_pause_is_kept_for_its_partition_alone() -> None:
    watch = StallWatch("reader")
    for now_s in (0.0, 0.1, 0.2, 0.2 + STALL_S, 3.0):
        watch.heard_of(0, now_s)
        watch.heard_of(1, now_s / 100)
    assert watch.stalls == [
        Stall(0, 0.2, 0.2 + STALL_S, "reader"),
        Stall(0, 0.2 + STALL_S, 3.0, "reader"),
    ]


def test_the_first_acknowledgement_of_a_partition_ends_no_pause() -> None:
    watch = StallWatch()
    watch.heard_of(0, 100.0)
    assert watch.stalls == []


@pytest.mark.parametrize(
    ("begin_s", "end_s", "cause"),
    [
        (9.0, 9.9, "none"),
        (9.0, 10.1, "datanode_pause"),
        (12.0, 13.0, "datanode_pause"),
        (14.0, 15.5, "datanode_pause + server_kill"),
        (5.0, 50.0, "datanode_pause + server_kill"),
        (20.0, 21.0, "datanode_pause"),
        (20.5, 21.0, "after datanode_pause + server_kill"),
        (18.0 + AFTERMATH_S + 0.1, 24.0, "after datanode_pause"),
        (20.0 + AFTERMATH_S + 0.1, 60.0, "none"),
    ],
)
def test_a_pause_has_the_faults_it_overlaps_as_its_cause(begin_s: float, end_s: float, cause: str) -> None:
    assert cause_of(Stall(0, begin_s, end_s), [PAUSE, KILL]) == cause


def test_causes_are_counted_and_the_worst_comes_first() -> None:
    stalls = [Stall(0, 1.0, 1.5, "a"), Stall(0, 11.0, 13.0, "a"), Stall(1, 11.0, 12.0, "b")]
    found = by_cause(stalls, [PAUSE], began_s=1.0)
    assert list(found.items()) == [
        ("datanode_pause", {"count": 2, "longest_s": 2.0, "at_s": 10.0, "partition": 0, "client": "a"}),
        ("none", {"count": 1, "longest_s": 0.5, "at_s": 0.0, "partition": 0, "client": "a"}),
    ]


def test_a_report_says_what_happened_and_whether_it_passed() -> None:
    report = Report(
        seed=5,
        minutes=2,
        troubles=[PAUSE],
        stalls=[Stall(3, 11.0, 13.0, "producer 1")],
        memory_mib=[100.0, 110.0, 300.0],
    )
    assert report.has_passed
    assert "seed 5: passed" in report.text()
    assert "2.00 s  datanode_pause (1 pauses, the longest at 11 s, of partition 3 at producer 1)" in report.text()
    assert report.as_json()["memory_mib"] == {"max": 300.0, "first_quarter": 100.0, "last_quarter": 300.0}
    report.violations.append("a record is gone")
    assert not report.has_passed
    assert "VIOLATION: a record is gone" in report.text()
    assert report.as_json()["passed"] is False
