"""Nodes come, go, drain and die while partitions move: there is always an owner while somebody lives, and never twice an epoch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bmq.controller.balancer import Balancer, BalancerLimits
from bmq.controller.decision import Decision
from bmq.controller.failover import FAILOVERS_AT_FIRST, decide_remaining_failovers, replica_changes
from bmq.controller.leader_election import decide_elect_leaders
from bmq.controller.moves import Move, drain_moves, move_records
from bmq.controller.node_registration import (
    decide_draining,
    decide_fencing,
    decide_heartbeat,
    decide_registration,
)
from bmq.controller.node_sessions import Overdue
from bmq.controller.partition_counts import decide_create_partitions
from bmq.controller.partition_reports import Rates
from bmq.controller.reassignment import decide_alter_partition_reassignments
from bmq.controller.replica_placement import place, replicas_anew, replicas_including, willing_nodes
from bmq.controller.topics import TopicLimits, decide_create_topics
from bmq.metadata.image import Node
from bmq.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest
from bmq.protocol.metadata_records import PartitionChangeRecord
from tests.unit.controller.cluster_support import (
    ManyNodes,
    heartbeat,
    owners_by_count,
    registered,
    registration,
    require_sound,
)
from tests.unit.controller.support import create, grow, topic

pytestmark = pytest.mark.unit


def reason_of(decision: Decision[bool]) -> str:
    """That of its first record."""
    first = decision.records[0]
    assert isinstance(first, PartitionChangeRecord), first
    return first.reason


NODES = st.integers(2, 5)
RACKS = {2: "a", 3: "a", 4: "b", 5: None}


class ClusterHistory(RuleBasedStateMachine):
    """Everything the controller decides about nodes and owners, in any order, replayed from the bytes of its records.

    Model: which incarnation of each node registered last, the epochs seen so far, who was the owner under each of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cluster = ManyNodes()
        self.balancer = Balancer(BalancerLimits(cooldown_s=1.0, moves_min=3))
        self.now_s = 0.0
        self.epochs: dict[int, int] = {}
        self.incarnations = dict.fromkeys(range(2, 6), 0)
        self.topics = 0
        self.owners: dict[tuple[UUID, int, int], int] = {}
        self.floors: dict[tuple[UUID, int], int] = {}

    def take(self, decision: Decision[Any]) -> None:
        self.cluster.take(decision.records)

    @rule(node=NODES, is_new=st.booleans(), can_own=st.booleans())
    def register(self, node: int, is_new: bool, can_own: bool) -> None:
        self.incarnations[node] += is_new
        roles = ("broker", "proxy") if can_own else ("proxy",)
        request = registration(node, self.incarnations[node], roles=roles, rack=RACKS[node])
        known = self.cluster.state.registrations.get(node)
        if known is not None and known.incarnation_id == request.incarnation_id:
            request.roles = known.roles  # a process does not change its roles
        decision = decide_registration(self.cluster.context, request, is_alive=False)
        assert decision.response.broker_epoch >= self.epochs.get(node, -1)
        assert (decision.response.broker_epoch > self.epochs.get(node, -1)) == (
            known is None or known.incarnation_id != request.incarnation_id
        )
        self.epochs[node] = decision.response.broker_epoch
        self.take(decision)

    @rule(node=NODES, want_fence=st.booleans(), want_shut_down=st.booleans())
    def beat(self, node: int, want_fence: bool, want_shut_down: bool) -> None:
        request = heartbeat(node, self.epochs.get(node, -1), want_fence=want_fence, want_shut_down=want_shut_down)
        decision = decide_heartbeat(self.cluster.context, request)
        self.take(decision)
        if node in self.epochs:
            assert decision.response.is_fenced == (node not in self.cluster.image.nodes)
            assert decide_heartbeat(self.cluster.context, request).records == ()
            if decision.response.should_shut_down:
                others = {n for n, each in self.cluster.context.owners.items() if not each.is_draining}
                assert not others or owners_by_count(self.cluster.image, [node])[node] == 0

    @rule(nodes=st.sets(NODES, min_size=1))
    def fence(self, nodes: set[int]) -> None:
        self.take(
            decide_fencing(
                self.cluster.context, [Overdue(node, self.epochs.get(node, -1), "was silent") for node in nodes]
            )
        )
        assert not nodes & set(self.cluster.image.nodes)

    @rule(node=NODES, is_draining=st.booleans())
    def drain(self, node: int, is_draining: bool) -> None:
        if node in self.epochs:
            self.take(decide_draining(self.cluster.context, node, is_draining))

    @rule(node=NODES)
    def empty(self, node: int) -> None:
        context = self.cluster.context
        moves = drain_moves(context, node, "drain")
        self.cluster.take(move_records(context, moves))
        if any(not each.is_draining for n, each in context.owners.items() if n != node):
            assert owners_by_count(self.cluster.image, [node])[node] == 0

    @rule(partitions=st.integers(1, 5), factor=st.integers(1, 3))
    def create(self, partitions: int, factor: int) -> None:
        self.topics += 1
        request = create(topic(f"t{self.topics}", partitions, factor))
        decision = decide_create_topics(
            self.cluster.image, request, self.cluster.broker, TopicLimits(), [UUID(int=50_000 + self.topics)]
        )
        assert (decision.response.topics[0].error_code == 0) == (factor <= len(self.cluster.context.owners))
        self.take(decision)

    @rule(number=st.integers(1, 3), count=st.integers(1, 7))
    def grow(self, number: int, count: int) -> None:
        self.take(decide_create_partitions(self.cluster.image, grow(f"t{number}", count), TopicLimits()))

    @rule(data=st.data(), partition=st.integers(0, 4), to_node=NODES)
    def move(self, data: st.DataObject, partition: int, to_node: int) -> None:
        topics = self.cluster.image.topics
        if topics:
            found = topics[data.draw(st.sampled_from(sorted(topics)))]
            source = data.draw(st.sampled_from([found.partitions[0].leader, to_node, 2]))
            move = Move(found.topic_id, found.name, partition, source, to_node, "because")
            self.cluster.take(move_records(self.cluster.context, [move, move]))

    @rule(replicas=st.lists(st.integers(1, 6), max_size=4), number=st.integers(1, 3), partition=st.integers(0, 4))
    def reassign(self, replicas: list[int], number: int, partition: int) -> None:
        wanted = ReassignablePartition(partition_index=partition, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=f"t{number}", partitions=[wanted])])
        decision = decide_alter_partition_reassignments(self.cluster.context, request)
        self.take(decision)
        if decision.response.responses[0].partitions[0].error_code == 0:
            assert self.cluster.partitions(f"t{number}")[partition].replicas == tuple(replicas)

    @rule(election=st.sampled_from([0, 1]))
    def elect(self, election: int) -> None:
        request = ElectLeadersRequest(election_type=election, topic_partitions=None)
        self.take(decide_elect_leaders(self.cluster.context, request, lambda topic_id, partition: False))

    @rule(after_s=st.sampled_from([0.0, 0.4, 1.5]))
    def balance(self, after_s: float) -> None:
        self.now_s += after_s
        context = self.cluster.context
        takers = {node: each for node, each in context.owners.items() if not each.is_draining}
        moves = self.balancer.plan(context.image, takers, lambda topic_id, partition: Rates(), self.now_s)
        records = move_records(context, moves)
        assert len(records) == len(moves) <= 3
        self.cluster.take(records)
        self.balancer.moved(moves, self.now_s)

    @rule(high_watermark=st.integers(0, 9))
    def report(self, high_watermark: int) -> None:
        for found in self.cluster.image.topics.values():
            for partition in found.partitions:
                key = (found.topic_id, partition.partition)
                self.cluster.floors[key] = max(self.cluster.floors.get(key, 0), high_watermark)

    @rule()
    def follow_replicas(self) -> None:
        while records := replica_changes(self.cluster.context, 2):
            assert len(records) <= 2
            self.cluster.take(records)
        for found in self.cluster.image.topics.values():
            for partition in found.partitions:
                live = self.cluster.context.owners
                assert partition.isr == tuple(node for node in partition.replicas if node in live)

    @invariant()
    def partitions_have_living_owners(self) -> None:
        require_sound(self.cluster.image)

    @invariant()
    def an_epoch_has_one_owner_and_floors_do_not_fall(self) -> None:
        for found in self.cluster.image.topics.values():
            for partition in found.partitions:
                key = (found.topic_id, partition.partition)
                owner = self.owners.setdefault((*key, partition.leader_epoch), partition.leader)
                assert owner == partition.leader
                assert (*key, partition.leader_epoch + 1) not in self.owners
                assert partition.high_watermark_floor >= self.floors.get(key, 0)
                self.floors[key] = partition.high_watermark_floor

    @invariant()
    def history_ends_with_the_present(self) -> None:
        for found in self.cluster.image.topics.values():
            for partition in found.partitions:
                changes = self.cluster.state.history.of(found.topic_id, partition.partition)
                assert bool(changes) == (partition.leader_epoch > 0)
                if changes:
                    assert (changes[-1].leader, changes[-1].leader_epoch) == (partition.leader, partition.leader_epoch)
                    assert all(change.reason and change.timestamp_ms > 0 for change in changes)


