"""Who is heard of lives; who is not is fenced, in time, and nobody else."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bmq.controller.node_sessions import NodeSessions
from tests.unit.controller.controller_lab import Wire

pytestmark = pytest.mark.unit

TIMEOUT_S, GRACE_S, CHECKS_S = 2.0, 0.1, 0.25


class SessionHistory(RuleBasedStateMachine):
    """Whatever comes in whatever order: a node is overdue exactly when its last sign of life is too old, or its last
    connection was lost and it is not back.

    Model: for each node its epoch, when it was heard of last, on which wire, and when that was lost. Looks are never late.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sessions = NodeSessions(TIMEOUT_S, GRACE_S, CHECKS_S)
        self.now = 100.0
        self.epoch = 0
        self.deadlines: dict[int, float] = {}
        self.wires: dict[int, Wire | None] = {}
        self.heard_of: set[int] = set()
        self.sessions.check(self.now)

    nodes = st.integers(1, 3)

    @rule(node=nodes)
    def expect(self, node: int) -> None:
        self.epoch += 1
        self.sessions.expect(node, self.epoch, self.now)
        self.deadlines[node] = self.now + TIMEOUT_S
        self.wires[node] = None
        self.heard_of.discard(node)

    @rule(node=nodes, how=st.sampled_from(["same", "new", "none"]))
    def hear(self, node: int, how: str) -> None:
        old = self.wires.get(node)
        wire = None if how == "none" else Wire() if how == "new" or old is None else old
        is_new = self.sessions.heard(node, self.epoch, wire, self.now)
        assert is_new == (wire is not None and wire is not old)
        self.deadlines[node] = self.now + TIMEOUT_S
        self.wires[node] = wire
        self.heard_of.add(node)

    @rule(node=nodes)
    def lose(self, node: int) -> None:
        wire = self.wires.get(node)
        if wire is not None:
            self.sessions.lost(node, wire, self.now)
            self.deadlines[node] = min(self.deadlines[node], self.now + GRACE_S)
            self.wires[node] = None

    @rule(node=nodes)
    def lose_an_older_wire(self, node: int) -> None:
        self.sessions.lost(node, Wire(), self.now)

    @rule(node=nodes)
    def election_says_gone(self, node: int) -> None:
        self.sessions.gone(node, "lost its session", self.now)
        if node in self.deadlines and self.wires[node] is None:
            self.deadlines[node] = min(self.deadlines[node], self.now)

    @rule(by_s=st.sampled_from([0.05, 0.1, 0.25, 0.6, 2.0]))
    def wait(self, by_s: float) -> None:
        end = self.now + by_s
        while self.now < end:
            self.now = min(end, self.sessions.next_check_s(self.now))
            self.sessions.check(self.now)

    @precondition(lambda self: self.sessions.overdue(self.now))
    @rule()
    def fence(self) -> None:
        for node in self.sessions.overdue(self.now):
            self.sessions.forget(node, self.now)
            del self.deadlines[node.node_id], self.wires[node.node_id]
            self.heard_of.discard(node.node_id)

    @invariant()
    def overdue_is_who_should_be(self) -> None:
        overdue = {node.node_id for node in self.sessions.overdue(self.now)}
        assert overdue == {node for node, deadline_s in self.deadlines.items() if deadline_s <= self.now}
        for node in (1, 2, 3):
            is_alive = node in self.heard_of and self.deadlines[node] > self.now
            assert self.sessions.is_alive(node, self.now) == is_alive

    @invariant()
    def next_look_is_soon_and_not_past(self) -> None:
        assert self.now < self.sessions.next_check_s(self.now) <= self.now + CHECKS_S


TestSessionHistory = SessionHistory.TestCase
TestSessionHistory.settings = settings(stateful_step_count=30)


def test_who_is_fenced_is_told_why() -> None:
    sessions = NodeSessions(TIMEOUT_S, GRACE_S, CHECKS_S)
    wire = Wire()
    sessions.expect(1, 11, 0.0)
    sessions.heard(2, 12, None, 0.0)
    sessions.heard(3, 13, wire, 1.0)
    sessions.lost(3, wire, 1.5)
    overdue = {node.node_id: (node.broker_epoch, node.why) for node in sessions.overdue(2.0)}
    assert overdue == {
        1: (11, "was not heard of for 2 s"),
        2: (12, "was silent for 2 s"),
        3: (13, "lost its connection to the controller"),
    }


def test_a_living_connection_is_believed_more_than_the_election() -> None:
    sessions = NodeSessions(TIMEOUT_S, GRACE_S, CHECKS_S)
    sessions.heard(1, 1, Wire(), 0.0)
    sessions.heard(2, 1, None, 0.0)
    for node in (1, 2, 3):
        sessions.gone(node, "lost its session with the election", 0.5)
    assert [(node.node_id, node.why) for node in sessions.overdue(0.5)] == [(2, "lost its session with the election")]


