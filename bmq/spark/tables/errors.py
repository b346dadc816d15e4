"""Reasons why a job does not start, or stops: one sentence each, for users."""

from __future__ import annotations


class TableJobError(Exception):
    """The job stops. What it wrote stays consistent, and the job can be started again."""


class TableTaken(TableJobError):
    """Another job writes to this table."""


class TableMismatch(TableJobError):
    """Table, checkpoint, topic and definition do not match."""


class RecordsRefused(TableJobError):
    """There are records that do not fit, and the definition makes them stop the job."""


class CommitConflict(TableJobError):
    """The table was changed between our read and our commit; the batch is retried."""
