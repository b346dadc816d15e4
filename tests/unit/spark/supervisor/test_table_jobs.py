"""The decisions about tables' jobs: one for each table, restarts with pauses, true states, and an end of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bmq.spark.supervisor.effects import Effect, Kill, Say, Start, Stop, TableState, WantedTable
from bmq.spark.supervisor.table_jobs import OWN_PAUSE_S_MAX, Limits, TableJobs
from bmq.spark.tables.ending import Ending

pytestmark = pytest.mark.unit

LIMITS = Limits(starts_max=2, restart_first_s=1, restart_max_s=8, steady_s=100, refused_s=300, repeat_s=30)
A, B, C = (WantedTable(name, f"id-{name}", f"topic-{name}", 1) for name in "abc")


def of(*tables: WantedTable) -> dict[str, WantedTable]:
    return {table.name: table for table in tables}


def said(effects: Sequence[Effect]) -> list[tuple[str, TableState, str | None, float | None]]:
    return [(e.table.name, e.state, e.error, e.again_in_s) for e in effects if isinstance(e, Say) and not e.is_repeat]


def orders(effects: Sequence[Effect]) -> list[Effect]:
    return [effect for effect in effects if not isinstance(effect, Say)]


def running(*tables: WantedTable, at_s: float = 0.0) -> TableJobs:
    jobs = TableJobs(LIMITS)
    jobs.listed(of(*tables), at_s)
    for run, table in enumerate(tables, 1):
        jobs.alive(table.name, run, at_s)
    return jobs


def test_a_table_is_started_and_runs() -> None:
    jobs = TableJobs(LIMITS)
    effects = jobs.listed(of(A), 0)
    assert effects == [Say(A, TableState.STARTING), Start(A, 1)]
    assert jobs.alive("a", 1, 5) == [Say(A, TableState.RUNNING)]
    assert jobs.alive("a", 1, 6) == [] == jobs.listed(of(A), 7)


def test_a_table_that_the_node_cannot_read_keeps_its_job() -> None:
    jobs = running(A, B)
    assert orders(jobs.listed(of(B), 1, unreadable={"a"})) == []
    assert orders(jobs.listed(of(B), 2)) != []


def test_so_many_start_at_a_time() -> None:
    jobs = TableJobs(LIMITS)
    assert orders(jobs.listed(of(A, B, C), 0)) == [Start(A, 1), Start(B, 2)]
    assert orders(jobs.alive("b", 2, 1)) == [Start(C, 3)]
    jobs = TableJobs(LIMITS)
    jobs.listed(of(A, B, C), 0)
    assert orders(jobs.ended("a", 1, Ending.FAILED, "no", 1)) == [Start(C, 3)]


def test_pauses_double_until_a_job_ran_for_long() -> None:
    jobs = running(A)
    now_s, run, pauses = 1.0, 1, []
    for _ in range(5):
        ((_, state, error, pause_s),) = said(jobs.ended("a", run, Ending.FAILED, "HDFS is away", now_s))
        assert (state, error) == (TableState.FAILED, "HDFS is away") and pause_s is not None
        pauses.append(pause_s)
        assert jobs.tick(now_s + pause_s - 0.1) == []
        now_s += pause_s
        run += 1
        assert jobs.tick(now_s) == [Say(A, TableState.STARTING), Start(A, run)]
    assert pauses == [1, 2, 4, 8, 8]
    jobs.alive("a", run, now_s)
    ((*_, pause_s),) = said(jobs.ended("a", run, Ending.FAILED, None, now_s + LIMITS.steady_s))
    assert pause_s == 1


def test_a_refused_job_waits_for_long_or_until_its_definition_changes() -> None:
    jobs = running(A)
    assert said(jobs.ended("a", 1, Ending.REFUSED, "drop it first", 10)) == [
        ("a", TableState.FAILED, "drop it first", 300)
    ]
    assert orders(jobs.listed(of(A), 11)) == []
    assert orders(jobs.listed(of(replace(A, version=2)), 12)) == [Start(replace(A, version=2), 2)]
    jobs.ended("a", 2, Ending.REFUSED, "drop it first", 20)
    assert orders(jobs.tick(319)) == []
    assert orders(jobs.tick(320)) == [Start(replace(A, version=2), 3)]


def test_a_failed_job_keeps_its_pause_when_the_definition_changes() -> None:
    jobs = running(A)
    jobs.ended("a", 1, Ending.FAILED, "HDFS is away", 10)
    assert orders(jobs.listed(of(replace(A, version=2)), 10.5)) == []
    assert orders(jobs.tick(11)) == [Start(replace(A, version=2), 2)]


def test_a_table_that_another_job_writes_is_that_jobs_to_tell() -> None:
    jobs = running(A)
    effects = jobs.ended("a", 1, Ending.TAKEN, "it was taken over", 10)
    assert said(effects) == [("a", TableState.TAKEN, "it was taken over", 300)]
    assert said(jobs.stop(20)) == [("a", TableState.TAKEN, "it was taken over", None)]


def test_a_job_that_somebody_else_stopped_is_started_again() -> None:
    jobs = running(A)
    ((_, state, error, _),) = said(jobs.ended("a", 1, Ending.STOPPED, None, 10))
    assert (state, error) == (TableState.FAILED, "the job was stopped, but not by its supervisor")
    assert orders(jobs.tick(11)) == [Start(A, 2)]


def test_a_dropped_table_loses_its_job() -> None:
    jobs = running(A, B)
    assert jobs.listed(of(B), 1) == [Stop("a", 1)]
    assert jobs.listed(of(B), 2) == []
    assert jobs.ended("a", 1, Ending.STOPPED, None, 3) == [Say(A, TableState.DROPPED)]
    jobs.ended("b", 2, Ending.FAILED, "no", 4)
    assert jobs.listed({}, 4.5) == [Say(B, TableState.DROPPED)]
    assert not jobs.has_jobs and jobs.tick(1_000) == []


def test_a_table_made_again_gets_a_job_of_its_own() -> None:
    jobs, again = running(A), replace(A, table_id="other")
    assert jobs.listed(of(again), 1) == [Stop("a", 1)]
    assert jobs.ended("a", 1, Ending.STOPPED, None, 2) == [Say(again, TableState.STARTING), Start(again, 2)]
    jobs = running(A)
    jobs.listed({}, 1)
    assert jobs.listed(of(again), 2) == []
    assert orders(jobs.ended("a", 1, Ending.STOPPED, None, 3)) == [Start(again, 2)]
    jobs.ended("a", 2, Ending.FAILED, "no", 4)
    assert orders(jobs.listed(of(A), 4.1)) == [Start(A, 3)], "its pause was that of another table"


def test_what_an_earlier_job_says_counts_no_more() -> None:
    jobs = running(A)
    jobs.ended("a", 1, Ending.FAILED, "no", 1)
    jobs.tick(2)
    assert jobs.alive("a", 1, 3) == [] == jobs.ended("a", 1, Ending.FAILED, "no", 3)
    assert jobs.alive("b", 1, 3) == [] == jobs.ended("b", 1, Ending.FAILED, "no", 3)


def ticked(jobs: TableJobs, from_s: float, to_s: float) -> list[Effect]:
    effects: list[Effect] = []
    while from_s < to_s:
        from_s = min(to_s, from_s + OWN_PAUSE_S_MAX / 2)
        effects += jobs.tick(from_s)
    return effects


def test_a_job_that_does_not_start_is_killed() -> None:
    jobs = TableJobs(LIMITS)
    jobs.listed(of(A), 0)
    assert orders(ticked(jobs, 0, LIMITS.start_max_s)) == []
    assert orders(ticked(jobs, LIMITS.start_max_s, LIMITS.start_max_s + 10)) == [Kill("a", 1)]
    ((_, state, error, _),) = said(jobs.ended("a", 1, Ending.FAILED, "the job was killed by SIGKILL", 311))
    assert (state, error) == (TableState.FAILED, "the job did not start within 300 s")


def test_a_silent_job_is_killed_but_not_after_a_pause_of_ours() -> None:
    jobs = running(A)
    jobs.tick(0)
    assert jobs.tick(LIMITS.silent_max_s * 2) == [], "the machine stood still"
    from_s = LIMITS.silent_max_s * 2
    assert orders(ticked(jobs, from_s, from_s + LIMITS.silent_max_s)) == []
    assert orders(ticked(jobs, from_s + LIMITS.silent_max_s, from_s + LIMITS.silent_max_s + 10)) == [Kill("a", 1)]
    ((*_, error, _),) = said(jobs.ended("a", 1, Ending.FAILED, None, 460))
    assert error == "the job gave no sign of life for 150 s"


def test_the_state_of_a_table_without_a_running_job_is_said_again() -> None:
    jobs = running(A, B)
    jobs.ended("a", 1, Ending.REFUSED, "drop it first", 10)
    effects = ticked(jobs, 10, 40)
    assert effects == [Say(A, TableState.FAILED, "drop it first", 270, is_repeat=True)]


def test_all_are_stopped_and_none_is_started() -> None:
    jobs = running(A, B)
    jobs.listed(of(A, B, C), 1)
    jobs.ended("b", 2, Ending.FAILED, "HDFS is away", 2)
    assert jobs.stop(3) == [
        Stop("a", 1),
        Say(B, TableState.FAILED, "HDFS is away"),
        Stop("c", 3),
    ]
    assert jobs.listed(of(A, B, C), 4) == []
    assert orders(ticked(jobs, 4, 60)) == []
    assert jobs.ended("a", 1, Ending.STOPPED, None, 5) == [Say(A, TableState.STOPPED)]
    assert orders(ticked(jobs, 60, 70)) == [Kill("c", 3)], "it does not stop"
    assert jobs.stop(71) == [Kill("c", 3)], "asked once more"
    assert jobs.ended("c", 3, Ending.FAILED, "the job was killed by SIGKILL", 72) == [Say(C, TableState.STOPPED)]
    assert not jobs.has_jobs


class Supervision(RuleBasedStateMachine):
    """Any order of events: what lives, as the effects say it, is what was decided."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs = TableJobs(LIMITS)
        self.now_s = 0.0
        self.alive: dict[str, int] = {}
        self.begun: set[tuple[str, int]] = set()
        self.wanted: dict[str, WantedTable] = {}
        self.states: dict[str, TableState] = {}
        self.is_stopping = False

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Start(table, run):
                    assert table.name not in self.alive and not self.is_stopping
                    assert (table.name, run) not in self.begun
                    assert self.wanted[table.name] == table
                    self.alive[table.name] = run
                    self.begun.add((table.name, run))
                case Stop(name, run) | Kill(name, run):
                    assert self.alive[name] == run
                case Say(table, state):
                    self.states[table.name] = state

    @rule(names=st.sets(st.sampled_from("abcd")), ids=st.integers(1, 2), version=st.integers(1, 2))
    def list_tables(self, names: set[str], ids: int, version: int) -> None:
        wanted = {name: WantedTable(name, f"{name}{ids}", "t", version) for name in sorted(names)}
        if not self.is_stopping:
            self.wanted = wanted
        self.perform(self.jobs.listed(wanted, self.now_s))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def say_alive(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.alive)))
        self.perform(self.jobs.alive(name, self.alive[name], self.now_s))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), ending=st.sampled_from(Ending))
    def end(self, data: st.DataObject, ending: Ending) -> None:
        name = data.draw(st.sampled_from(sorted(self.alive)))
        run = self.alive.pop(name)
        self.perform(self.jobs.ended(name, run, ending, "why", self.now_s))

    @rule(passed_s=st.floats(0.1, 400))
    def pass_time(self, passed_s: float) -> None:
        self.now_s += passed_s
        self.perform(self.jobs.tick(self.now_s))

    @rule()
    def stop(self) -> None:
        self.is_stopping = True
        self.perform(self.jobs.stop(self.now_s))

    @invariant()
    def states_are_true(self) -> None:
        assert self.jobs.has_jobs == bool(self.alive)
        starting = sum(self.states[name] is TableState.STARTING for name in self.alive)
        assert starting <= LIMITS.starts_max + len(self.alive), self.states
        for name, state in self.states.items():
            if state is TableState.RUNNING:
                assert name in self.alive
            if not self.is_stopping and name in self.wanted:
                assert state not in (TableState.STOPPED, TableState.DROPPED) or name in self.alive
            if not self.alive.get(name) and (self.is_stopping or name not in self.wanted):
                assert state is not TableState.STARTING

    def teardown(self) -> None:
        self.stop()
        for name in list(self.alive):
            self.perform(self.jobs.ended(name, self.alive.pop(name), Ending.STOPPED, None, self.now_s))
        assert not self.jobs.has_jobs
        assert self.jobs.tick(self.now_s + 1_000) == []


Supervision.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
TestSupervision = Supervision.TestCase
