"""Any order of heartbeats, joins, departures, silence, lost answers, changed topics and restarts keeps a group in one piece."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bmq.coordinator.config import ConsumerConfig
from bmq.coordinator.consumer.consumer_group import ConsumerGroupState
from bmq.coordinator.consumer.consumer_protocol import decode_assignment
from bmq.coordinator.consumer.member import MemberState
from bmq.coordinator.consumer.patterns import compiled
from bmq.coordinator.modern.member_timers import TimerKind
from bmq.coordinator.snapshot import ShardState, decode_snapshot, encode_snapshot
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.unit.coordinator.consumer.bench import Bench, picture, replayed
from tests.unit.coordinator.consumer.test_classic_members import subscription

pytestmark = pytest.mark.unit

Place = tuple[str, int]
TOPICS = ["t", "u", "v1", "v2"]
REGEXES = ["v.*", "t|u", "nothing"]
SUBSCRIPTIONS = st.one_of(
    st.lists(st.sampled_from(TOPICS), unique=True, max_size=3).map(lambda topics: (tuple(topics), "")),
    st.tuples(st.sampled_from([(), ("t",)]), st.sampled_from(REGEXES)),
)
REJOIN = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


@dataclass
class Client:
    """What a consumer knows. `owned`: what it processes; `revoking`: those of them it has yet to let go of.

    `is_told`: whether the group knows what it owns. `is_classic`: it speaks the classic protocol.
    """

    member_id: str
    topics: tuple[str, ...]
    regex: str
    instance: str | None = None
    epoch: int = 0
    owned: set[Place] = field(default_factory=set)
    revoking: set[Place] = field(default_factory=set)
    is_told: bool = True
    is_full: bool = False
    is_classic: bool = False

    def told(self) -> dict[str, list[int]]:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(self.owned):
            by_topic.setdefault(topic, []).append(partition)
        return by_topic

    def lose(self) -> None:
        self.epoch, self.owned, self.revoking, self.is_told, self.is_full = 0, set(), set(), True, False


class ConsumerGroupHistory(RuleBasedStateMachine):
    """No partition has two members, nobody goes on before it gave back, and a quiet group comes to rest.

    Method: clients do what Kafka's do, but hang, forget answers and come back. What each processes is compared with what
    the group says it has; the group, with the one that its log makes, compacted and not.
    """

    clients: dict[str, Client]

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench({"t": 3, "u": 2})
        self.clients = {}
        self.next_id = 0
        self.epoch = 0

    @initialize(interval_ms=st.sampled_from([0, 1_000]), assignors=st.sampled_from([("uniform", "range"), ("range",)]))
    def configure(self, interval_ms: int, assignors: tuple[str, ...]) -> None:
        self.bench.config = ConsumerConfig(assignment_interval_ms=interval_ms, assignors=assignors)

    # ---------------------------------------------------------------- members

    @rule(subscribed=SUBSCRIPTIONS)
    def join(self, subscribed: Any) -> None:
        if len(self.clients) < 6:
            client = self.new_client(*subscribed)
            self.beat(client)

    @rule(subscribed=SUBSCRIPTIONS, instance=st.sampled_from(["i", "j"]))
    def join_as_static(self, subscribed: Any, instance: str) -> None:
        holder = None if self.bench.group is None else self.bench.group.static_member(instance)
        if len(self.clients) < 6 or holder is not None:
            client = self.new_client(*subscribed, instance)  # type: ignore[call-arg]
            self.beat(client)
            if client.epoch:
                for other in list(self.clients.values()):
                    if other.instance == instance and other is not client:
                        del self.clients[other.member_id]  # it took its place

    @rule(topics=st.lists(st.sampled_from(TOPICS), unique=True, min_size=1, max_size=2))
    def join_as_classic(self, topics: list[str]) -> None:
        if len(self.clients) < 6 and self.bench.group is not None and self.bench.group.members:
            client = self.new_client(tuple(topics), "")
            client.is_classic = True
            self.classic_join(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_answer_lost=st.sampled_from([False, False, True]))
    def heartbeat(self, data: st.DataObject, is_answer_lost: bool) -> None:
        client = self.some(data)
        if client.is_classic:
            self.classic_beat(client)
        else:
            self.beat(client, is_answer_lost=is_answer_lost)

    @precondition(lambda self: any(client.revoking for client in self.clients.values()))
    @rule()
    def revocations_are_done(self) -> None:
        for client in self.clients.values():
            if client.revoking:
                client.owned -= client.revoking
                client.revoking = set()
                client.is_told = False

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), subscribed=SUBSCRIPTIONS)
    def subscribe_anew(self, data: st.DataObject, subscribed: Any) -> None:
        client = self.some(data)
        if not client.is_classic:
            client.topics, client.regex = subscribed
            client.is_full = True
            self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), assignor=st.sampled_from(["uniform", "range"]))
    def prefer_an_assignor(self, data: st.DataObject, assignor: str) -> None:
        client = self.some(data)
        if not client.is_classic and client.epoch and assignor in self.bench.config.assignors:
            self.beat(client, assignor=assignor)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_for_a_while=st.booleans())
    def leave(self, data: st.DataObject, is_for_a_while: bool) -> None:
        client = self.some(data)
        del self.clients[client.member_id]
        if client.is_classic:
            self.bench.classic_leave((client.member_id, None))
        elif client.epoch:
            epoch = -2 if is_for_a_while and client.instance else -1
            try:
                self.bench.beat(client.member_id, epoch, instance=client.instance)
            except KafkaError as error:
                assert error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
        self.after_departure()

    @precondition(lambda self: self.bench.group and self.bench.group.members)
    @rule(data=st.data())
    def a_session_is_over(self, data: st.DataObject) -> None:
        """A client that hangs: it hears of it with its next heartbeat, or never."""
        assert self.bench.group is not None
        member_id = data.draw(st.sampled_from(sorted(self.bench.group.members)))
        self.put_out(member_id, TimerKind.SESSION, -1)

    @precondition(lambda self: self.bench.group and self.unrevoked())
    @rule()
    def a_rebalance_takes_too_long(self) -> None:
        member = self.unrevoked()[0]
        if member.classic is None:
            self.put_out(member.member_id, TimerKind.REBALANCE, member.epoch)

    # ---------------------------------------------------------------- the world

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(0, 4))
    def topics_change(self, topic: str, count: int) -> None:
        if count == 0 or topic not in self.bench.topics:
            self.bench._ids.pop(topic, None)  # the next one of this name is another topic
            if topic in self.bench.topics:
                for client in self.clients.values():
                    if any(name == topic for name, _ in client.owned):
                        client.owned = {place for place in client.owned if place[0] != topic}
                        client.revoking = {place for place in client.revoking if place[0] != topic}
                        client.is_told = False
            self.bench.topics.pop(topic, None)
        if count:
            self.bench.topics[topic] = max(count, self.bench.topics.get(topic, 0))
        self.bench.is_stale = True

    @precondition(lambda self: self.bench.group)
    @rule()
    def expressions_are_resolved(self) -> None:
        assert self.bench.group is not None
        matches = {}
        for regex in self.bench.group.subscribed_regexes:
            is_match = compiled(regex)
            matches[regex] = [name for name in self.bench.topics if is_match(name)]
        self.bench.resolve(**matches)

    @rule(by_ms=st.sampled_from([1, 999, 5_000]))
    def time_passes(self, by_ms: int) -> None:
        self.bench.now_ms += by_ms

    @precondition(lambda self: self.bench.group)
    @rule(data=st.data())
    def the_coordinator_is_another(self, data: st.DataObject) -> None:
        """It makes the group of a snapshot and the records behind it, or of a log compacted up to some place."""
        assert self.bench.group is not None
        before = picture(self.bench.group)
        log = self.bench.log
        if data.draw(st.booleans()):
            clean_to = data.draw(st.integers(0, len(log)))
            last = {key: place for place, (key, _) in enumerate(log)}
            drops = data.draw(st.booleans())  # tombstones whose time is over
            log = [
                (key, value)
                for place, (key, value) in enumerate(log)
                if place >= clean_to or (last[key] == place and (value is not None or not drops))
            ]
            self.bench.group = replayed(log)
        else:
            data_saved = asyncio.run(encode_snapshot(ShardState([], [], new_groups=[self.bench.group])))
            self.bench.group = replayed([part for part in decode_snapshot(data_saved) if isinstance(part, tuple)])  # type: ignore[misc]
        assert picture(self.bench.group) == before
        self.bench.is_stale = True

    # ---------------------------------------------------------------- what always holds

    @invariant()
    def no_partition_has_two_members(self) -> None:
        if self.bench.group is None:
            return
        holders: dict[Any, str] = {}
        for member in self.bench.group.members.values():
            for owned in (member.assigned, member.pending):
                for topic_id, partitions in owned.items():
                    for partition in partitions:
                        assert (topic_id, partition) not in holders
                        holders[topic_id, partition] = member.member_id
                        assert self.bench.group.holder(topic_id, partition) == member.member_id
        assert sum(map(len, self.bench.group._holders.values())) == len(holders)

    @invariant()
    def no_partition_has_two_clients(self) -> None:
        """Whoever is still a member processes what the group says it has, and nobody else does."""
        processed: set[Place] = set()
        for client in self.clients.values():
            if not self.is_member(client):
                continue
            assert not client.owned & processed
            processed |= client.owned

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.bench.group
        if group is None:
            self.epoch = 0
            return
        assert self.epoch <= group.epoch and group.target_epoch <= group.epoch
        self.epoch = group.epoch
        for member in group.members.values():
            assert member.epoch <= group.target_epoch
            assert (member.state is MemberState.UNREVOKED) == bool(member.pending) or member.has_left_for_a_while

    @invariant()
    def the_log_says_the_same(self) -> None:
        if self.bench.group is not None:
            assert picture(replayed(self.bench.log)) == picture(self.bench.group)

    @invariant()
    def counts_are_right(self) -> None:
        group = self.bench.group
        if group is None:
            return
        names = [name for member in group.members.values() for name in member.topic_names]
        assert dict(group._name_counts) == {name: names.count(name) for name in names}
        regexes = [member.topic_regex for member in group.members.values() if member.topic_regex]
        assert dict(group._regex_counts) == {regex: regexes.count(regex) for regex in regexes}
        assert group.regexes.keys() <= set(regexes)
        instances = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id is not None}
        assert group.static_ids == instances
        assert group.classic_count == sum(member.classic is not None for member in group.members.values())

    def teardown(self) -> None:
        """Everybody does what it shall: the group comes to rest, with every partition at somebody who wants it."""
        if self.bench.group is None:
            return
        self.expressions_are_resolved()
        for _ in range(12):
            self.bench.now_ms += 20_000
            for member_id in list(self.bench.group.members) if self.bench.group else []:
                if member_id not in self.clients and self.bench.group is not None:
                    self.put_out(member_id, TimerKind.SESSION, -1)  # its client was sent away
            for client in list(self.clients.values()):
                client.owned -= client.revoking
                client.is_told = client.is_told and not client.revoking
                client.revoking = set()
                if client.is_classic:
                    self.classic_beat(client)
                else:
                    self.beat(client)
                if self.bench.group is not None and self.bench.group.subscribed_regexes:
                    self.expressions_are_resolved()
        group = self.bench.group
        if group is None:
            return
        assert group.state is (ConsumerGroupState.STABLE if group.members else ConsumerGroupState.EMPTY)
        wanted = {
            (topic_id, p)
            for name in group.subscribed_names & self.bench.topics.keys()
            for topic_id in (self.bench.topic_id(name),)
            for p in range(self.bench.topics[name])
        }
        assert {(t, p) for m in group.members.values() for t, ps in m.assigned.items() for p in ps} == wanted

    # ---------------------------------------------------------------- inside

    def new_client(self, topics: tuple[str, ...], regex: str, instance: str | None = None) -> Client:
        self.next_id += 1
        client = Client(f"m{self.next_id}", topics, regex, instance)
        self.clients[client.member_id] = client
        return client

    def some(self, data: st.DataObject) -> Client:
        return self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    def is_member(self, client: Client) -> bool:
        return self.bench.group is not None and client.member_id in self.bench.group.members

    def unrevoked(self) -> list[Any]:
        assert self.bench.group is not None
        return [m for m in self.bench.group.members.values() if m.state is MemberState.UNREVOKED]

    def put_out(self, member_id: str, kind: TimerKind, epoch: int) -> None:
        assert self.bench.expire(member_id, kind, epoch)
        self.after_departure()

    def after_departure(self) -> None:
        if self.bench.group is None:  # it is a classic group now: another test's matter
            self.bench.classic = None
            self.bench.log.clear()
            self.clients.clear()

    def beat(self, client: Client, *, is_answer_lost: bool = False, assignor: str | None = None) -> None:
        """One heartbeat of a client of the new protocol."""
        group = self.bench.group
        before = None if group is None else group.members.get(client.member_id)
        is_full = client.epoch == 0 or client.is_full
        owned = client.told() if client.epoch and (is_full or not client.is_told) else {} if is_full else None
        try:
            answer = self.bench.beat(
                client.member_id,
                client.epoch,
                owned,
                topics=client.topics if is_full else None,
                regex=client.regex if is_full else None,
                timeout_ms=60_000 if is_full else -1,
                instance=client.instance,
                assignor=assignor,
            )
        except KafkaError as error:
            self.refused(client, error.code)
            return
        after = self.bench.group.members[client.member_id] if self.bench.group else None
        assert after is not None
        if before is not None and before.state is MemberState.UNREVOKED and before.classic is None:
            told = {(self.bench.topic_id(t), p) for t, partitions in (owned or {}).items() for p in partitions}
            pending = {(t, p) for t, partitions in before.pending.items() for p in partitions}
            if owned is None or told & pending:
                assert after.epoch == before.epoch, "it has not given back what it has to"
        assert self.bench.group is not None
        for topic_id in after.assigned:
            topic = self.bench.image.topics_by_id.get(topic_id)
            assert topic is not None and self.bench.group.is_member_subscribed_to(after, topic.name)
        if is_answer_lost:
            client.is_full = client.epoch != 0
            return
        client.epoch, client.is_told, client.is_full = answer.member_epoch, True, False
        _, told_partitions = self.bench.told(answer)
        if told_partitions is not None:
            self.take(client, {(t, p) for t, partitions in told_partitions.items() for p in partitions})

    def take(self, client: Client, given: set[Place]) -> None:
        client.revoking = client.owned - given
        if given - client.owned:
            client.is_told = False
        client.owned |= given

    def refused(self, client: Client, code: ErrorCode) -> None:
        if code in REJOIN:
            assert client.epoch, "who joins is never told to"
            client.lose()
        else:
            assert code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID)
            del self.clients[client.member_id]

    def classic_join(self, client: Client) -> None:
        client.owned -= client.revoking
        client.revoking = set()
        group = self.bench.group
        if group is None or not group.members:  # it would be a classic group
            del self.clients[client.member_id]
            return
        joined = self.bench.classic_join(client.member_id, subscription(*client.topics, owned=dict(client.told())))
        assert joined is not None
        client.epoch = joined.generation_id
        try:
            synced = self.bench.classic_sync(client.member_id, client.epoch)
        except KafkaError as error:
            assert error.code is ErrorCode.REBALANCE_IN_PROGRESS
            return
        assigned = decode_assignment(synced.assignment).assigned
        self.take(client, {(part.topic, p) for part in assigned for p in part.partitions})

    def classic_beat(self, client: Client) -> None:
        try:
            code = self.bench.classic_beat(client.member_id, client.epoch)
        except KafkaError as error:
            assert error.code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.ILLEGAL_GENERATION,
                ErrorCode.GROUP_ID_NOT_FOUND,
            )
            client.lose()
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if code is ErrorCode.REBALANCE_IN_PROGRESS or client.revoking:
            self.classic_join(client)


TestConsumerGroupHistory = pytest.mark.unit(ConsumerGroupHistory.TestCase)
TestConsumerGroupHistory.settings = settings(stateful_step_count=40)
