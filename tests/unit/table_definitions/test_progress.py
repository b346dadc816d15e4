"""How far a table is behind its topic."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.table_definitions.progress import (
    REPORT_EVERY_S,
    SILENT_AFTER_MS,
    JobState,
    Progress,
    Reports,
    lags,
    silent_s,
)
from bmq.table_definitions.stored import StoredTable
from tests.unit.table_definitions.definitions import definition

pytestmark = pytest.mark.unit

TABLE = StoredTable(
    table_id=UUID(int=1), topic_id=UUID(int=2), version=1, created_at_ms=0, altered_at_ms=0, definition=definition()
)
REPORT = Progress(UUID(int=1), UUID(int=2), JobState.RUNNING, {0: 5})


_offsets = st.dictionaries(st.integers(0, 7), st.integers(0, 100))


@given(st.lists(st.integers(0, 100), max_size=5), _offsets, _offsets)
def test_a_lag_is_never_negative(known: list[int], offsets: dict[int, int], seen: dict[int, int]) -> None:
    found = lags(known, replace(REPORT, offsets=offsets, end_offsets=seen))
    ends = [max(end, seen.get(partition, 0)) for partition, end in enumerate(known)]
    assert [each.partition for each in found] == list(range(len(ends)))
    for each, end in zip(found, ends, strict=True):
        assert each.offset == offsets.get(each.partition)
        assert each.lag == max(end - offsets.get(each.partition, 0), 0)
        assert each.end_offset >= end


def test_a_job_that_has_nothing_to_say_of_the_table_leaves_what_is_known() -> None:
    """It starts, or fails before it has written anything."""
    reports = Reports()
    begun = replace(REPORT, offsets={}, end_offsets={})
    reports.take(TABLE, begun, 5)
    assert reports.of(TABLE) == (5, begun)
    reports.take(TABLE, replace(REPORT, rows=7), 10)
    reports.take(TABLE, replace(begun, state=JobState.FAILED, error="no Java"), 20)
    assert reports.of(TABLE) == (20, replace(REPORT, rows=7, state=JobState.FAILED, error="no Java"))
    reports.take(TABLE, begun, 30)
    assert reports.of(TABLE) == (30, replace(REPORT, rows=7))


def test_only_a_job_that_should_report_and_does_not_is_silent() -> None:
    late_ms = 10 + SILENT_AFTER_MS
    assert silent_s(None, None, late_ms) is None
    assert silent_s(REPORT, 10, late_ms) is None
    assert silent_s(REPORT, 10, late_ms + 1) == SILENT_AFTER_MS // 1_000
    assert silent_s(replace(REPORT, state=JobState.STARTING), 10, late_ms + 1) == SILENT_AFTER_MS // 1_000
    for state in (JobState.STOPPED, JobState.FAILED):
        assert silent_s(replace(REPORT, state=state), 10, 10 * late_ms) is None
    assert SILENT_AFTER_MS > 3_000 * REPORT_EVERY_S, "three reports may be lost"


def test_the_newest_report_counts_until_the_table_is_another() -> None:
    reports = Reports()
    assert reports.of(TABLE) is None
    reports.take(TABLE, REPORT, 10)
    later = replace(REPORT, offsets={0: 9})
    reports.take(TABLE, later, 20)
    assert reports.of(TABLE) == (20, later)
    assert reports.of(TABLE.model_copy(update={"table_id": UUID(int=3)})) is None
    reports.keep({"orders": None})
    assert reports.of(TABLE) is not None
    reports.keep({})
    assert reports.of(TABLE) is None
