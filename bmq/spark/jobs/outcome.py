"""Exit codes of jobs, on which a scheduler can act. Pure."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from bmq.protocol.errors import BmqError


class ExitCode(IntEnum):
    """DONE, FAILED and BAD_USAGE as for every command; TRY_AGAIN is EX_TEMPFAIL of sysexits.h."""

    DONE = 0
    FAILED = 1
    BAD_USAGE = 2
    DAMAGE_FOUND = 3
    NOTHING_FOUND = 4
    TRY_AGAIN = 75
    INTERRUPTED = 130


class JobFailed(BmqError):
    """The same command would fail again: the user has to change something first."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED


class BrokenOff(JobFailed):
    """Completed work is kept; the same command continues from there once the cause has passed."""

    exit_code = ExitCode.TRY_AGAIN


class SparkGone(JobFailed):
    """The Spark session is dead: this process cannot continue, but a new one can."""

    exit_code = ExitCode.TRY_AGAIN
