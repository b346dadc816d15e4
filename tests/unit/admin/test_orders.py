"""Plans: who is chosen, what moves, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.admin.orders import (
    Drain,
    MovePartition,
    OrderRefused,
    Rebalance,
    Scale,
    Undrain,
    UnknownSubject,
    check_drain,
    choose_to_stop,
    exclude_each_other,
    growth_moves,
    plan_move,
    shrink_moves,
)
from bmq.controller.moves import Move
from bmq.metadata.image import NO_LEADER, MetadataImage, Node
from tests.fakes.cluster_controller import image_of, topic_image

pytestmark = pytest.mark.unit


def node(node_id: int, *, roles: str = "broker,proxy", is_draining: bool = False) -> Node:
    return Node(node_id, "127.0.0.1", 9092, roles=frozenset(roles.split(",")), is_draining=is_draining)


LEADERS = st.lists(st.lists(st.integers(-1, 6), min_size=1, max_size=12), max_size=12)


def owners_after(image: MetadataImage, moves: Sequence[Move]) -> dict[tuple[str, int], int]:
    """Who owns each partition then; every move starts where the partition is, and none moves twice."""
    owner = {(topic.name, each.partition): each.leader for topic in image.topics.values() for each in topic.partitions}
    for move in moves:
        assert owner[move.topic_name, move.partition] == move.from_node != move.to_node
        owner[move.topic_name, move.partition] = move.to_node
    assert len({(move.topic_name, move.partition) for move in moves}) == len(moves)
    return owner


@given(leaders=LEADERS, coming=st.sets(st.integers(10, 14)), draining=st.sets(st.integers(0, 6)))
def test_after_growth_all_that_take_partitions_own_the_same(
    leaders: list[list[int]], coming: set[int], draining: set[int]
) -> None:
    nodes = [node(n, is_draining=n in draining) for n in range(7)]
    image = image_of(nodes, (topic_image(f"t{n}", n, each) for n, each in enumerate(leaders)))
    counts = Counter(owners_after(image, growth_moves(image, coming)).values())
    takers = ({*range(7)} - draining) | coming
    assert not takers or max(counts[taker] for taker in takers) - min(counts[taker] for taker in takers) <= 1


@given(leaders=LEADERS, stop=st.sets(st.integers(0, 6)), draining=st.sets(st.integers(0, 6)))
def test_those_that_stop_own_nothing_and_no_other_partition_moves(
    leaders: list[list[int]], stop: set[int], draining: set[int]
) -> None:
    nodes = [node(n, is_draining=n in draining) for n in range(7)]
    image = image_of(nodes, (topic_image(f"t{n}", n, each) for n, each in enumerate(leaders)))
    if {*range(7)} <= stop | draining and any(leader in stop for each in leaders for leader in each):
        with pytest.raises(OrderRefused, match="none of the brokers that would stay takes partitions on"):
            shrink_moves(image, stop)
        return
    moves = shrink_moves(image, stop)
    owners = owners_after(image, moves)
    assert not set(owners.values()) & stop
    assert {move.from_node for move in moves} <= stop
    assert not {move.to_node for move in moves} & draining


@given(
    led=st.dictionaries(st.integers(1, 8), st.integers(0, 50), min_size=1),
    data=st.data(),
    controller_id=st.integers(-1, 8),
    is_in_order=st.booleans(),
)
def test_choosing_whom_to_stop(led: dict[int, int], data: st.DataObject, controller_id: int, is_in_order: bool) -> None:
    managed = data.draw(st.sets(st.sampled_from(sorted(led)), min_size=1))
    count = data.draw(st.integers(1, len(managed)))
    chosen = choose_to_stop(count, managed, led, (), controller_id, is_in_order=is_in_order)
    assert len(set(chosen)) == count
    assert set(chosen) <= managed
    if is_in_order:
        assert chosen == tuple(sorted(managed, reverse=True)[:count])
        return
    if controller_id in chosen:
        assert count == len(managed), "the controller's node goes though another one could"
        assert chosen[-1] == controller_id
    stay = managed - set(chosen) - {controller_id}
    gone = set(chosen) - {controller_id}
    assert not stay or not gone or max(led[each] for each in gone) <= min(led[each] for each in stay)


def test_drained_nodes_stop_first_among_equals() -> None:
    assert choose_to_stop(1, {4, 5, 6}, {}, {4}, 1, is_in_order=False) == (4,)


def test_too_few_managed_nodes_are_named() -> None:
    with pytest.raises(OrderRefused, match="2 of the brokers would have to go, and the driver manages only these: 7;"):
        choose_to_stop(2, {7}, {}, (), 1, is_in_order=False)


def test_moving_one_partition() -> None:
    nodes = (node(1), node(2), node(3, roles="proxy"), node(4, is_draining=True))
    image = image_of(nodes, (topic_image("t", 1, [1, 2, NO_LEADER]),))
    (move,) = plan_move(image, MovePartition("t", 0, 2)).moves
    assert (move.topic_name, move.partition, move.from_node, move.to_node) == ("t", 0, 1, 2)
    assert plan_move(image, MovePartition("t", 1, 2)).moves == ()
    assert plan_move(image, MovePartition("t", 2, 2)).moves[0].from_node == NO_LEADER
    for order, error, sentence in (
        (MovePartition("u", 0, 2), UnknownSubject, "there is no topic u"),
        (MovePartition("t", 3, 2), UnknownSubject, "topic t has no partition 3; it has 3"),
        (MovePartition("t", 0, 9), UnknownSubject, "there is no live node 9; live are: 1, 2, 3, 4"),
        (MovePartition("t", 0, 3), OrderRefused, "node 3 has no broker role"),
        (MovePartition("t", 0, 4), OrderRefused, "node 4 is being drained"),
    ):
        with pytest.raises(error, match=sentence):
            plan_move(image, order)


def test_the_last_broker_cannot_be_drained_while_it_leads_something() -> None:
    nodes = (node(1), node(2, is_draining=True), node(3, roles="proxy"))
    with pytest.raises(OrderRefused, match="no other broker takes partitions on, so node 1 cannot"):
        check_drain(image_of(nodes, (topic_image("t", 1, [1]),)), 1)
    check_drain(image_of(nodes), 1)
    with pytest.raises(UnknownSubject, match="there is no live node 4"):
        check_drain(image_of(nodes), 4)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Scale(3), Scale(4), True),
        (Scale(3), Rebalance(), True),
        (Scale(3), Drain(1), True),
        (Scale(3), MovePartition("t", 0, 1), False),
        (Drain(1), Drain(1), True),
        (Drain(1), Drain(2), False),
        (Drain(1), Undrain(1), False),
        (Drain(1), Rebalance(), False),
        (MovePartition("t", 0, 1), MovePartition("t", 0, 2), True),
        (MovePartition("t", 0, 1), MovePartition("t", 1, 1), False),
    ],
)
def test_orders_that_would_undo_each_other(first: object, second: object, expected: bool) -> None:
    assert exclude_each_other(first, second) is expected  # type: ignore[arg-type]
    assert exclude_each_other(second, first) is expected  # type: ignore[arg-type]
