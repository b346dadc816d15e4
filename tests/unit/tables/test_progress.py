"""How far a table is behind its topic."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.tables.progress import JobState, Progress, Reports, lags
from bmq.tables.stored import StoredTable
from tests.unit.tables.definitions import definition

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
