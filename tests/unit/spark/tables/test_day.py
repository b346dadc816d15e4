"""Which day of an index may be built again, and what is read for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bmq.spark.tables.day import check_day, day_of, is_by_record_time, offset_options, ranges_to_read
from bmq.spark.tables.errors import TableMismatch
from bmq.spark.tables.table_offsets import TableOffsets
from bmq.table_definitions.definition import TableDefinition
from tests.unit.table_definitions.definitions import definition

pytestmark = pytest.mark.unit

DAY = day_of("2026-11-29")
DAY_MS = 86_400_000
OFFSETS = TableOffsets("shop.orders", "an-id", {0: 50, 1: 40, 2: 30})


def index(*, time: str = "", **layout: Any) -> TableDefinition:
    keys = [{"field": "id"}, *([{"field": time, "by": "time"}] if time else [])]
    return definition(partitioning=[], index={"keys": keys, **layout})


def test_a_day_begins_and_ends_at_midnight_in_utc() -> None:
    assert (DAY.start_ms, DAY.end_ms - DAY.start_ms) == (1_795_910_400_000, DAY_MS)
    assert [bound.isoformat() for bound in DAY.bounds] == ["2026-11-29T00:00:00+00:00", "2026-11-30T00:00:00+00:00"]


@pytest.mark.parametrize(
    "text", ["", "yesterday", "20261129", "2026-13-01", "2026-11-29T00:00", "9999-12-31", "2026-W48-7"]
)
def test_what_is_no_day(text: str) -> None:
    with pytest.raises(ValueError, match="is no day; write it as 2026-11-29, in UTC"):
        day_of(text)


def test_a_day_that_is_kept_is_built_up_to_the_offsets_of_the_index() -> None:
    end_ms = DAY.end_ms
    assert check_day(DAY, index(), OFFSETS, end_ms + 900 * DAY_MS) is OFFSETS
    kept = index(retention_ms=DAY_MS)
    assert check_day(DAY, kept, OFFSETS, end_ms + DAY_MS - 1) is OFFSETS
    with pytest.raises(TableMismatch, match="index orders keeps no rows of 2026-11-29 any more"):
        check_day(DAY, kept, OFFSETS, end_ms + DAY_MS)
    with pytest.raises(TableMismatch, match="orders is a table without keys"):
        check_day(DAY, definition(), OFFSETS, 0)
    with pytest.raises(TableMismatch, match="has nothing yet"):
        check_day(DAY, index(), None, 0)


def test_the_log_says_where_a_day_begins_only_by_its_own_times() -> None:
    assert is_by_record_time(index())
    assert not is_by_record_time(index(time="at"))


def test_only_offsets_of_the_log_and_the_index_are_read() -> None:
    starts = {0: 0, 1: 10, 2: 30}
    assert ranges_to_read(OFFSETS, starts, None) == {0: (0, 50), 1: (10, 40)}
    assert ranges_to_read(OFFSETS, starts, {0: 20, 1: 5, 2: 0}) == {0: (20, 50), 1: (10, 40)}
    assert ranges_to_read(OFFSETS, starts, {0: 50, 1: None}) == {}, "nothing since the day began is in the index"
    assert offset_options("t", {1: (10, 40), 0: (0, 50)}) == {
        "assign": json.dumps({"t": [0, 1]}),
        "startingOffsets": json.dumps({"t": {"0": 0, "1": 10}}),
        "endingOffsets": json.dumps({"t": {"0": 50, "1": 40}}),
    }
