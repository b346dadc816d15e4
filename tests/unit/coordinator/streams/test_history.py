"""Any order of heartbeats, departures, silence, lost answers, changed topics and restarts keeps a streams group in one piece."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bmq.coordinator.config import StreamsConfig
from bmq.coordinator.modern.member_timers import TimerKind
from bmq.coordinator.snapshot import ShardState, decode_snapshot, encode_snapshot
from bmq.coordinator.streams.member import MemberState
from bmq.coordinator.streams.streams_group import StreamsGroupState
from bmq.coordinator.streams.tasks import NO_TASKS, TaskId, Tasks
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.streams_group_heartbeat_request import Topology
from tests.unit.coordinator.streams.bench import Bench, picture, replayed, subtopology, told

pytestmark = pytest.mark.unit

TOPOLOGY = Topology(
    epoch=0,
    subtopologies=[
        subtopology("0", ["t"], changelogs=["log"], sinks=["r"]),
        subtopology("1", repartitions={"r": 0}),
    ],
)
READY = {"t": 3, "r": 3, "log": 3}
WORLDS: list[dict[str, int]] = [{}, {"t": 3}, {"t": 3, "r": 3}, {"t": 2, "r": 2, "log": 2}, READY, READY, READY]
REJOIN = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


@dataclass
class Client:
    """What a thread of the application knows. `owned`: what it runs; `given`: what it was told to have last."""

    member_id: str
    process: str
    instance: str | None = None
    epoch: int = 0
    owned: Tasks = NO_TASKS
    given: Tasks = NO_TASKS
    is_told: bool = True
    """Whether the group knows what it runs."""

    def lose(self) -> None:
        self.epoch, self.owned, self.given, self.is_told = 0, NO_TASKS, NO_TASKS, True


def kept(owned: Tasks, given: Tasks) -> Tasks:
    """What runs while what is not given any more is being closed: a task that only changes its role stays."""
    return Tasks(owned.active | given.active, owned.standby | given.standby, owned.warmup | given.warmup)


class StreamsGroupHistory(RuleBasedStateMachine):
    """No task is active twice, nor in a process twice, nobody goes on before it gave back, and a quiet group comes to rest.

    Method: clients do what Kafka's do, but hang, forget answers and come back. What each runs is compared with what the
    group says it has; the group, with the one that its log makes, compacted and not.
    """

    clients: dict[str, Client]

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(READY, topology=TOPOLOGY)
        self.clients = {}
        self.next_id = 0
        self.epoch = 0

    @initialize(interval_ms=st.sampled_from([0, 1_000]), delay_ms=st.sampled_from([0, 3_000]))
    def configure(self, interval_ms: int, delay_ms: int) -> None:
        self.bench.config = StreamsConfig(assignment_interval_ms=interval_ms, initial_rebalance_delay_ms=delay_ms)

    # ---------------------------------------------------------------- members

    @rule(process=st.sampled_from("PQR"))
    def join(self, process: str) -> None:
        if len(self.clients) < 6:
            self.next_id += 1
            client = self.clients[f"m{self.next_id}"] = Client(f"m{self.next_id}", process)
            self.beat(client)

    @rule(process=st.sampled_from("PQR"), instance=st.sampled_from("ij"))
    def join_as_static(self, process: str, instance: str) -> None:
        if len(self.clients) < 6:
            self.next_id += 1
            client = self.clients[f"m{self.next_id}"] = Client(f"m{self.next_id}", process, instance)
            self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_answer_lost=st.sampled_from([False, False, True]))
    def heartbeat(self, data: st.DataObject, is_answer_lost: bool) -> None:
        self.beat(self.some(data), is_answer_lost=is_answer_lost)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def close_tasks(self, data: st.DataObject) -> None:
        self.close(self.some(data))

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_for_a_while=st.booleans())
    def leave(self, data: st.DataObject, is_for_a_while: bool) -> None:
        client = self.clients.pop(self.some(data).member_id)
        if client.epoch and self.is_member(client):
            epoch = -2 if is_for_a_while and client.instance else -1
            self.bench.beat(client.member_id, epoch, instance_id=client.instance)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_gone=st.booleans())
    def be_silent(self, data: st.DataObject, is_gone: bool) -> None:
        """Its session is over; it may come back, and hears of it then."""
        client = self.some(data)
        if self.is_member(client):
            assert self.bench.expire(client.member_id)
        if is_gone or not self.is_member(client):
            # Kafka's own assumption: who is put out has stopped processing by then.
            client.owned = client.given = NO_TASKS
        if is_gone:
            del self.clients[client.member_id]

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def restart_at_once(self, data: st.DataObject) -> None:
        client = self.some(data)
        client.lose()
        self.beat(client)

    # ---------------------------------------------------------------- the world

    @rule(topics=st.sampled_from(WORLDS))
    def topics_change(self, topics: dict[str, int]) -> None:
        self.bench.topics = topics
        self.bench.is_stale = True

    @rule(copies=st.integers(0, 2))
    def copies_wanted(self, copies: int) -> None:
        self.bench.group_configs = {"streams.num.standby.replicas": str(copies)}

    @rule(by_ms=st.sampled_from([100, 5_000]))
    def time_passes(self, by_ms: int) -> None:
        self.bench.now_ms += by_ms

    @precondition(lambda self: self.bench.is_delayed)
    @rule()
    def the_delay_is_over(self) -> None:
        self.bench.end_delay()

    @precondition(lambda self: self.bench.group)
    @rule(data=st.data())
    def the_coordinator_is_another(self, data: st.DataObject) -> None:
        """It makes the group of a snapshot and the records behind it, or of a log compacted up to some place."""
        before = picture(self.bench.group)
        log = self.bench.log
        if data.draw(st.booleans()):
            clean_to = data.draw(st.integers(0, len(log)))
            last = {key: place for place, (key, _) in enumerate(log)}
            drops = data.draw(st.booleans())  # tombstones whose time is over
            self.bench.group = replayed(
                (key, value)
                for place, (key, value) in enumerate(log)
                if place >= clean_to or (last[key] == place and (value is not None or not drops))
            )
        else:
            saved = asyncio.run(encode_snapshot(ShardState([], [], new_groups=[self.bench.existing])))
            self.bench.group = replayed(part for part in decode_snapshot(saved) if isinstance(part, tuple))  # type: ignore[misc]
        assert picture(self.bench.group) == before
        self.bench.is_stale = True
        self.bench.is_delayed = False

    # ---------------------------------------------------------------- what always holds

    @invariant()
    def no_task_is_held_twice(self) -> None:
        if self.bench.group is None:
            return
        active: dict[TaskId, str] = {}
        near: dict[tuple[str, TaskId], str] = {}
        for member in self.bench.group.members.values():
            for held in (member.tasks, member.pending):
                for task in held.active:
                    assert task not in active
                    active[task] = member.member_id
                for task in (*held.active, *held.passive):
                    # A member may have a task in a new role that it has yet to give back in the old one.
                    assert near.setdefault((member.process_id, task), member.member_id) == member.member_id

    @invariant()
    def no_task_runs_twice(self) -> None:
        """Whoever is still a member runs what the group says it has, and nobody else does."""
        running: set[TaskId] = set()
        for client in self.clients.values():
            if self.is_member(client):
                assert not client.owned.active & running
                running |= client.owned.active

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.bench.group
        if group is None:
            self.epoch = 0
            return
        assert self.epoch <= group.epoch and group.target_epoch <= group.epoch
        self.epoch = group.epoch
        instances = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id is not None}
        assert group.static_ids == instances
        for member in group.members.values():
            assert member.epoch <= group.target_epoch
            assert (member.state is MemberState.UNREVOKED) == (not member.pending.is_empty)

    @invariant()
    def the_log_says_the_same(self) -> None:
        assert picture(replayed(self.bench.log)) == picture(self.bench.group)

    def teardown(self) -> None:
        """Everybody does what it shall: the group comes to rest, with every task at somebody."""
        group = self.bench.group
        if group is None:
            return
        self.topics_change(READY)
        for _ in range(8):
            for member_id in list(self.bench.existing.members):
                if member_id not in self.clients:
                    assert self.bench.expire(member_id, TimerKind.SESSION)
            self.bench.now_ms += 20_000
            if self.bench.is_delayed:
                self.bench.end_delay()
            for client in list(self.clients.values()):  # one that is fenced is taken out
                self.close(client)
                self.beat(client)
        group = self.bench.existing
        if not group.members:
            assert group.state is StreamsGroupState.EMPTY
            return
        assert group.state is StreamsGroupState.STABLE
        for client in self.clients.values():
            member = group.members[client.member_id]
            assert member.tasks.without_epochs == group.target_of(client.member_id) == client.owned
        active = [task for member in group.members.values() for task in member.tasks.active]
        assert sorted(active) == [TaskId(name, number) for name in "01" for number in range(3)]
        copies = int(self.bench.group_configs.get("streams.num.standby.replicas", "0"))
        processes = len({client.process for client in self.clients.values()})
        standby = [task for member in group.members.values() for task in member.tasks.standby]
        assert len(standby) == 3 * min(copies, processes - 1)

    # ---------------------------------------------------------------- inside

    def some(self, data: st.DataObject) -> Client:
        return self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    def is_member(self, client: Client) -> bool:
        return self.bench.group is not None and client.member_id in self.bench.group.members

    def close(self, client: Client) -> None:
        if client.owned != client.given:
            client.owned = client.given
            client.is_told = False

    def beat(self, client: Client, *, is_answer_lost: bool = False) -> None:
        before = None if self.bench.group is None else self.bench.group.members.get(client.member_id)
        owned = NO_TASKS if not client.epoch else client.owned
        says = not client.epoch or not client.is_told
        try:
            if client.epoch:
                answer = self.bench.beat(
                    client.member_id, client.epoch, owned if says else None, instance_id=client.instance
                )
            else:
                answer = self.bench.join(client.member_id, client.process, instance_id=client.instance)
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_REQUEST:
                return  # it runs tasks of partitions that are gone: its topics have shrunk, which Kafka's never do
            if error.code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID):
                assert client.instance
                del self.clients[client.member_id]
                return
            assert error.code in REJOIN and client.epoch
            client.lose()
            return
        after = self.bench.existing.members[client.member_id]
        is_unrevoked = before is not None and before.state is MemberState.UNREVOKED
        if before is not None and is_unrevoked and (not says or before.pending.has_any_of(owned)):
            assert after.epoch == before.epoch, "it has not given back what it has to"
        if is_answer_lost:
            client.is_told = False  # after an error it says everything again
            return
        client.epoch, client.is_told = answer.member_epoch, True
        given = told(answer)
        if given is not None:
            client.given = given
            client.owned = kept(client.owned, given)
            client.is_told = client.owned == owned


TestStreamsGroupHistory = pytest.mark.unit(StreamsGroupHistory.TestCase)
TestStreamsGroupHistory.settings = settings(stateful_step_count=40)