def test_a_late_look_fences_nobody_for_silence_but_for_lost_connections() -> None:
    sessions = NodeSessions(TIMEOUT_S, GRACE_S, CHECKS_S)
    wire = Wire()
    sessions.check(0.0)
    sessions.heard(1, 1, Wire(), 0.0)
    sessions.heard(2, 1, wire, 0.0)
    sessions.lost(2, wire, 0.0)
    # Four seconds later: we were held up, and have not read what node 1 said meanwhile.
    assert [node.node_id for node in sessions.check(4.0)] == [2]
    assert sessions.check(4.25)[0].node_id == 2 and sessions.is_alive(1, 4.9)
    assert {node.node_id for node in sessions.overdue(4.0 + TIMEOUT_S / 2)} == {1, 2}


def test_the_time_of_a_slow_loop_is_not_silence() -> None:
    """A busy controller whose turns take a third of a second, so that answers do, too; a node that hangs is fenced anyway."""
    sessions = NodeSessions(TIMEOUT_S, GRACE_S, CHECKS_S)
    sessions.check(0.0)
    sessions.heard(1, 1, Wire(), 0.0)
    now, late_s = 0.0, 0.35
    fenced_s = None
    while fenced_s is None:
        now += CHECKS_S + late_s
        if sessions.check(now):
            fenced_s = now
    checks = TIMEOUT_S / CHECKS_S
    assert checks * (CHECKS_S + late_s) == pytest.approx(fenced_s)


def test_a_report_is_a_sign_of_life() -> None:
    sessions = NodeSessions(TIMEOUT_S, GRACE_S, CHECKS_S)
    wire = Wire()
    sessions.reported(1, 1, 0.0)  # of nobody that is known
    sessions.expect(1, 1, 0.0)
    sessions.reported(1, 1, 1.0)  # before its heartbeat: a controller that takes over waits for that
    assert [node.node_id for node in sessions.overdue(TIMEOUT_S)] == [1]
    assert sessions.heard(1, 1, wire, 1.5)
    sessions.reported(1, 0, 3.0)  # of an earlier registration
    assert [node.node_id for node in sessions.overdue(1.5 + TIMEOUT_S)] == [1]
    sessions.reported(1, 1, 3.0)
    assert not sessions.overdue(4.9) and sessions.is_alive(1, 4.9)
    sessions.lost(1, wire, 4.0)
    sessions.reported(1, 1, 4.05)  # read from the lost connection
    assert [node.node_id for node in sessions.overdue(4.0 + GRACE_S)] == [1]


def test_a_controller_that_stood_still_and_dropped_its_connections_waits_for_the_nodes_anew() -> None:
    sessions = NodeSessions(TIMEOUT_S, GRACE_S, CHECKS_S)
    wire, lost = Wire(), Wire()
    sessions.check(0.0)
    sessions.heard(1, 1, wire, 0.0)
    sessions.heard(2, 1, lost, 0.0)
    sessions.lost(2, lost, 0.0)
    sessions.after_stall(60.0)
    sessions.lost(1, wire, 60.0)  # we closed it
    assert [node.node_id for node in sessions.overdue(60.0 + GRACE_S)] == [2], "lost before we stood still"
    assert sessions.is_alive(1, 60.0 + TIMEOUT_S - 0.1)
    assert {node.node_id for node in sessions.overdue(60.0 + TIMEOUT_S)} == {1, 2}


def test_heard_of_while_it_was_being_fenced() -> None:
    sessions = NodeSessions(TIMEOUT_S, GRACE_S, CHECKS_S)
    sessions.expect(1, 5, 0.0)
    (overdue,) = sessions.overdue(2.0)
    sessions.heard(1, 5, None, 2.1)
    sessions.forget(overdue, 2.2)
    assert sessions.is_alive(1, 2.2)


def test_settled_once_everybody_was_heard_of_and_nobody_is_doubted() -> None:
    sessions = NodeSessions(TIMEOUT_S, GRACE_S, CHECKS_S)
    assert sessions.are_settled
    sessions.expect(1, 5, 0.0)
    assert not sessions.are_settled
    wire = Wire()
    sessions.heard(1, 5, wire, 0.1)
    assert sessions.are_settled
    sessions.lost(1, wire, 0.2)
    assert not sessions.are_settled
    sessions.heard(1, 5, Wire(), 0.25)
    assert sessions.are_settled


def test_after_we_stood_still_nobody_is_thought_dead_for_a_failed_connection() -> None:
    """Others may have stood still with us, and drop connections as we do."""
    sessions = NodeSessions(TIMEOUT_S, GRACE_S, CHECKS_S)
    sessions.check(0.0)
    sessions.heard(1, 1, Wire(), 0.0)
    sessions.after_stall(60.0)
    sessions.gone(1, "cannot be reached", 60.01)
    assert not sessions.overdue(60.0 + TIMEOUT_S - 0.01)
    sessions.gone(1, "cannot be reached", 60.0 + TIMEOUT_S)
    assert sessions.overdue(60.0 + TIMEOUT_S)
