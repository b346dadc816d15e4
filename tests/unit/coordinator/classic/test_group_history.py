"""Any order of joins, syncs, heartbeats, leaves, timeouts, log answers and refusals keeps a group in one piece."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bmq.coordinator.classic.effects import GroupState
from bmq.coordinator.runtime.moment import NEVER_MS
from bmq.protocol.error_codes import ErrorCode
from tests.unit.coordinator.classic.group_bench import SESSION_MS, GroupBench, durable_picture, subscription

pytestmark = pytest.mark.unit

SETTLED = (GroupState.STABLE, GroupState.EMPTY)
PROTOCOLS = [
    (("range", subscription("a")),),
    (("range", subscription("b")), ("sticky", subscription("b"))),
    (("sticky", subscription("a", "b")), ("range", subscription("a"))),
]


class GroupHistory(RuleBasedStateMachine):
    """One leader, a growing generation, assignments of the leader's sync, everybody answered once and in time.

    Method: clients are picked from the member ids the group ever gave out, so that requests of removed and fenced members
    come too. The log answers late, or refuses.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bench = GroupBench(is_log_instant=False, group_max_size=6)
        self.ids: list[str] = []
        self.generation = 0
        self.has_refused_last = False

    # ---------------------------------------------------------------- clients

    @rule(version=st.sampled_from([1, 5, 9]), choice=st.sampled_from(PROTOCOLS))
    def join_as_somebody_new(self, version: int, choice: Any) -> None:
        self.learn(self.bench.join(version=version, protocols=choice))

    @rule(version=st.sampled_from([5, 9]), instance=st.sampled_from(["i1", "i2"]), choice=st.sampled_from(PROTOCOLS))
    def join_as_static(self, version: int, instance: str, choice: Any) -> None:
        self.learn(self.bench.join(version=version, instance_id=instance, protocols=choice))

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), choice=st.sampled_from(PROTOCOLS), session_ms=st.sampled_from([6_000, SESSION_MS]))
    def rejoin(self, data: st.DataObject, choice: Any, session_ms: int) -> None:
        member_id = data.draw(st.sampled_from(self.ids))
        self.bench.join(member_id, instance_id=self.instance_of(member_id), protocols=choice, session_ms=session_ms)

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), is_behind=st.booleans())
    def sync(self, data: st.DataObject, is_behind: bool) -> None:
        member_id = data.draw(st.sampled_from(self.ids))
        group = self.bench.group
        assignments = {m.member_id: f"{group.generation}/{m.member_id}".encode() for m in group.members}
        self.bench.sync(member_id, group.generation - is_behind, assignments, instance_id=self.instance_of(member_id))

    @precondition(lambda self: self.bench.group.state is GroupState.COMPLETING_REBALANCE)
    @rule()
    def everybody_syncs(self) -> None:
        group = self.bench.group
        assignments = {m.member_id: f"{group.generation}/{m.member_id}".encode() for m in group.members}
        for member_id in list(group.members.by_id):
            self.bench.sync(member_id, group.generation, assignments)

    @precondition(lambda self: self.bench.group.state is GroupState.PREPARING_REBALANCE)
    @rule()
    def everybody_rejoins(self) -> None:
        for member_id in [*self.bench.group.members.by_id, *self.bench.group.members.pending]:
            self.bench.join(member_id, instance_id=self.instance_of(member_id))

    @precondition(lambda self: self.bench.group.members)
    @rule()
    def everything_goes_well(self) -> None:
        """Until the group is stable, so that the other rules meet stable groups too."""
        group = self.bench.group
        for _ in range(3):
            if group.state is GroupState.PREPARING_REBALANCE:
                self.everybody_rejoins()
                self.bench.pass_time(5_999)
            if group.state is GroupState.COMPLETING_REBALANCE:
                self.everybody_syncs()
            while self.bench.in_flight:
                self.write_is_durable()

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), is_behind=st.booleans())
    def heartbeat(self, data: st.DataObject, is_behind: bool) -> None:
        member_id = data.draw(st.sampled_from(self.ids))
        group = self.bench.group
        is_member = member_id in group.members
        error = self.bench.heartbeat(member_id, group.generation - is_behind, self.instance_of(member_id))
        if not is_member:
            assert error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
        elif is_behind:
            assert error == ErrorCode.ILLEGAL_GENERATION
        else:
            rebalances = group.state is GroupState.PREPARING_REBALANCE
            assert error == (ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE)

    @rule(part=st.integers(1, 4))
    def everybody_is_alive(self, part: int) -> None:
        for member in self.bench.group.members:
            self.bench.heartbeat(member.member_id, self.bench.group.generation, member.instance_id)
        self.bench.pass_time(SESSION_MS / part - 1)

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.ids), min_size=1, max_size=3))
        for (name, _), error in zip(
            pairs := [(name, self.instance_of(name)) for name in chosen], self.bench.leave(*pairs), strict=True
        ):
            if error == ErrorCode.NONE:
                assert name not in self.bench.group.members

    @rule(instance=st.sampled_from(["i1", "i2"]))
    def remove_static_by_name(self, instance: str) -> None:
        known = instance in self.bench.group.members.static_ids
        assert self.bench.leave(("", instance)) == [ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID]

    # ---------------------------------------------------------------- the world

    @rule(by_ms=st.sampled_from([1, 3_000, 5_999, 10_000, 60_000, 300_001]))
    def time_passes(self, by_ms: int) -> None:
        self.bench.pass_time(by_ms)

    @precondition(lambda self: self.bench.in_flight)
    @rule()
    def write_is_durable(self) -> None:
        self.has_refused_last = False
        self.bench.make_durable()

    @precondition(lambda self: self.bench.in_flight)
    @rule()
    def write_is_refused(self) -> None:
        # An Empty group whose record was refused is Empty all the same: the members in the log will time out again.
        self.has_refused_last = not self.bench.in_flight[0].value.members
        self.bench.refuse()

    # ---------------------------------------------------------------- what always holds

    @invariant()
    def there_is_one_leader(self) -> None:
        members = self.bench.group.members
        assert (members.leader_id in members) == (len(members) > 0)

    @invariant()
    def the_generation_grows(self) -> None:
        assert self.bench.group.generation >= self.generation
        self.generation = self.bench.group.generation

    @invariant()
    def stable_members_have_their_assignment(self) -> None:
        group = self.bench.group
        if group.state is GroupState.STABLE:
            assert group.written is not None
            for member in group.members:
                assert member.assignment.startswith(f"{group.generation}/".encode())

    @invariant()
    def states_fit_their_members(self) -> None:
        group = self.bench.group
        assert group.state is not GroupState.EMPTY or not group.members
        assert group.state not in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE) or group.members
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert all(member.metadata(group.protocol_name) for member in group.members)
            assert not any(member.is_new for member in group.members)

    @invariant()
    def counts_are_right(self) -> None:
        members = self.bench.group.members
        assert members.waiting_count == sum(member.join_caller is not None for member in members)
        for name in ("range", "sticky"):
            spoken = sum(any(name == known for known, _ in member.protocols) for member in members)
            assert members._speakers.get(name, 0) == spoken
        assert members.static_ids == {m.instance_id: m.member_id for m in members if m.instance_id is not None}

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """Who waits is answered by a deadline that is set, or by the log."""
        waiting = [call for call in self.bench.calls if call.is_waiting]
        callers = [c for m in self.bench.group.members for c in (m.join_caller, m.sync_caller) if c is not None]
        assert {id(call) for call in waiting} == {id(caller) for caller in callers}
        assert all(len(call.responses) <= 1 for call in self.bench.calls)
        if waiting:
            assert self.bench.group.wake_ms < NEVER_MS or self.bench.in_flight

    @invariant()
    def wake_up_comes_before_every_deadline(self) -> None:
        group = self.bench.group
        assert all(group.wake_ms <= member.deadline_ms for member in group.members)
        assert all(group.wake_ms <= deadline_ms for deadline_ms in group.members.pending.values())

    @invariant()
    def a_restart_brings_back_a_settled_group(self) -> None:
        group = self.bench.group
        if group.state in SETTLED and not self.bench.in_flight and not self.has_refused_last:
            if group.generation == 0:
                assert not self.bench.log
            else:
                assert durable_picture(self.bench.restarted()) == durable_picture(group)

    def teardown(self) -> None:
        """Everybody falls silent: in the end nobody is left, and nobody waits."""
        for _ in range(20):
            while self.bench.in_flight:
                self.bench.make_durable()
            self.bench.pass_time(300_001)
        assert self.bench.group.state is GroupState.EMPTY
        assert not self.bench.group.members.pending
        assert not any(call.is_waiting for call in self.bench.calls)
        assert self.bench.group.wake_ms == NEVER_MS

    # ---------------------------------------------------------------- inside

    def learn(self, call: Any) -> None:
        known = {*self.ids, *self.bench.group.members.by_id, *self.bench.group.members.pending}
        self.ids = sorted(known)

    def instance_of(self, member_id: str) -> str | None:
        return member_id[:2] if member_id.startswith("i") else None


TestGroupHistory = pytest.mark.unit(GroupHistory.TestCase)
TestGroupHistory.settings = settings(stateful_step_count=40)
