"""A report does not depend on how the topic was cut into steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.spark.jobs import stats as stats_module
from bmq.spark.jobs.find import find
from bmq.spark.jobs.find_query import FindQuery
from bmq.spark.jobs.job_run import JobRun
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.ranges import OffsetRange
from bmq.spark.jobs.source import Source
from bmq.spark.jobs.stats import stats
from bmq.spark.jobs.stats_picture import bytes_grid, draw
from bmq.spark.jobs.stats_report import StatsReport, skew_of

pytestmark = pytest.mark.unit


def row(partition: int, hour: int, records: int = 1, size: int = 10, topic: str = "t") -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "hour": hour,
        "records": records,
        "keyed": records,
        "tombstones": 0,
        "key_bytes": None,
        "value_bytes": size,
        "header_bytes": 1,
        "first_timestamp_ms": hour * 3_600_000 + 5,
        "last_timestamp_ms": hour * 3_600_000 + 9,
    }


ROWS = st.lists(st.builds(row, st.integers(0, 3), st.integers(100, 104), st.integers(1, 9), st.integers(0, 99)))


@given(ROWS, st.integers(0, 9))
def test_the_report_of_two_steps_is_that_of_one(rows: list[dict[str, Any]], cut: int) -> None:
    one, two = StatsReport(), StatsReport()
    one.add_rows(rows)
    two.add_rows(rows[cut:])
    two.add_rows(rows[:cut])
    assert one.to_json() == two.to_json()
    assert one.total.records == sum(each["records"] for each in rows)


def test_skew_is_the_greatest_to_the_mean() -> None:
    assert skew_of([]) == 1
    assert skew_of([0, 0]) == 1
    assert skew_of([5, 5]) == 1
    assert skew_of([30, 0, 0]) == 3


def test_hours_are_compared_over_all_partitions_of_their_topic() -> None:
    report = StatsReport()
    report.add_rows([row(0, 100, size=99), row(1, 101, size=99), row(7, 100, topic="other")])
    assert report.skew("t") == 1
    assert report.skew_of_hours("t") == {100: 2, 101: 2}
    document = report.to_json()
    assert [each["topic"] for each in document["topics"]] == ["other", "t"]
    assert document["topics"][1]["hours"][0]["hour_ms"] == 360_000_000


def test_partitions_without_records_count_for_the_skew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = [
        OffsetRange("t", 0, 0, 5),
        OffsetRange("t", 1, 0, 0),
        OffsetRange("t", 2, 7, 7),
        OffsetRange("e", 0, 0, 0),
    ]
    monkeypatch.setattr(stats_module, "_count", lambda *_: [{**row(0, 100), "keyed": 0}])
    report = stats(cast(Any, None), Source("localhost:9092"), ranges)
    assert report.skew("t") == 3
    assert report.skew_of_hours("t") == {100: 3}
    empty, full = report.to_json()["topics"]
    assert [each["records"] for each in full["partitions"]] == [1, 0, 0]
    assert (empty["skew"], empty["hours"], [each["records"] for each in empty["partitions"]]) == (1, [], [0])
    draw(report, tmp_path / "picture.svg")


def test_a_topic_that_was_made_again_is_another_job(tmp_path: Path) -> None:
    source, ranges = Source("localhost:9092"), [OffsetRange("t", 0, 0, 0)]
    query = FindQuery(key="k")
    for name, job in (
        ("stats", lambda **how: stats(cast(Any, None), source, ranges, JobRun(**how))),
        ("find", lambda **how: find(cast(Any, None), source, ranges, query, JobRun(**how))),
    ):
        job(state=tmp_path / name, topic_ids={"t": "1"})
        job(state=tmp_path / name, topic_ids={"t": "1"})
        with pytest.raises(JobFailed, match="belongs to a job with another topic_ids"):
            job(state=tmp_path / name, topic_ids={"t": "2"})


def test_codecs_are_absent_until_somebody_looked() -> None:
    report = StatsReport()
    report.add_rows([row(0, 100)])
    assert report.to_json()["topics"][0]["partitions"][0]["codecs"] is None
    report.add_codecs([["t", 0, "lz4", 2, 7, 300], ["t", 0, "lz4", 1, 1, 100], ["t", 0, "none", 1, 2, 50]])
    assert report.to_json()["topics"][0]["partitions"][0]["codecs"] == {
        "lz4": {"batches": 3, "records": 8, "stored_bytes": 400},
        "none": {"batches": 1, "records": 2, "stored_bytes": 50},
    }


def test_the_picture_shows_hours_without_records_too() -> None:
    report = StatsReport()
    report.add_rows([row(0, 100, size=4), row(1, 103, size=9)])
    assert bytes_grid(report, "t") == ([0, 1], [100, 101, 102, 103], [[5, 0, 0, 0], [0, 0, 0, 10]])


@pytest.mark.parametrize("topics", [0, 2])
def test_a_picture_is_drawn_also_of_nothing(topics: int, tmp_path: Path) -> None:
    report = StatsReport()
    report.add_rows([row(partition, 100 + topic, topic=f"t{topic}") for topic in range(topics) for partition in (0, 1)])
    draw(report, tmp_path / "picture.svg")
    assert "<svg" in (tmp_path / "picture.svg").read_text()


@pytest.mark.parametrize("name", ["picture.gif", "nowhere/picture.png"])
def test_a_picture_that_cannot_be_written_is_one_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(JobFailed, match="cannot be written"):
        draw(StatsReport(), tmp_path / name)
