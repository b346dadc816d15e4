"""Why a job does not start, or stops: one sentence each, fit to be shown as it is."""

from __future__ import annotations


class TableJobError(Exception):
    """The job stops here. What was written stays whole, and the job can be started again."""


class TableTaken(TableJobError):
    """Another job writes this table."""


class TableMismatch(TableJobError):
    """Table, checkpoint, topic and definition do not belong together."""


class RecordsRefused(TableJobError):
    """There are records that do not fit, and the definition says that they stop the job."""


class CommitConflict(TableJobError):
    """Somebody else changed the table between our look at it and our commit; the batch is tried again."""
