"""The supervisor carries decisions out: with a cluster that is away, jobs that fail to start, and a stop in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from bmq.spark.supervisor.cluster_tables import ClusterSilent, Listing, ReportUnwanted
from bmq.spark.supervisor.effects import Say, TableState, WantedTable
from bmq.spark.supervisor.table_jobs import Limits, TableJobs
from bmq.spark.supervisor.table_supervisor import JobEvents, TableSupervisor
from bmq.spark.tables.ending import Ending

pytestmark = pytest.mark.unit

WAIT_S = 60.0
A, B = WantedTable("a", "id-a", "topic-a", 1), WantedTable("b", "id-b", "topic-b", 1)


class World:
    """A cluster, jobs that a test ends, and what was said; every change wakes `until`."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.tables: dict[str, WantedTable] = {"a": A}
        self.unreadable: dict[str, str] = {}
        self.is_away = False
        self.fails_to_start = False
        self.unwanted = False
        self.jobs: dict[str, FakeJob] = {}
        self.said: list[tuple[str, TableState, str | None]] = []
        self.told: list[tuple[str, TableState]] = []
        self.troubles: list[str] = []

    def listing(self) -> Listing:
        if self.is_away:
            raise ClusterSilent("the cluster is away")
        return Listing(dict(self.tables), dict(self.unreadable))

    def report(self, said: Say) -> None:
        with self.changed:
            self.told.append((said.table.name, said.state))
            self.changed.notify_all()
        if self.is_away:
            raise ClusterSilent("the cluster is away")
        if self.unwanted:
            raise ReportUnwanted

    def state(self, said: Say) -> None:
        with self.changed:
            self.said.append((said.table.name, said.state, said.error))
            self.changed.notify_all()

    def trouble(self, sentence: str) -> None:
        with self.changed:
            self.troubles.append(sentence)
            self.changed.notify_all()

    def start(self, table: WantedTable, events: JobEvents) -> FakeJob:
        if self.fails_to_start:
            raise FileNotFoundError(2, "No such file or directory")
        job = FakeJob(self, events)
        with self.changed:
            self.jobs[table.name] = job
            self.changed.notify_all()
        return job

    def until(self, is_so: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(is_so, WAIT_S), (self.said, self.told, self.troubles)

    def until_said(self, name: str, state: TableState, error: str | None = None) -> None:
        self.until(lambda: (name, state, error) in self.said)

    def until_told(self, name: str, state: TableState) -> None:
        self.until(lambda: (name, state) in self.told)


class FakeJob:
    """Ends when it is asked to, unless it hangs."""

    def __init__(self, world: World, events: JobEvents) -> None:
        self.world = world
        self.events = events
        self.hangs = False
        self.asked: list[str] = []

    def stop(self) -> None:
        self._ask("stop")
        if not self.hangs:
            self.events.ended(Ending.STOPPED, None)

    def kill(self) -> None:
        self._ask("kill")
        self.events.ended(Ending.FAILED, "the job was killed by SIGKILL")

    def _ask(self, what: str) -> None:
        with self.world.changed:
            self.asked.append(what)
            self.world.changed.notify_all()


@contextmanager
def supervised(world: World) -> Iterator[TableSupervisor]:
    jobs = TableJobs(Limits(restart_first_s=0.01))
    supervisor = TableSupervisor(jobs, world.start, world, world, world, time.monotonic, look_s=0.01)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        yield supervisor
    finally:
        supervisor.ask_to_stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()
        left = {each.name for each in threading.enumerate() if each.name.startswith("bmq-table-")}
        assert not left, left


def test_a_table_is_kept_told_and_stopped() -> None:
    world = World()
    with supervised(world):
        world.until(lambda: "a" in world.jobs)
        world.jobs["a"].events.alive()
        world.until_told("a", TableState.RUNNING)
        first = world.jobs["a"]
        first.events.ended(Ending.FAILED, "HDFS is away")
        world.until_said("a", TableState.FAILED, "HDFS is away")
        world.until(lambda: world.jobs["a"] is not first)
        world.tables = {"a": A, "b": B}
        world.until(lambda: "b" in world.jobs)
        world.tables = {"b": B}
        world.until_said("a", TableState.DROPPED)
    assert world.said[-1] == ("b", TableState.STOPPED, None)
    assert world.told[-1] == ("b", TableState.STOPPED), "the last states are reported before it ends"
    assert world.jobs["a"].asked == world.jobs["b"].asked == ["stop"]


def test_a_cluster_that_is_away_is_said_once_and_stops_nothing() -> None:
    world = World()
    with supervised(world):
        world.until(lambda: "a" in world.jobs)
        world.is_away = True
        world.jobs["a"].events.alive()
        world.until_said("a", TableState.RUNNING)
        world.until(lambda: bool(world.troubles))
        world.is_away = False
        world.tables["b"] = B
        world.until(lambda: "b" in world.jobs)
        assert world.jobs["a"].asked == []
        assert 1 <= len(world.troubles) <= 2 and set(world.troubles) == {"the cluster is away"}


def test_a_job_that_cannot_be_started_is_tried_again() -> None:
    world = World()
    world.fails_to_start = world.unwanted = True
    with supervised(world):
        world.until_said("a", TableState.FAILED, "the job cannot be started: No such file or directory")
        world.fails_to_start = False
        world.until(lambda: "a" in world.jobs)


def test_a_table_that_cannot_be_read_is_named_once() -> None:
    world = World()
    world.unreadable = {"c": "a later release wrote it"}
    with supervised(world):
        world.until(lambda: "a" in world.jobs)
        world.tables["b"] = B
        world.until(lambda: "b" in world.jobs)
    assert world.troubles == ["table c gets no job: a later release wrote it"]


def test_asked_twice_it_kills_what_hangs() -> None:
    world = World()
    with supervised(world) as supervisor:
        world.until(lambda: "a" in world.jobs)
        job = world.jobs["a"]
        job.hangs = True
        supervisor.ask_to_stop()
        world.until(lambda: job.asked == ["stop"])
        supervisor.ask_to_stop()
        world.until(lambda: job.asked == ["stop", "kill"])
    assert world.said[-1] == ("a", TableState.STOPPED, None)
