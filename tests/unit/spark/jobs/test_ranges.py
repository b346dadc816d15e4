"""Ranges and the steps they are cut into: every offset once, whatever the sizes."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.spark.jobs.copying import behind, from_offsets
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.ranges import OffsetRange, between, by_topic, cut_into_steps, offset_count
from bmq.spark.jobs.source import Source, SourceKind, read_options

pytestmark = pytest.mark.unit

SPANS = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 500)), max_size=6)


def ranges_of(spans: list[tuple[int, int]]) -> list[OffsetRange]:
    return [OffsetRange("t", partition, start, start + count) for partition, (start, count) in enumerate(spans)]


@given(SPANS, st.integers(1, 400))
def test_steps_have_each_offset_once_and_in_order(spans: list[tuple[int, int]], offsets_max: int) -> None:
    ranges = ranges_of(spans)
    steps = cut_into_steps(ranges, offsets_max=offsets_max)
    at = {each.partition: each.start_offset for each in ranges}
    for step in steps:
        assert step
        assert offset_count(step) <= max(offsets_max, len(step))
        for part in step:
            assert part.offset_count > 0
            assert part.start_offset == at[part.partition]
            at[part.partition] = part.end_offset
    assert at == {each.partition: each.end_offset for each in ranges}


@given(SPANS, st.integers(1, 400), st.integers(0, 5))
def test_what_is_left_behind_steps_is_cut_as_before(spans: list[tuple[int, int]], offsets_max: int, count: int) -> None:
    ranges = ranges_of(spans)
    steps = cut_into_steps(ranges, offsets_max=offsets_max)
    left: list[OffsetRange] = ranges
    for step in steps[:count]:
        left = behind(left, step)
    assert offset_count(left) == sum(offset_count(step) for step in steps[count:])
    assert cut_into_steps(left, offsets_max=offsets_max) == steps[count:]


def test_a_range_survives_json() -> None:
    one = OffsetRange("t", 3, 5, 9)
    assert OffsetRange.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_from_offsets_never_goes_back() -> None:
    ranges = [OffsetRange("t", 0, 5, 9), OffsetRange("t", 1, 0, 3)]
    assert from_offsets(ranges, {("t", 0): 2, ("t", 1): 3}) == [OffsetRange("t", 0, 5, 9)]


def test_between_is_cut_to_the_offsets_asked_for() -> None:
    starts, ends = {("t", 0): 10, ("t", 1): 0}, {("t", 0): 20, ("t", 1): 4}
    assert between(starts, ends, from_offset=5, to_offset=15) == (
        OffsetRange("t", 0, 10, 15),
        OffsetRange("t", 1, 5, 5),
    )


def test_two_ranges_of_a_partition_are_refused() -> None:
    with pytest.raises(ValueError, match="two ranges of t-0"):
        by_topic([OffsetRange("t", 0, 0, 1), OffsetRange("t", 0, 1, 2)])


def test_options_name_exactly_the_ranges() -> None:
    options = read_options([OffsetRange("a", 1, 3, 9), OffsetRange("b", 0, 0, 2)], has_headers=True)
    assert json.loads(options["assign"]) == {"a": [1], "b": [0]}
    assert json.loads(options["startingOffsets"]) == {"a": {"1": 3}, "b": {"0": 0}}
    assert json.loads(options["endingOffsets"]) == {"a": {"1": 9}, "b": {"0": 2}}
    assert options["includeHeaders"] == "true"


@pytest.mark.parametrize("name", ["minPartitions", "MAXRECORDSPERPARTITION"])
def test_a_copy_cannot_be_told_to_cut_ranges(name: str) -> None:
    source = Source("localhost:1", SourceKind.KAFKA, {name: "3"})
    with pytest.raises(JobFailed, match="one task has to copy all"):
        source.load(None, [], has_headers=False, is_in_order=True)


class FakeReader:
    """Spark and its reader; keeps the options."""

    def __init__(self) -> None:
        self.options: dict[str, str] = {}
        self.dataSource = SimpleNamespace(register=lambda kind: None)
        self.read = self

    def format(self, kind: str) -> FakeReader:
        return self

    def option(self, name: str, value: str) -> FakeReader:
        self.options[name] = value
        return self

    def load(self) -> FakeReader:
        return self


def test_only_topics_of_these_ids_are_read_where_the_source_knows_ids() -> None:
    """Spark's own connector refuses no option, and heeds none that it does not know."""
    pytest.importorskip("pyspark")
    for kind, wanted in ((SourceKind.BMQ, '{"a": "an-id"}'), (SourceKind.KAFKA, None)):
        spark: Any = FakeReader()
        ranges = [OffsetRange("a", 0, 0, 5)]
        Source("localhost:1", kind).load(spark, ranges, has_headers=False, topic_ids={"a": "an-id"})
        assert spark.options.get("bmq.topic.ids") == wanted
