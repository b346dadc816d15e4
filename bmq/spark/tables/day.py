"""One day of an index, in UTC: its bounds, whether it may be built again, and from which offsets on. Decisions only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from bmq.spark.tables.errors import TableMismatch
from bmq.spark.tables.table_offsets import TableOffsets
from bmq.table_definitions.definition import TableDefinition
from bmq.table_definitions.index_layout import TIMESTAMP_COLUMN

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Day:
    """From `start` on, before `end`."""

    text: str
    start: datetime
    end: datetime

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        return self.start, self.end

    @property
    def start_ms(self) -> int:
        return (self.start - _EPOCH) // _MILLISECOND

    @property
    def end_ms(self) -> int:
        return (self.end - _EPOCH) // _MILLISECOND


def day_of(text: str) -> Day:
    """`text`: YYYY-MM-DD. Raises ValueError with one sentence."""
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.isoformat() != text or found == date.max:
        raise ValueError(f"{text!r} is no day; write it as 2026-11-29, in UTC")
    start = datetime(found.year, found.month, found.day, tzinfo=UTC)
    return Day(text, start, start + timedelta(days=1))


def check_day(day: Day, definition: TableDefinition, offsets: TableOffsets | None, now_ms: int) -> TableOffsets:
    """The offsets up to which the day is built again. Raises TableMismatch: it cannot be."""
    if definition.index is None:
        raise TableMismatch(f"{definition.name} is a table without keys; only a day of an index is built again")
    if offsets is None:
        raise TableMismatch(f"index {definition.name} has nothing yet; start its job without --rebuild-day")
    kept_ms = definition.index.retention_ms
    if kept_ms is not None and day.end_ms <= now_ms - kept_ms:
        raise TableMismatch(
            f"index {definition.name} keeps no rows of {day.text} any more: its retention is {kept_ms} ms"
        )
    return offsets


def is_by_record_time(definition: TableDefinition) -> bool:
    """Whether a record's own timestamp decides about its day: then the log's index of times says where the day begins."""
    return definition.index is not None and definition.index.time_column == TIMESTAMP_COLUMN


def ranges_to_read(
    offsets: TableOffsets, log_starts: Mapping[int, int], day_starts: Mapping[int, int | None] | None
) -> dict[int, tuple[int, int]]:
    """The offsets of each partition that may have records of the day and are in the table; without empty ranges.

    `day_starts`: the first offset whose timestamp is not before the day, None if there is none; without it all of the log is read.
    """
    ranges = {}
    for partition, end in offsets.next_offsets.items():
        start = log_starts.get(partition, end)
        if day_starts is not None:
            first = day_starts.get(partition)
            start = end if first is None else max(start, first)
        if start < end:
            ranges[partition] = (start, end)
    return ranges


def offset_options(topic: str, ranges: Mapping[int, tuple[int, int]]) -> dict[str, str]:
    """The options of Spark's connector, and of ours, for these ranges; at least one."""
    return {
        "assign": json.dumps({topic: sorted(ranges)}),
        "startingOffsets": json.dumps({topic: {str(number): start for number, (start, _) in sorted(ranges.items())}}),
        "endingOffsets": json.dumps({topic: {str(number): end for number, (_, end) in sorted(ranges.items())}}),
    }
