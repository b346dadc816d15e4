"""Requests and answers of the table pages. Timestamps are RFC 3339, in UTC."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from bmq.admin.rest.parameters import NUMBER
from bmq.admin.rest.views import at_ms
from bmq.admin.tables import TableStatus
from bmq.controller.tables import TableChange
from bmq.table_definitions.definition import Format, TableDefinition
from bmq.table_definitions.progress import JobState, Progress
from bmq.table_definitions.stored import StoredTable

PARTITIONS_MAX: Final = 10_000
_Count = Annotated[int, Field(ge=0), NUMBER]


class TableView(BaseModel):
    """`table_id` is another one when the table was dropped and made anew. `version` counts the definition's changes."""

    table_id: UUID
    topic_id: UUID
    version: int
    created_at: datetime
    altered_at: datetime
    definition: TableDefinition


class TableLine(BaseModel):
    """`definition_error`: why this node cannot read the definition; what is in it, and the ids, are null then.

    `is_index`: it has keys, and `POST /v1/indexes/NAME/query` finds its records.
    """

    name: str
    table_id: UUID | None
    topic_id: UUID | None
    topic: str | None
    format: Format | None
    fields: int | None
    version: int | None
    altered_at: datetime | None
    definition_error: str | None
    is_index: bool = False


class TablePage(BaseModel):
    """`next_after`: what to ask for next as `after`; null on the last page."""

    tables: list[TableLine]
    next_after: str | None


class TableChangeView(BaseModel):
    """`summary` is one sentence, `changes` has one for each change. `table`: as it is now; null when dropped or with `dry_run`."""

    summary: str
    changes: list[str]
    table: TableView | None


class PartitionProgress(BaseModel):
    """`offset`: the next one that the job will write. `end_offset`: the end of the partition, if it has looked."""

    model_config = ConfigDict(extra="forbid")

    partition: Annotated[int, Field(ge=0, le=2**31 - 1), NUMBER]
    offset: _Count
    end_offset: _Count | None = None


class TableReport(BaseModel):
    """What a job says of its table. The numbers are of the whole table, the snapshot is its newest one; null: not told."""

    model_config = ConfigDict(extra="forbid")

    table_id: UUID
    topic_id: UUID
    state: JobState = JobState.RUNNING
    partitions: Annotated[list[PartitionProgress], Field(max_length=PARTITIONS_MAX)]
    committed_at: AwareDatetime | None = None
    snapshot_id: Annotated[int, NUMBER] | None = None
    rows: _Count | None = None
    dead_letter_rows: _Count | None = None
    files: _Count | None = None
    bytes: _Count | None = None
    error: Annotated[str, StringConstraints(max_length=1_000)] | None = None


class PartitionLagView(BaseModel):
    """`offset`: null where the job has written nothing. `lag`: records that are not in the table yet."""

    partition: int
    offset: int | None
    end_offset: int
    lag: int


class TableStatusView(BaseModel):
    """How far a table is: what its job said last to this controller, beside where the topic ends.

    Without a report (`reported_at` is null: no job runs, or it has not reported to this controller yet) all that
    the job would say is null. `state`: starting is said by what starts the job (`bmq spark tables`). `silent_s`: for so many
    seconds a job whose `state` is starting or running has not reported, which happens every 30 s; null while it does. `topic_exists`: whether the topic that the table was made of is still there. `lag`: of all
    partitions together.
    """

    name: str
    table_id: UUID
    topic: str
    topic_exists: bool
    version: int
    reported_at: datetime | None
    state: JobState | None
    silent_s: int | None
    error: str | None
    committed_at: datetime | None
    snapshot_id: int | None
    rows: int | None
    dead_letter_rows: int | None
    files: int | None
    bytes: int | None
    lag: int | None
    partitions: list[PartitionLagView]


def table_view(table: StoredTable) -> TableView:
    return TableView(
        table_id=table.table_id,
        topic_id=table.topic_id,
        version=table.version,
        created_at=at_ms(table.created_at_ms),
        altered_at=at_ms(table.altered_at_ms),
        definition=table.definition,
    )


def table_line(name: str, table: StoredTable) -> TableLine:
    definition = table.definition
    return TableLine(
        name=name,
        table_id=table.table_id,
        topic_id=table.topic_id,
        topic=definition.topic,
        format=definition.format,
        fields=len(definition.fields),
        version=table.version,
        altered_at=at_ms(table.altered_at_ms),
        definition_error=None,
        is_index=definition.index is not None,
    )


def unreadable_line(name: str, why: str) -> TableLine:
    return TableLine(
        name=name,
        table_id=None,
        topic_id=None,
        topic=None,
        format=None,
        fields=None,
        version=None,
        altered_at=None,
        definition_error=why,
    )


def change_view(change: TableChange, *, is_dry_run: bool) -> TableChangeView:
    return TableChangeView(
        summary=change.summary,
        changes=list(change.changes),
        table=None if is_dry_run else table_view(change.table),
    )


def progress_of(report: TableReport) -> Progress:
    committed_at = report.committed_at
    return Progress(
        table_id=report.table_id,
        topic_id=report.topic_id,
        state=report.state,
        offsets={each.partition: each.offset for each in report.partitions},
        end_offsets={each.partition: each.end_offset for each in report.partitions if each.end_offset is not None},
        committed_at_ms=None if committed_at is None else round(committed_at.timestamp() * 1000),
        snapshot_id=report.snapshot_id,
        rows=report.rows,
        dead_letter_rows=report.dead_letter_rows,
        files=report.files,
        bytes=report.bytes,
        error=report.error,
    )


def status_view(status: TableStatus) -> TableStatusView:
    report, definition = status.report, status.table.definition
    lags = [
        PartitionLagView(partition=each.partition, offset=each.offset, end_offset=each.end_offset, lag=each.lag)
        for each in status.lags
    ]
    return TableStatusView(
        name=definition.name,
        table_id=status.table.table_id,
        topic=definition.topic,
        topic_exists=status.has_topic,
        version=status.table.version,
        reported_at=None if status.reported_at_ms is None else at_ms(status.reported_at_ms),
        state=None if report is None else report.state,
        silent_s=status.silent_s,
        error=None if report is None else report.error,
        committed_at=None if report is None or report.committed_at_ms is None else at_ms(report.committed_at_ms),
        snapshot_id=None if report is None else report.snapshot_id,
        rows=None if report is None else report.rows,
        dead_letter_rows=None if report is None else report.dead_letter_rows,
        files=None if report is None else report.files,
        bytes=None if report is None else report.bytes,
        lag=None if report is None or not status.has_topic else sum(each.lag for each in lags),
        partitions=lags,
    )
