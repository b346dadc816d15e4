"""A table's progress: its job's last report, compared with the topic's ends. Decisions only.

The authoritative state is in the table itself, in the summary of its newest snapshot. This is a copy for people, in the
active controller's memory: another controller has none until the job reports again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError
from bmq.table_definitions.stored import StoredTable

TABLES_MAX: Final = 1_000
"""Limit on tables, and on the reports kept."""
REPORT_EVERY_S: Final = 30.0
"""A running job reports at least so often, whether it has written or not."""
SILENT_AFTER_MS: Final = 100_000
"""Three reports that did not come."""


class ReportRefused(BmqError):
    """The report is about another table or topic than the present ones of those names."""


class JobState(StrEnum):
    """What the job, or the process that starts it, says of it."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """A job's report. `offsets`: the next one to be written, by partition; `end_offsets`: the topic's ends as the job
    saw them.

    The numbers are totals of the table, `snapshot_id` is its newest snapshot; None: not reported. `error`: why it
    failed, in one sentence.
    """

    table_id: UUID
    topic_id: UUID
    state: JobState
    offsets: Mapping[int, int]
    end_offsets: Mapping[int, int] = field(default_factory=dict)
    committed_at_ms: int | None = None
    snapshot_id: int | None = None
    rows: int | None = None
    dead_letter_rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """`offset`: None if the job has not written yet. `end_offset` is never below it."""

    partition: int
    offset: int | None
    end_offset: int

    @property
    def lag(self) -> int:
        """Records that are not in the table yet."""
        return self.end_offset - (self.offset or 0)


class Reports:
    """The newest report of each table, with its arrival time."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[int, Progress]] = {}

    def take(self, table: StoredTable, report: Progress, now_ms: int) -> None:
        """Keep it in place of the earlier one. Raises ReportRefused."""
        name = table.definition.name
        if report.table_id != table.table_id:
            raise ReportRefused(
                f"this job writes another table {name} than the one of now, which was made since: stop it, and start it "
                "with a new checkpoint"
            )
        if report.topic_id != table.topic_id:
            raise ReportRefused(
                f"this job reads another topic {table.definition.topic} than the one that table {name} was made of: stop it"
            )
        known = self.of(table)
        if known is not None and not report.offsets:
            # A job that has written nothing yet, or ended before it could: what is known of the table still holds.
            report = replace(known[1], state=report.state, error=report.error)
        self._newest[name] = (now_ms, report)

    def of(self, table: StoredTable) -> tuple[int, Progress] | None:
        """The newest report and its arrival time."""
        known = self._newest.get(table.definition.name)
        return known if known is not None and known[1].table_id == table.table_id else None

    def keep(self, names: Mapping[str, object]) -> None:
        """Forget deleted tables."""
        for name in self._newest.keys() - names.keys():
            del self._newest[name]


def silent_s(report: Progress | None, reported_at_ms: int | None, now_ms: int) -> int | None:
    """For how long a job that said it starts or runs has not reported; None: it reports, has ended, or there is none."""
    if report is None or reported_at_ms is None or report.state not in (JobState.STARTING, JobState.RUNNING):
        return None
    age_ms = now_ms - reported_at_ms
    return age_ms // 1_000 if age_ms > SILENT_AFTER_MS else None


def lags(end_offsets: Sequence[int], report: Progress | None) -> tuple[PartitionLag, ...]:
    """By partition. `end_offsets` are those known here, which may be older than what the job saw."""
    offsets, seen = ({}, {}) if report is None else (report.offsets, report.end_offsets)
    return tuple(
        PartitionLag(
            partition, offsets.get(partition), max(end_offset, seen.get(partition, 0), offsets.get(partition, 0))
        )
        for partition, end_offset in enumerate(end_offsets)
    )
