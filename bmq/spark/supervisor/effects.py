"""What a supervisor of table jobs does, and what it says of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class WantedTable:
    """A table that the cluster has. `table_id` differs when it was dropped and made again; `version` counts its changes."""

    name: str
    table_id: str
    topic_id: str
    version: int


class TableState(StrEnum):
    """What a supervisor says of a table. TAKEN: another job writes it. DROPPED: the cluster has it no more."""

    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"
    STOPPED = "stopped"
    TAKEN = "taken"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Start:
    """Start a job for the table. `run` numbers all jobs, and comes back with what that job says."""

    table: WantedTable
    run: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Ask the table's job to stop between two commits."""

    name: str
    run: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End the table's job at once, and all processes that it started."""

    name: str
    run: int


@dataclass(frozen=True, slots=True)
class Say:
    """The table's state. `again_in_s`: the next start. `is_repeat`: it was said before, and only the cluster needs it again."""

    table: WantedTable
    state: TableState
    error: str | None = None
    again_in_s: float | None = None
    is_repeat: bool = False


Effect = Start | Stop | Kill | Say
