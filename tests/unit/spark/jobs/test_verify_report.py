"""Results of segments in, one report out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.spark.jobs.replica_check import differing_replicas
from bmq.spark.jobs.segment_check import Finding, Kind
from bmq.spark.jobs.verify_report import SegmentResult, report_of

pytestmark = pytest.mark.unit


def result(base: int | None, end: int | None, *, partition: int = 0, **more: object) -> SegmentResult:
    values = {"batches": 1, "records": 5, "bytes": 100, **more}
    return SegmentResult("t", partition, f"{base}.log", base, end, **values)  # type: ignore[arg-type]


def test_segments_that_follow_each_other_are_clean() -> None:
    report = report_of([result(5, 9, replicas=3), result(0, 5, replicas=2), result(0, 2, partition=1)])
    assert report.is_clean
    first = report.partitions[0]
    assert (first.base_offset, first.end_offset, first.segments, first.records, first.replicas) == (0, 9, 2, 10, 2)


def test_a_hole_and_an_overlap_between_segments_are_found() -> None:
    report = report_of([result(0, 5), result(7, 9), result(8, 12)])
    assert [(finding.kind, finding.offset) for finding in report.findings] == [(Kind.OFFSETS, 7), (Kind.OFFSETS, 8)]
    assert report.partitions[0].findings == report.finding_count == 2


def test_holes_belong_to_compacted_topics() -> None:
    assert report_of([result(0, 5, is_compacted=True), result(7, 9, is_compacted=True)]).is_clean


def test_a_segment_that_was_deleted_meanwhile_is_no_hole() -> None:
    gone = result(5, 7, batches=0, is_gone=True)
    report = report_of([result(0, 5), gone, result(7, 9)])
    assert report.is_clean
    assert report.partitions[0].gone == 1


def test_an_empty_segment_is_passed_over() -> None:
    assert report_of([result(0, 5), result(None, None, batches=0)]).is_clean


def test_findings_that_were_only_counted_count() -> None:
    finding = Finding(Kind.BATCH, "t", 0, "f", "why", 3, 4)
    report = report_of([result(0, 5, findings=(finding,), finding_count=7)])
    assert (report.finding_count, len(report.findings)) == (7, 1)
    assert json.loads(json.dumps(report.to_json()))["finding_count"] == 7


def test_a_result_survives_json() -> None:
    one = result(0, 5, findings=(Finding(Kind.BATCH, "t", 0, "f", "why", 3, 4),), finding_count=1)
    assert SegmentResult.from_json(json.loads(json.dumps(one.to_json()))) == one


@given(st.binary(min_size=1, max_size=50), st.integers(0, 49), st.integers(1, 255))
def test_the_replica_that_differs_is_named_with_its_place(content: bytes, at: int, bits: int) -> None:
    place = at % len(content)
    other = bytearray(content)
    other[place] ^= bits
    assert differing_replicas({"a": content, "b": bytes(other), "c": content}) == {"b": place}
    assert differing_replicas({"a": content, "b": content}) == {}
    assert differing_replicas({}) == {}


def test_of_two_that_differ_one_is_named() -> None:
    assert differing_replicas({"a": b"xx", "b": b"xy"}) == {"b": 1}
