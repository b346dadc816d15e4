"""Numbers become even by as few moves as that takes, then hot partitions change places; nothing goes back and forth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.controller.balancer import Balancer, BalancerLimits, equalize
from bmq.controller.moves import Move, move_records
from bmq.controller.partition_reports import Rates
from bmq.metadata.image import Node
from tests.unit.controller.cluster_support import ManyNodes, owners_by_count, registered, require_sound

pytestmark = pytest.mark.unit

QUIET = Rates()


def takers(cluster: ManyNodes) -> dict[int, Node]:
    return {n: node for n, node in cluster.context.owners.items() if not node.is_draining}


def quiet(topic_id: UUID, partition: int) -> Rates:
    return QUIET


def rounds(
    cluster: ManyNodes, balancer: Balancer, count: int, rates: Mapping[tuple[UUID, int], Rates] | None = None
) -> list[int]:
    """How many moves each of so many rounds, a second apart, makes."""
    made = []
    for now_s in range(count):
        moves = balancer.plan(
            cluster.image, takers(cluster), lambda t, p: (rates or {}).get((t, p), QUIET), float(now_s)
        )
        records = move_records(cluster.context, moves)
        assert len(records) == len(moves)
        cluster.take(records)
        balancer.moved(moves, float(now_s))
        made.append(len(moves))
    return made


def minimal_moves(before: Mapping[int, int], live: int) -> int:
    """What has to leave the nodes that own too many, in the best case."""
    share, odd = divmod(sum(before.values()), live)
    wanted = sorted([share + 1] * odd + [share] * (live - odd), reverse=True)
    return sum(max(own - target, 0) for own, target in zip(sorted(before.values(), reverse=True), wanted, strict=True))


@st.composite
def clusters(draw: st.DrawFn) -> ManyNodes:
    racks = st.sampled_from([None, "a", "b"])
    node_ids = list(range(2, draw(st.integers(3, 8))))
    cluster = ManyNodes(*(registered(node, rack=draw(racks)) for node in node_ids))
    for number in range(draw(st.integers(1, 4))):
        replicas = [
            tuple(draw(st.permutations(node_ids))[: draw(st.integers(1, len(node_ids)))])
            for _ in range(draw(st.integers(1, 12)))
        ]
        leaders = [draw(st.sampled_from(nodes)) for nodes in replicas]
        cluster.topic(f"t{number}", replicas, leaders=leaders)
    return cluster


@given(clusters())
def test_after_some_rounds_the_numbers_are_even_by_as_few_moves_as_possible(cluster: ManyNodes) -> None:
    before = owners_by_count(cluster.image, takers(cluster))
    lengths = {name: [len(p.replicas) for p in found.partitions] for name, found in cluster.image.topics.items()}
    made = rounds(cluster, Balancer(BalancerLimits(moves_min=5)), 15)
    after = owners_by_count(cluster.image, takers(cluster))
    assert max(after.values()) - min(after.values()) <= 1
    assert sum(made) == (minimal_moves(before, len(before)) if max(before.values()) - min(before.values()) > 1 else 0)
    require_sound(cluster.image)
    for name, found in cluster.image.topics.items():
        assert [len(partition.replicas) for partition in found.partitions] == lengths[name]


@given(clusters(), st.integers(1, 4))
def test_a_round_has_its_limit_and_says_why(cluster: ManyNodes, moves_max: int) -> None:
    counts = owners_by_count(cluster.image, takers(cluster))
    moves = equalize(cluster.image, takers(cluster), lambda key: True, moves_max)
    assert len(moves) == min(
        moves_max, minimal_moves(counts, len(counts)) if max(counts.values()) - min(counts.values()) > 1 else 0
    )
    assert len({(move.topic_id, move.partition) for move in moves}) == len(moves)
    for move in moves:
        given_away, taken = counts[move.from_node], counts[move.to_node]
        plural = "" if given_away == 1 else "s"
        assert move.reason == (
            f"node {move.from_node} owns {given_away} partition{plural}, node {move.to_node} owns {taken}"
        )
        assert given_away > taken


def test_from_one_node_to_three_within_ten_rounds() -> None:
    cluster = ManyNodes(registered(2))
    for number in range(10):
        cluster.topic(f"t{number}", [(2,)] * 30)
    cluster.take([registered(3), registered(4)])
    made = rounds(cluster, Balancer(BalancerLimits()), 10)
    assert made[:4] == [50, 50, 50, 50] and sum(made) == 200
    assert set(owners_by_count(cluster.image, takers(cluster)).values()) == {100}
    for found in cluster.image.topics.values():
        assert Counter(p.leader for p in found.partitions) == {2: 10, 3: 10, 4: 10}
        assert all(p.replicas == (p.leader,) for p in found.partitions)


def test_preferred_nodes_come_first_then_replicas_then_anybody() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    topic_id = cluster.topic("t", [(2,), (2, 3), (3, 2), (2,), (2, 3), (2,)], leaders=[2] * 6)
    moves = equalize(cluster.image, takers(cluster), lambda key: True, 10)
    assert moves[0].partition == 2
    assert {move.partition for move in moves[1:]} == {1, 4}
    cluster.take(move_records(cluster.context, moves))
    assert cluster.partitions("t")[2].replicas == (3, 2)
    assert {change.reason for change in cluster.state.history.of(topic_id, 2)} == {
        "node 2 owns 6 partitions, node 3 owns 0"
    }


def test_topics_stay_spread() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    cluster.topic("a", [(2,)] * 8 + [(3,)])
    cluster.topic("b", [(2,), (3,)])
    moves = equalize(cluster.image, takers(cluster), lambda key: True, 50)
    assert Counter(move.topic_name for move in moves) == {"a": 3}


def test_nodes_being_drained_and_nodes_without_the_role_get_nothing() -> None:
    cluster = ManyNodes(registered(2), registered(3), registered(4, draining=True), registered(5, roles=("proxy",)))
    cluster.topic("t", [(2,)] * 9 + [(4,)])
    rounds(cluster, Balancer(BalancerLimits()), 3)
    assert owners_by_count(cluster.image, [2, 3, 4, 5]) == {2: 5, 3: 4, 4: 1, 5: 0}


def test_nothing_moves_twice_within_the_cooldown() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    cluster.topic("t", [(2,)] * 8)
    balancer = Balancer(BalancerLimits(cooldown_s=30))
    moves = balancer.plan(cluster.image, takers(cluster), quiet, 0.0)
    cluster.take(move_records(cluster.context, moves))
    balancer.moved(moves, 0.0)
    moved = {move.partition for move in moves}
    assert len(moved) == 4
    # Somebody moves two others there as well: only those may go back before the cooldown is over.
    back = [p.partition for p in cluster.partitions("t") if p.leader == 2][:2]
    cluster.take([cluster.context.new_leader_epoch(cluster.image.topics["t"].topic_id, cluster.partitions("t")[p], 3, (3,),
                  takers(cluster), "by hand") for p in back])  # fmt: skip
    assert {move.partition for move in balancer.plan(cluster.image, takers(cluster), quiet, 29.0)} <= set(back)
    assert len(balancer.plan(cluster.image, takers(cluster), quiet, 31.0)) == 2


# --- load


def busy(mb_in_s: float) -> Rates:
    return Rates(bytes_in=mb_in_s * 1e6)


def load_of(cluster: ManyNodes, rates: Mapping[tuple[UUID, int], Rates]) -> dict[int, float]:
    loads = dict.fromkeys(takers(cluster), 0.0)
    for found in cluster.image.topics.values():
        for partition in found.partitions:
            loads[partition.leader] += rates.get((found.topic_id, partition.partition), QUIET).bytes_in / 1e6
    return loads


def test_what_an_operator_placed_stays_for_a_while() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    topic_id = cluster.topic("t", [(2, 3)] * 6)
    balancer = Balancer(BalancerLimits())
    balancer.placed([(topic_id, number) for number in range(6)], 0.0)
    assert rounds(cluster, balancer, 3) == [0, 0, 0]
    moves = balancer.plan(cluster.image, takers(cluster), quiet, 601.0)
    assert len(moves) == 3


def test_hot_partitions_change_places_with_quiet_ones() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    topic_id = cluster.topic("t", [(2,), (2,), (2,), (3,), (3,), (3,)])
    rates = {(topic_id, number): busy(mb) for number, mb in enumerate([30, 20, 10, 1, 1, 1])}
    balancer = Balancer(BalancerLimits())
    moves = balancer.plan(cluster.image, takers(cluster), lambda t, p: rates[t, p], 0.0)
    assert moves[0].reason == "node 2 carries 60.0 MB/s, node 3 3.0 MB/s"
    assert moves[1].reason.endswith("in exchange for a busier one")
    cluster.take(move_records(cluster.context, moves))
    balancer.moved(moves, 0.0)
    assert owners_by_count(cluster.image, [2, 3]) == {2: 3, 3: 3}
    loads = load_of(cluster, rates)
    assert max(loads.values()) <= 1.1 * sum(loads.values()) / 2
    assert sum(rounds(cluster, Balancer(BalancerLimits()), 60, rates)) == 0


def test_a_single_hot_partition_stays_where_it_is() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    topic_id = cluster.topic("t", [(2,), (3,)])
    assert sum(rounds(cluster, Balancer(BalancerLimits()), 60, {(topic_id, 0): busy(80)})) == 0


def test_a_little_more_than_the_average_is_nothing() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    topic_id = cluster.topic("t", [(2,), (2,), (3,), (3,)])
    rates = {(topic_id, number): busy(mb) for number, mb in enumerate([6, 6, 5, 4])}
    assert sum(rounds(cluster, Balancer(BalancerLimits()), 60, rates)) == 0
    tiny = {(topic_id, 0): busy(0.2), (topic_id, 1): busy(0.2)}
    assert sum(rounds(cluster, Balancer(BalancerLimits()), 60, tiny)) == 0


def test_small_requests_are_load_too() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    topic_id = cluster.topic("t", [(2,), (2,), (3,), (3,)])
    rates = {(topic_id, 0): Rates(requests=5_000), (topic_id, 1): Rates(requests=5_000)}
    assert sum(rounds(cluster, Balancer(BalancerLimits()), 2, rates)) == 2


@given(clusters(), st.data())
def test_relief_ends_and_never_makes_it_worse(cluster: ManyNodes, data: st.DataObject) -> None:
    rates = {
        (found.topic_id, partition.partition): busy(data.draw(st.sampled_from([0, 0, 1, 5, 40])))
        for found in cluster.image.topics.values()
        for partition in found.partitions
    }
    balancer = Balancer(BalancerLimits(cooldown_s=2.0, relief_pause_s=1.0, relief_interval_s=1.0))
    rounds(cluster, Balancer(BalancerLimits()), 5)
    worst = max(load_of(cluster, rates).values())
    made = 0
    for now_s in range(120):
        moves = balancer.plan(cluster.image, takers(cluster), lambda t, p: rates[t, p], float(now_s))
        cluster.take(move_records(cluster.context, moves))
        balancer.moved(moves, float(now_s))
        loads = load_of(cluster, rates)
        assert max(loads.values()) <= worst + 1e-6
        worst = max(loads.values())
        counts = owners_by_count(cluster.image, takers(cluster))
        assert max(counts.values()) - min(counts.values()) <= 1
        made += len(moves)
        if now_s >= 100:
            assert not moves
    assert made <= 120


def test_nothing_moves_to_a_node_that_is_drained_by_then() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    topic_id = cluster.topic("t", [(2,)] * 4, leaders=[2] * 4)
    moves = [Move(topic_id, "t", number, 2, 3, "a plan") for number in range(4)]
    assert len(move_records(cluster.context, moves)) == 4
    draining = replace(cluster.image.nodes[3], is_draining=True)
    context = replace(cluster.context, image=replace(cluster.image, nodes={**cluster.image.nodes, 3: draining}))
    assert move_records(context, moves) == []
