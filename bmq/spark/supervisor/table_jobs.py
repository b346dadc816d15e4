"""Which table gets a job, when a job that ended is started again, and when one that hangs is killed. Decisions only.

A table has one job at most. Times are seconds of any clock that does not go back; the caller hands them in, and carries
out the effects in the order in which they are returned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bmq.spark.supervisor.effects import Effect, Kill, Say, Start, Stop, TableState, WantedTable
from bmq.spark.tables.ending import Ending

OWN_PAUSE_S_MAX: Final = 20.0
"""After a longer pause of ours the silence of jobs proves nothing: the machine may have stood still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`starts_max`: so many jobs start at a time. `restart_first_s`, `restart_max_s`: pauses after failures, doubling.

    `steady_s`: a job that ran this long begins with the first pause again. `refused_s`: pause of a job that said that
    something has to be changed first; a change of the table's definition ends it. `start_max_s`, `silent_max_s`,
    `stop_max_s`: a job that takes longer to start, gives no sign of life or does not stop is killed. `repeat_s`: the state of
    a table whose job does not report itself is said again.
    """

    starts_max: int = 2
    restart_first_s: float = 1.0
    restart_max_s: float = 60.0
    steady_s: float = 120.0
    refused_s: float = 300.0
    start_max_s: float = 300.0
    silent_max_s: float = 150.0
    stop_max_s: float = 60.0
    repeat_s: float = 30.0


class _Phase(Enum):
    QUEUED = 1
    """Waits for its turn to start."""
    STARTING = 2
    RUNNING = 3
    STOPPING = 4
    WAITING = 5
    """Ended, and is started again later."""


_ALIVE: Final = frozenset({_Phase.STARTING, _Phase.RUNNING, _Phase.STOPPING})


@dataclass(slots=True)
class _Job:
    table: WantedTable
    phase: _Phase
    since_s: float
    """The start of the phase."""
    heard_s: float = 0.0
    said_s: float = 0.0
    due_s: float = 0.0
    run: int = 0
    failures: int = 0
    ran_s: float | None = None
    """When its present job began to run; None before."""
    error: str | None = None
    state: TableState = TableState.STARTING
    killed_because: str | None = None
    is_dropped: bool = False
    needs_change: bool = False


class TableJobs:
    """The jobs of all tables. `stop` is final: no job is started after it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._jobs: dict[str, _Job] = {}
        self._run = 0
        self._is_stopping = False
        self._looked_s: float | None = None

    @property
    def has_jobs(self) -> bool:
        """Whether a job lives."""
        return any(job.phase in _ALIVE for job in self._jobs.values())

    def listed(self, wanted: Mapping[str, WantedTable], now_s: float, unreadable: Collection[str] = ()) -> list[Effect]:
        """The cluster has these tables now. `unreadable`: and these, whose definitions the node that was asked cannot read."""
        if self._is_stopping:
            return []
        effects: list[Effect] = []
        there = {*wanted, *unreadable}
        for name in [name for name, job in self._jobs.items() if name not in there and not job.is_dropped]:
            effects += self._dropped(self._jobs[name], now_s)
        for name, table in wanted.items():
            job = self._jobs.get(name)
            if job is None:
                job = self._jobs[name] = _Job(table, _Phase.QUEUED, now_s)
                effects.append(self._say(job, TableState.STARTING, now_s))
            elif job.table != table or job.is_dropped:
                effects += self._changed(job, table, now_s)
        return effects + self._start_queued(now_s)

    def alive(self, name: str, run: int, now_s: float) -> list[Effect]:
        """The job says that it runs."""
        job = self._jobs.get(name)
        if job is None or job.run != run or job.phase not in _ALIVE:
            return []
        job.heard_s = now_s
        if job.phase is not _Phase.STARTING:
            return []
        self._enter(job, _Phase.RUNNING, now_s)
        job.ran_s = now_s
        return [self._say(job, TableState.RUNNING, now_s), *self._start_queued(now_s)]

    def ended(self, name: str, run: int, ending: Ending, error: str | None, now_s: float) -> list[Effect]:
        """The job and all its processes are gone. `error`: why, in one sentence, unless it was stopped."""
        job = self._jobs.get(name)
        if job is None or job.run != run or job.phase not in _ALIVE:
            return []
        was_asked = job.phase is _Phase.STOPPING
        job.error = job.killed_because or error
        job.killed_because = None
        if job.is_dropped:
            del self._jobs[name]
            said: Effect = self._say(job, TableState.DROPPED, now_s)
        elif self._is_stopping:
            del self._jobs[name]
            said = self._say(job, TableState.TAKEN if ending is Ending.TAKEN else TableState.STOPPED, now_s)
        elif was_asked:  # for the table that was made in place of the one before
            self._enter(job, _Phase.QUEUED, now_s)
            job.error = None
            said = self._say(job, TableState.STARTING, now_s)
        else:
            said = self._failed(job, ending, now_s)
        return [said, *self._start_queued(now_s)]

    def tick(self, now_s: float) -> list[Effect]:
        """Call it often: time has passed."""
        if self._looked_s is not None and now_s - self._looked_s > OWN_PAUSE_S_MAX:
            self._trust_all(now_s)
        self._looked_s = now_s
        effects: list[Effect] = []
        for job in self._jobs.values():
            if job.phase in _ALIVE:
                effects += self._check_alive(job, now_s)
            elif job.phase is _Phase.WAITING and now_s >= job.due_s:
                self._enter(job, _Phase.QUEUED, now_s)
                effects.append(self._say(job, TableState.STARTING, now_s))
            if job.phase is not _Phase.RUNNING and now_s - job.said_s >= self._limits.repeat_s:
                effects.append(self._say(job, job.state, now_s, is_repeat=True))
        return effects + self._start_queued(now_s)

    def stop(self, now_s: float) -> list[Effect]:
        """Stop all jobs. Called again it kills those that live."""
        effects: list[Effect] = []
        if self._is_stopping:
            return [Kill(job.table.name, job.run) for job in self._jobs.values() if job.phase in _ALIVE]
        self._is_stopping = True
        for name, job in list(self._jobs.items()):
            if job.phase in _ALIVE:
                effects += self._stop(job, now_s)
            else:
                del self._jobs[name]
                is_failed = job.phase is _Phase.WAITING
                effects.append(self._say(job, job.state if is_failed else TableState.STOPPED, now_s))
        return effects

    # --- one job

    def _dropped(self, job: _Job, now_s: float) -> list[Effect]:
        job.is_dropped = True
        if job.phase in _ALIVE:
            return self._stop(job, now_s)
        del self._jobs[job.table.name]
        return [self._say(job, TableState.DROPPED, now_s)]

    def _changed(self, job: _Job, table: WantedTable, now_s: float) -> list[Effect]:
        is_other = job.is_dropped or table.table_id != job.table.table_id
        job.table, job.is_dropped = table, False
        if job.phase is _Phase.WAITING and (is_other or job.needs_change):
            job.failures = 0
            self._enter(job, _Phase.QUEUED, now_s)
            return [self._say(job, TableState.STARTING, now_s)]
        # A job that runs reads an altered definition itself; one of a table that was made again has to begin anew.
        return self._stop(job, now_s) if is_other and job.phase in _ALIVE else []

    def _stop(self, job: _Job, now_s: float) -> list[Effect]:
        if job.phase is _Phase.STOPPING:
            return []
        self._enter(job, _Phase.STOPPING, now_s)
        return [Stop(job.table.name, job.run)]

    def _failed(self, job: _Job, ending: Ending, now_s: float) -> Effect:
        limits = self._limits
        if job.ran_s is not None and now_s - job.ran_s >= limits.steady_s:
            job.failures = 0
        job.needs_change = ending in (Ending.REFUSED, Ending.TAKEN)
        if job.needs_change:
            pause_s = limits.refused_s
        else:
            pause_s = min(limits.restart_max_s, limits.restart_first_s * 2.0 ** min(job.failures, 30))
            job.failures += 1
        if job.error is None:
            job.error = "the job was stopped, but not by its supervisor"
        self._enter(job, _Phase.WAITING, now_s)
        job.due_s = now_s + pause_s
        return self._say(job, TableState.TAKEN if ending is Ending.TAKEN else TableState.FAILED, now_s)

    def _check_alive(self, job: _Job, now_s: float) -> list[Effect]:
        limits, in_phase_s = self._limits, now_s - job.since_s
        if job.killed_because is not None and in_phase_s < limits.stop_max_s:
            return []
        if job.phase is _Phase.STARTING and in_phase_s > limits.start_max_s:
            why = f"the job did not start within {limits.start_max_s:g} s"
        elif job.phase is _Phase.RUNNING and now_s - job.heard_s > limits.silent_max_s:
            why = f"the job gave no sign of life for {limits.silent_max_s:g} s"
        elif job.phase is _Phase.STOPPING and in_phase_s > limits.stop_max_s:
            why = f"the job did not stop within {limits.stop_max_s:g} s"
        else:
            return []
        job.killed_because = why
        job.since_s = now_s  # dying may take a while
        return [Kill(job.table.name, job.run)]

    # --- all of them

    def _start_queued(self, now_s: float) -> list[Effect]:
        if self._is_stopping:
            return []
        free = self._limits.starts_max - sum(job.phase is _Phase.STARTING for job in self._jobs.values())
        queued = [job for job in self._jobs.values() if job.phase is _Phase.QUEUED]
        queued.sort(key=lambda job: job.since_s)
        effects: list[Effect] = []
        for job in queued[: max(0, free)]:
            self._run += 1
            job.run = self._run
            job.ran_s = None
            self._enter(job, _Phase.STARTING, now_s)
            effects.append(Start(job.table, job.run))
        return effects

    def _trust_all(self, now_s: float) -> None:
        for job in self._jobs.values():
            if job.phase in _ALIVE:
                job.heard_s = job.since_s = now_s

    def _enter(self, job: _Job, phase: _Phase, now_s: float) -> None:
        job.phase, job.since_s, job.heard_s = phase, now_s, now_s

    def _say(self, job: _Job, state: TableState, now_s: float, *, is_repeat: bool = False) -> Say:
        job.state, job.said_s = state, now_s
        has_error = state in (TableState.FAILED, TableState.TAKEN)
        is_due = has_error and job.phase is _Phase.WAITING and not self._is_stopping
        return Say(
            job.table,
            state,
            job.error if has_error else None,
            max(0.0, job.due_s - now_s) if is_due else None,
            is_repeat,
        )