TestClusterHistory = ClusterHistory.TestCase
TestClusterHistory.settings = settings(stateful_step_count=40)


# --- replicas


def nodes(*draining: int) -> dict[int, Node]:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    return {n: Node(n, "h", 1, racks[n], is_draining=n in draining) for n in racks}


def test_a_new_owner_replaces_the_one_whose_rack_stays_covered() -> None:
    assert replicas_including((1, 3), 3, 1, nodes()) == (1, 3)
    assert replicas_including((1, 3), 4, 1, nodes()) == (4, 1)  # without 1 both were in rack b
    assert replicas_including((1, 3), 2, 1, nodes()) == (2, 3)
    assert replicas_including((1, 3), 5, 1, nodes()) == (5, 3)  # all racks differ: who gives it away goes
    assert replicas_including((1,), 5, 1, nodes()) == (5,)
    assert replicas_including((), 5, -1, nodes()) == (5,)
    alive = {n: node for n, node in nodes().items() if n != 3}
    assert replicas_including((1, 3), 5, 1, alive) == (5, 1)  # the dead one goes first


def test_placed_anew_over_racks_and_as_long_as_before() -> None:
    replicas = replicas_anew((7, 8, 9), 3, nodes())
    assert replicas[0] == 3 and len({nodes()[n].rack for n in replicas}) == 3
    assert replicas_anew((7, 8, 9), 3, {3: nodes()[3]}) == (3, 7, 8)
    assert replicas_anew((), 3, nodes()) == (3,)


