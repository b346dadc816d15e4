"""Keeps the tables of a cluster running until a signal: asks the cluster for its tables, and carries decisions out.

One thread decides (`run`). Threads of jobs, of the listing and of the reports only put events into its queue, or take from
theirs, so that neither a slow cluster nor a job delays the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from bmq.spark.supervisor.cluster_tables import ClusterSilent, Listing, ReportUnwanted
from bmq.spark.supervisor.effects import Effect, Kill, Say, Start, Stop, WantedTable
from bmq.spark.supervisor.table_jobs import TableJobs
from bmq.spark.tables.ending import Ending

TICK_S: Final = 0.5
REPORTS_WAIT_S: Final = 10.0
"""At the end the last states are reported for so long at most."""


class RunningJob(Protocol):
    def stop(self) -> None:
        """Ask it to stop between two commits. Returns at once."""

    def kill(self) -> None:
        """End it at once."""


class JobEvents(Protocol):
    """What a job tells, from any thread."""

    def alive(self) -> None: ...

    def ended(self, ending: Ending, error: str | None) -> None:
        """The last one: nothing of the job is left."""


StartJob = Callable[[WantedTable, JobEvents], RunningJob]
"""Raises OSError."""


class Cluster(Protocol):
    def listing(self) -> Listing:
        """Raises ClusterSilent."""

    def report(self, said: Say) -> None:
        """Raises ClusterSilent, ReportUnwanted."""


class Show(Protocol):
    """What people see."""

    def state(self, said: Say) -> None: ...

    def trouble(self, sentence: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Listed:
    listing: Listing


@dataclass(frozen=True, slots=True)
class _Silent:
    sentence: str


@dataclass(frozen=True, slots=True)
class _Alive:
    name: str
    run: int


@dataclass(frozen=True, slots=True)
class _Ended:
    name: str
    run: int
    ending: Ending
    error: str | None


@dataclass(frozen=True, slots=True)
class _Asked:
    """To stop."""


_Event = _Listed | _Silent | _Alive | _Ended | _Asked


@dataclass(slots=True)
class _Reports:
    """The newest state of each table that the cluster has not been told."""

    cluster: Cluster
    trouble: Callable[[str], object]
    waiting: dict[str, Say] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)
    is_closed: bool = False
    is_silent: bool = False

    def put(self, said: Say) -> None:
        with self.changed:
            self.waiting.pop(said.table.name, None)
            self.waiting[said.table.name] = said
            self.changed.notify()

    def close(self) -> None:
        with self.changed:
            self.is_closed = True
            self.changed.notify()

    def run(self) -> None:
        while (said := self._next()) is not None:
            try:
                self.cluster.report(said)
                self.is_silent = False
            except ReportUnwanted:
                pass  # the next listing tells
            except ClusterSilent as error:
                if not self.is_silent:
                    self.trouble(str(error))
                self.is_silent = True

    def _next(self) -> Say | None:
        with self.changed:
            while not self.waiting:
                if self.is_closed:
                    return None
                self.changed.wait()
            return self.waiting.pop(next(iter(self.waiting)))


class TableSupervisor:
    """`run` returns after `ask_to_stop`, when all jobs have ended.

    `listing_cluster`, `reporting_cluster`: the same cluster for two threads. `now_s`: a clock that does not go back.
    """

    def __init__(
        self,
        jobs: TableJobs,
        start_job: StartJob,
        listing_cluster: Cluster,
        reporting_cluster: Cluster,
        show: Show,
        now_s: Callable[[], float],
        look_s: float,
    ) -> None:
        self._jobs = jobs
        self._start_job = start_job
        self._cluster = listing_cluster
        self._show = show
        self._now_s = now_s
        self._look_s = look_s
        self._events: SimpleQueue[_Event] = SimpleQueue()
        self._running: dict[tuple[str, int], RunningJob] = {}
        self._reports = _Reports(reporting_cluster, show.trouble)
        self._has_ended = threading.Event()
        self._is_stopping = False
        self._is_silent = False
        self._unreadable: Mapping[str, str] = {}

    def ask_to_stop(self) -> None:
        """From a signal handler or any thread. The second time jobs that live are killed."""
        self._events.put(_Asked())

    def run(self) -> None:
        reporter = threading.Thread(target=self._reports.run, name="bmq-table-reports", daemon=True)
        looker = threading.Thread(target=self._look, name="bmq-table-listing", daemon=True)
        reporter.start()
        looker.start()
        try:
            while not (self._is_stopping and not self._running and not self._jobs.has_jobs):
                self._turn()
        finally:
            self._has_ended.set()
            for job in self._running.values():  # only when this thread failed
                job.kill()
            self._reports.close()
            reporter.join(REPORTS_WAIT_S)
            looker.join(REPORTS_WAIT_S)

    def _turn(self) -> None:
        try:
            event = self._events.get(timeout=TICK_S)
        except Empty:
            self._perform(self._jobs.tick(self._now_s()))
            return
        self._perform(self._effects_of(event))
        self._perform(self._jobs.tick(self._now_s()))

    def _effects_of(self, event: _Event) -> list[Effect]:
        now_s = self._now_s()
        match event:
            case _Listed(listing):
                self._is_silent = False
                self._tell_unreadable(listing.unreadable)
                return self._jobs.listed(listing.tables, now_s, listing.unreadable)
            case _Silent(sentence):
                if not self._is_silent:
                    self._show.trouble(sentence)
                self._is_silent = True
                return []
            case _Alive(name, run):
                return self._jobs.alive(name, run, now_s)
            case _Ended(name, run, ending, error):
                self._running.pop((name, run), None)
                return self._jobs.ended(name, run, ending, error, now_s)
            case _Asked():
                self._is_stopping = True
                return self._jobs.stop(now_s)

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Start(table, run):
                    self._start(table, run)
                case Stop(name, run):
                    if (job := self._running.get((name, run))) is not None:
                        job.stop()
                case Kill(name, run):
                    if (job := self._running.get((name, run))) is not None:
                        job.kill()
                case Say():
                    if not effect.is_repeat:
                        self._show.state(effect)
                    self._reports.put(effect)

    def _start(self, table: WantedTable, run: int) -> None:
        try:
            self._running[table.name, run] = self._start_job(table, _Events(self._events, table.name, run))
        except OSError as error:
            sentence = f"the job cannot be started: {error.strerror or error}"
            self._events.put(_Ended(table.name, run, Ending.FAILED, sentence))

    def _tell_unreadable(self, unreadable: Mapping[str, str]) -> None:
        for name, why in unreadable.items():
            if name not in self._unreadable:
                self._show.trouble(f"table {name} gets no job: {why}")
        self._unreadable = unreadable

    def _look(self) -> None:
        while True:
            try:
                self._events.put(_Listed(self._cluster.listing()))
            except ClusterSilent as error:
                self._events.put(_Silent(str(error)))
            if self._has_ended.wait(self._look_s):
                return


@dataclass(frozen=True, slots=True)
class _Events:
    queue: SimpleQueue[_Event]
    name: str
    run: int

    def alive(self) -> None:
        self.queue.put(_Alive(self.name, self.run))

    def ended(self, ending: Ending, error: str | None) -> None:
        self.queue.put(_Ended(self.name, self.run, ending, error))
