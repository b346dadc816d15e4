"""How a table's job ended, for what may start it again. Pure."""

from __future__ import annotations

from enum import StrEnum

from bmq.protocol.errors import BmqError
from bmq.spark.tables.errors import ChangeNeeded, TableTaken


class Ending(StrEnum):
    """STOPPED: it was asked to, or had everything. FAILED: the same job may succeed later. REFUSED: something has to be
    changed first. TAKEN: another job writes the table, and reports for it.
    """

    STOPPED = "stopped"
    FAILED = "failed"
    REFUSED = "refused"
    TAKEN = "taken"


def ending_of(failure: Exception | None) -> Ending:
    """`failure`: what ended the job; None if it was stopped."""
    if failure is None:
        return Ending.STOPPED
    if isinstance(failure, TableTaken):
        return Ending.TAKEN
    return Ending.REFUSED if isinstance(failure, ChangeNeeded | BmqError) else Ending.FAILED
