"""Operators' orders, and the plan for each. Decisions only.

A plan is made against one image; the same plan is shown by a dry run and carried out by Operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from bmq.controller.balancer import equalize
from bmq.controller.failover import NextOwners
from bmq.controller.moves import Move
from bmq.controller.replica_placement import owner_nodes
from bmq.dataclass import dataclass
from bmq.metadata.image import ROLE_BROKER, MetadataImage, Node, PartitionImage, TopicImage
from bmq.protocol.errors import BmqError


class UnknownSubject(BmqError):
    """A node, topic or partition that the cluster does not have."""


class OrderRefused(BmqError):
    """The cluster's present state does not allow it."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Take every partition away from a node and give it none, until it is undrained or gone."""

    node_id: int


@dataclass(frozen=True, slots=True)
class Undrain:
    node_id: int


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Spread the partitions over the brokers again."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Start or stop nodes until there are this many brokers."""

    brokers: int


@dataclass(frozen=True, slots=True)
class MovePartition:
    topic: str
    partition: int
    to_node: int


Order = Drain | Undrain | Rebalance | Scale | MovePartition


def kind_of(order: Order) -> str:
    match order:
        case Drain():
            return "drain"
        case Undrain():
            return "undrain"
        case Rebalance():
            return "rebalance"
        case Scale():
            return "scale"
        case MovePartition():
            return "move"


def subject_of(order: Order) -> str:
    """The subject of the order, in a few words."""
    match order:
        case Drain(node_id) | Undrain(node_id):
            return f"node {node_id}"
        case Rebalance():
            return "all brokers"
        case Scale(brokers):
            return f"{brokers} broker" if brokers == 1 else f"{brokers} brokers"
        case MovePartition(topic, partition, to_node):
            return f"{topic}-{partition} to node {to_node}"


def exclude_each_other(first: Order, second: Order) -> bool:
    """Whether the two orders may not run at the same time, because each would undo the other's work."""
    match first, second:
        case ((Scale() | Rebalance()), (Scale() | Rebalance())):
            return True
        case (Drain(node_id), Drain(other)) | (Undrain(node_id), Undrain(other)):
            return node_id == other
        case (Scale(), Drain() | Undrain()) | (Drain() | Undrain(), Scale()):
            return True
        case MovePartition(topic, partition, _), MovePartition(other_topic, other_partition, _):
            return (topic, partition) == (other_topic, other_partition)
    return False


@dataclass(frozen=True, slots=True)
class Plan:
    """`summary`: one sentence. `start`, `stop`: ids of nodes that the driver starts or stops."""

    summary: str
    moves: Sequence[Move] = ()
    start: Sequence[int] = ()
    stop: Sequence[int] = ()


# --- looking at an image


def partitions_of(image: MetadataImage) -> Iterator[tuple[TopicImage, PartitionImage]]:
    for topic in image.logs():
        for partition in topic.partitions:
            yield topic, partition


def led_counts(image: MetadataImage) -> Counter[int]:
    """How many partitions each node leads; NO_LEADER among them."""
    return Counter(partition.leader for _, partition in partitions_of(image))


def node_of(image: MetadataImage, node_id: int) -> Node:
    """Raises UnknownSubject."""
    node = image.nodes.get(node_id)
    if node is None:
        live = ", ".join(str(each) for each in sorted(image.nodes)) or "none"
        raise UnknownSubject(f"there is no live node {node_id}; live are: {live}")
    return node


def topic_of(image: MetadataImage, name: str) -> TopicImage:
    """Raises UnknownSubject."""
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownSubject(f"there is no topic {name}")
    return topic


def partition_of(topic: TopicImage, number: int) -> PartitionImage:
    """Raises UnknownSubject."""
    partition = topic.partition(number)
    if partition is not None:
        return partition
    raise UnknownSubject(f"topic {topic.name} has no partition {number}; it has {len(topic.partitions)}")


# --- planning


def check_drain(image: MetadataImage, node_id: int) -> None:
    """Raises UnknownSubject, OrderRefused when no other node could take over the node's partitions."""
    node_of(image, node_id)
    if not takers_of(image, without=(node_id,)) and led_counts(image)[node_id]:
        raise OrderRefused(f"no other broker takes partitions on, so node {node_id} cannot give its own away")


def plan_move(image: MetadataImage, order: MovePartition) -> Plan:
    """Raises UnknownSubject, OrderRefused."""
    topic = topic_of(image, order.topic)
    if topic.view is not None:
        raise OrderRefused(
            f"{topic.name} is a view: move the partition of {topic.view.base_name}, whose records it shows"
        )
    partition = partition_of(topic, order.partition)
    node = node_of(image, order.to_node)
    if ROLE_BROKER not in node.roles:
        raise OrderRefused(f"node {order.to_node} has no broker role, so it cannot own a partition")
    if node.is_draining:
        raise OrderRefused(f"node {order.to_node} is being drained and takes no partitions on")
    name = f"{topic.name}-{partition.partition}"
    if partition.leader == order.to_node:
        return Plan(f"Node {order.to_node} owns {name} already.")
    move = Move(
        topic.topic_id, topic.name, partition.partition, partition.leader, order.to_node, "an operator wants it there"
    )
    return Plan(f"{name} moves from node {partition.leader} to node {order.to_node}.", (move,))


def choose_to_stop(
    count: int,
    managed: Collection[int],
    led: Mapping[int, int],
    draining: Collection[int],
    controller_id: int,
    *,
    is_in_order: bool,
) -> tuple[int, ...]:
    """The `count` nodes to give up, in the order to stop them, of those that the driver manages.

    Nodes that lead least go first, on a tie drained ones; the active controller's node goes last. `is_in_order`: the
    driver can stop only the highest id, so only ids count. Raises OrderRefused when too few are managed.
    """
    if count > len(managed):
        ids = ", ".join(str(node_id) for node_id in sorted(managed)) or "none"
        raise OrderRefused(
            f"{count} of the brokers would have to go, and the driver manages only these: {ids}; stop the others where they run"
        )
    if is_in_order:
        return tuple(sorted(managed, reverse=True)[:count])
    by_weight = sorted(
        managed,
        key=lambda node_id: (node_id == controller_id, led.get(node_id, 0), node_id not in draining, -node_id),
    )
    return tuple(by_weight[:count])


def takers_of(image: MetadataImage, without: Collection[int] = ()) -> dict[int, Node]:
    """Live brokers that accept partitions, by id."""
    brokers = owner_nodes(image.nodes)
    return {n: node for n, node in brokers.items() if n not in without and not node.is_draining}


def growth_moves(image: MetadataImage, start: Collection[int]) -> Sequence[Move]:
    """Moves that even the numbers out once these nodes are up too; without nodes: that even them out now."""
    coming = {node_id: Node(node_id, "", -1) for node_id in start}
    return equalize(image, {**takers_of(image), **coming}, lambda key: True, image.partition_count)


def shrink_moves(image: MetadataImage, stop: Collection[int]) -> Sequence[Move]:
    """Moves of these nodes' partitions to others. Raises OrderRefused when no node accepts them."""
    takers = takers_of(image, without=stop)
    next_owners = NextOwners(image, takers)
    moves = []
    for topic, partition in partitions_of(image):
        if partition.leader in stop:
            if not takers:
                raise OrderRefused("none of the brokers that would stay takes partitions on; undrain one of them first")
            to_node, _ = next_owners.choose(partition)
            reason = f"node {partition.leader} stops"
            moves.append(Move(topic.topic_id, topic.name, partition.partition, partition.leader, to_node, reason))
    return moves
