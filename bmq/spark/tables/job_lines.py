"""What a job says on its standard output: lines for people, JSON for programs, and the states that a supervisor reads. Pure.

A line of a batch is JSON and begins with the table's name; a line of a state begins with `state`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bmq.spark.tables.ending import Ending
from bmq.spark.tables.progress import TableProgress

ERROR_CHARACTERS_MAX: Final = 1_000
_RUNNING: Final = "running"


class OutputForm(StrEnum):
    """JSON: a line for each batch. STATES: that, and the states. TEXT: the same for people."""

    JSON = "json"
    STATES = "states"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class StateLine:
    """`ending`: None while the job runs."""

    ending: Ending | None
    error: str | None = None


def batch_line(form: OutputForm, progress: TableProgress) -> str:
    if form is not OutputForm.TEXT:
        return progress.to_json()
    dead = f", {progress.dead_letters} dead letters" if progress.dead_letters else ""
    deleted = f", {progress.deletions} keys deleted" if progress.deletions else ""
    written = "nothing new" if progress.is_replay else f"{progress.rows} rows{deleted}{dead}"
    return (
        f"{progress.table}: batch {progress.batch}: {written} in {progress.duration_ms / 1_000:.1f} s; "
        f"{progress.table_rows} rows in all, {progress.lag} records behind"
    )


def running_line(form: OutputForm, table: str, *, is_first: bool) -> str | None:
    """None: this form does not say it. `is_first`: the job has just begun to run."""
    if form is OutputForm.STATES:
        return json.dumps({"state": _RUNNING, "table": table})
    return f"{table}: running" if form is OutputForm.TEXT and is_first else None


def ended_line(form: OutputForm, table: str, ending: Ending, error: str | None) -> str | None:
    """None: this form does not say it; an error is on standard error anyway."""
    if form is OutputForm.STATES:
        short = None if error is None else error[:ERROR_CHARACTERS_MAX]
        return json.dumps({"state": ending.value, "table": table, "error": short})
    return f"{table}: stopped" if form is OutputForm.TEXT and ending is Ending.STOPPED else None


def state_of_line(line: str) -> StateLine | None:
    """What a job's line says of its state; None for every other line."""
    if not line.startswith('{"state"'):
        return None
    try:
        form = json.loads(line)
        state, error = form["state"], form.get("error")
        ending = None if state == _RUNNING else Ending(state)
    except (ValueError, KeyError, AttributeError, RecursionError):
        return None
    return StateLine(ending, error[:ERROR_CHARACTERS_MAX] if isinstance(error, str) else None)