def test_nodes_that_are_emptied_are_placed_on_last() -> None:
    live = nodes(1, 2)
    assert set(willing_nodes(live)) == {3, 4, 5}
    for replicas in place(live, 12, 3, 5):
        assert set(replicas) == {3, 4, 5}
    for replicas in place(live, 12, 4, 5):
        assert {3, 4, 5} < set(replicas) and replicas[0] in (3, 4, 5)
    everybody = nodes(1, 2, 3, 4, 5)
    assert willing_nodes(everybody) == everybody
    assert {replicas[0] for replicas in place(everybody, 10, 2, 0)} == set(everybody)


def test_a_new_topics_first_owner_is_not_being_emptied() -> None:
    cluster = ManyNodes(registered(2, draining=True), registered(3))
    for name, replicas in (("both", (2, 3)), ("one", (2,))):
        request = create(topic(name, -1, -1, assignments=[(0, replicas)]))
        ids = [UUID(int=70 + len(replicas))]
        cluster.take(decide_create_topics(cluster.image, request, cluster.broker, TopicLimits(), ids).records)
    assert (cluster.leaders("both"), cluster.leaders("one")) == ([3], [2])


def test_drained_partitions_go_to_replicas_and_evenly() -> None:
    cluster = ManyNodes(*(registered(node) for node in (2, 3, 4)))
    cluster.topic("with", [(2, 3)] * 4)
    cluster.topic("without", [(2,)] * 6)
    moves = drain_moves(cluster.context, 2, "out of service")
    cluster.take(move_records(cluster.context, moves))
    assert cluster.leaders("with") == [3] * 4
    assert owners_by_count(cluster.image, [2, 3, 4]) == {2: 0, 3: 5, 4: 5}
    assert {partition.replicas for partition in cluster.partitions("with")} == {(2, 3)}
    assert {move.reason for move in moves} == {"out of service"}


