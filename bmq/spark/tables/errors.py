"""Reasons why a job does not start, or stops: one sentence each, for users. Pure."""

from __future__ import annotations


class TableJobError(Exception):
    """The job stops. What it wrote is consistent, and the job can be started again."""


class ChangeNeeded(TableJobError):
    """Starting the same command again would fail again: the user has to change something first."""


class TableTaken(ChangeNeeded):
    """Another job writes to this table."""


class TableMismatch(ChangeNeeded):
    """Table, checkpoint, topic and definition do not match."""


class RecordsRefused(ChangeNeeded):
    """Some records do not fit, and the definition makes them stop the job."""


class RecordsLost(ChangeNeeded):
    """Records were deleted before they were read, and the source's options make that stop the job."""


class CommitConflict(TableJobError):
    """The table was changed between our read and our commit; the batch is retried."""