def test_following_replicas_leaves_owners_epochs_and_floors_alone() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    topic_id = cluster.topic("t", [(2, 3)])
    cluster.floors[topic_id, 0] = 30
    cluster.take(move_records(cluster.context, [Move(topic_id, "t", 0, 2, 3, "why")]))
    cluster.floors.clear()
    cluster.take([registered(2, fenced=True)])
    before = cluster.partitions("t")[0]
    cluster.take(replica_changes(cluster.context, 10))
    after = cluster.partitions("t")[0]
    assert after == replace(before, isr=(3,), partition_epoch=before.partition_epoch + 1)
    assert after.high_watermark_floor == 30 and after.leader_epoch == 1


def test_moves_that_make_no_sense_are_left_out() -> None:
    cluster = ManyNodes(registered(2), registered(3), registered(4, roles=("proxy",)))
    topic_id = cluster.topic("t", [(2, 3), (3, 2)])
    good = Move(topic_id, "t", 0, 2, 3, "first")
    moves = [
        good,
        replace(good, reason="again"),
        replace(good, partition=1),  # node 2 does not own it
        Move(topic_id, "t", 1, 3, 3, "to itself"),
        Move(topic_id, "t", 1, 3, 4, "to a node without the role"),
        Move(topic_id, "t", 1, 3, 9, "to nobody"),
        Move(topic_id, "t", 7, 3, 2, "no such partition"),
        Move(topic_id, "t", -1, 3, 2, "no such partition"),
        Move(UUID(int=4), "u", 0, 3, 2, "no such topic"),
    ]
    records = move_records(cluster.context, moves)
    assert [(record.partition_id, record.leader, record.reason) for record in records] == [(0, 3, "first")]


def test_of_very_many_partitions_those_that_somebody_waits_for_come_first() -> None:
    cluster = ManyNodes(registered(2), registered(3), registered(4))
    idle = cluster.topic("idle", [(2,)] * 300)
    cluster.topic("__consumer_offsets", [(2,)] * 10)
    cluster.in_use = {(idle, 290), (idle, 17)}
    epoch = cluster.state.registrations[2].broker_epoch
    decision = decide_fencing(cluster.context, [Overdue(2, epoch, "was silent")])
    cluster.take(decision.records)
    assert decision.response == [2] and len(decision.records) == 1 + FAILOVERS_AT_FIRST
    assert 2 not in cluster.leaders("__consumer_offsets")
    named = {number for number, leader in enumerate(cluster.leaders("idle")) if leader != 2}
    assert named == {*range(FAILOVERS_AT_FIRST - 11), 290}
    assert {each.partition for each in cluster.partitions("idle") if each.was_in_use} == {17, 290}
    # The rest in parts, in which nothing is named twice.
    before = cluster.partitions("idle")
    part = decide_remaining_failovers(cluster.context, {2: "node 2 was silent"}, 50)
    cluster.take(part.records)
    assert (part.response, len(part.records), reason_of(part)) == (False, 50, "node 2 was silent")
    rest = decide_remaining_failovers(cluster.context, {}, 1_000)
    cluster.take(rest.records)
    assert (rest.response, reason_of(rest)) == (True, "node 2 does not live")
    require_sound(cluster.image)
    assert {cluster.partitions("idle")[number] for number in named} == {before[number] for number in named}
    assert {partition.leader_epoch for partition in cluster.partitions("idle")} == {1}
    counts = owners_by_count(cluster.image, [2, 3, 4])
    assert counts == {2: 0, 3: 155, 4: 155}
    assert decide_remaining_failovers(cluster.context, {}, 1_000) == Decision(True, [])


def test_nobody_is_named_while_nobody_lives() -> None:
    cluster = ManyNodes(registered(2))
    cluster.topic("t", [(2,)] * 3)
    cluster.take([registered(2, fenced=True)])
    assert decide_remaining_failovers(cluster.context, {}, 10) == Decision(True, [])


def test_nothing_is_drained_to_nodes_that_are_drained_themselves() -> None:
    cluster = ManyNodes(registered(2, draining=True), registered(3, draining=True))
    cluster.topic("t", [(2, 3)])
    assert drain_moves(cluster.context, 2, "out") == []
