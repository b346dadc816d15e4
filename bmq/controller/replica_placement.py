"""Places partitions on nodes, and chooses their owners if one process is the whole cluster. Decisions only.

A partition's replicas are the nodes that may own it, the preferred one first; none of them holds data, so any node can
take any partition over at once. The first owner is the first live replica. A node's new incarnation is a new owner: its
partitions get a new leader epoch even when nothing else changes, because an epoch is never used twice. failover.py
chooses the next owner in a cluster of many nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from bmq.metadata.image import NO_LEADER, ROLE_BROKER, MetadataImage, Node, PartitionImage
from bmq.protocol.metadata_records import LEADER_UNCHANGED, NO_TIMESTAMP_MS, PartitionChangeRecord


def owner_nodes(nodes: Mapping[int, Node]) -> dict[int, Node]:
    """The live nodes that may own partitions: those with the broker role."""
    return {node_id: node for node_id, node in nodes.items() if ROLE_BROKER in node.roles}


def willing_nodes(owners: Mapping[int, Node]) -> dict[int, Node]:
    """Nodes that accept new partitions: all that are not draining; the draining ones too when there are no others."""
    willing = {node_id: node for node_id, node in owners.items() if not node.is_draining}
    return willing or dict(owners)


def place(nodes: Mapping[int, Node], count: int, replication_factor: int, shift: int) -> list[tuple[int, ...]]:
    """Replicas for `count` partitions over live nodes: first replicas in turn, each partition's spread over racks.

    `shift` rotates the order of nodes, so that the first partitions of many small topics do not share a node. The
    replication factor must not exceed the number of nodes. Draining nodes come last, and only if there are too few
    others.
    """
    if not 0 < replication_factor <= len(nodes):
        raise ValueError(f"{replication_factor} replicas over {len(nodes)} nodes")
    willing = willing_nodes(nodes)
    circle = _by_turns_of_rack(willing)
    size = len(circle)
    emptied = _by_turns_of_rack({n: node for n, node in nodes.items() if n not in willing})
    last = emptied[: max(replication_factor - size, 0)]
    placed = []
    for partition in range(count):
        first = (shift + partition) % size
        # With every full turn the later replicas start one node further, so that a dead node's partitions go to many
        # others.
        skip = (shift + partition) // size % max(size - 1, 1)
        others = [circle[(first + 1 + (skip + n) % (size - 1)) % size] for n in range(size - 1)] if size > 1 else []
        placed.append(_spread(nodes, [circle[first], *others, *last], replication_factor))
    return placed


def replicas_including(
    replicas: tuple[int, ...], owner: int, leaving: int, nodes: Mapping[int, Node]
) -> tuple[int, ...]:
    """`replicas` with `owner` among them, as many as before; a new owner becomes the preferred replica.

    It replaces a dead node, or one whose rack stays covered by the others; of several candidates, `leaving`.
    """
    if owner in replicas:
        return replicas
    if not replicas:
        return (owner,)

    def worth_dropping(dropped: int) -> tuple[int, bool, int]:
        left = [owner, *(node for node in replicas if node != dropped)]
        racks = {nodes[node].rack or f"node {node}" for node in left if node in nodes}
        return len(racks), dropped == leaving, replicas.index(dropped)

    dropped = max(replicas, key=worth_dropping)
    return (owner, *(node for node in replicas if node != dropped))


def replicas_anew(replicas: tuple[int, ...], owner: int, nodes: Mapping[int, Node]) -> tuple[int, ...]:
    """New replicas for a partition without a live one: `owner`, other live nodes, and old ones if too few live."""
    circle = _by_turns_of_rack(willing_nodes(nodes))
    start = circle.index(owner) if owner in circle else 0
    others = [node for node in (*circle[start:], *circle[:start]) if node != owner]
    factor = max(len(replicas), 1)
    chosen = _spread(nodes, [owner, *others], min(factor, 1 + len(others)))
    return (*chosen, *(node for node in replicas if node not in chosen))[:factor]


def first_live(replicas: Iterable[int], live: Collection[int]) -> int:
    """The owner of a partition with these replicas: the first live one; NO_LEADER when none lives."""
    return next((node for node in replicas if node in live), NO_LEADER)


def new_partition(number: int, replicas: tuple[int, ...], live: Mapping[int, Node]) -> PartitionImage:
    """A partition's first state."""
    isr = tuple(node for node in replicas if node in live)
    willing = [node for node in isr if not live[node].is_draining]
    return PartitionImage(number, first_live(willing or replicas, live), 0, replicas, isr)


def leader_changes(
    image: MetadataImage,
    live: Mapping[int, Node],
    incarnation_of: int | None = None,
    *,
    reason: str = "",
    now_ms: int = NO_TIMESTAMP_MS,
) -> list[PartitionChangeRecord]:
    """The changes when the nodes in `live` live now and `incarnation_of` is one that has just started.

    A partition without any live replica is placed anew: all its data is in the store, so waiting for its old nodes
    would gain nothing. With no live node at all nothing changes.
    """
    if not live:
        return []
    changes = []
    for topic in image.logs():
        for partition in topic.partitions:
            change = _change(topic.topic_id, partition, live, incarnation_of, reason, now_ms)
            if change is not None:
                changes.append(change)
    return changes


def _change(
    topic_id: UUID,
    partition: PartitionImage,
    live: Mapping[int, Node],
    incarnation_of: int | None,
    reason: str,
    now_ms: int,
) -> PartitionChangeRecord | None:
    replicas = partition.replicas
    leader = first_live(replicas, live)
    if leader == NO_LEADER:
        factor = min(max(len(replicas), 1), len(live))
        replicas = place(live, 1, factor, topic_id.int + partition.partition)[0]
        leader = replicas[0]
    isr = tuple(node for node in replicas if node in live)
    has_new_owner = leader != partition.leader or leader == incarnation_of
    if not has_new_owner and isr == partition.isr and replicas == partition.replicas:
        return None
    return PartitionChangeRecord(
        partition_id=partition.partition,
        topic_id=topic_id,
        leader=leader if has_new_owner else LEADER_UNCHANGED,
        replicas=replicas if replicas != partition.replicas else None,
        isr=isr if isr != partition.isr else None,
        reason=reason if has_new_owner else "",
        timestamp_ms=now_ms if has_new_owner else NO_TIMESTAMP_MS,
    )


def _by_turns_of_rack(nodes: Mapping[int, Node]) -> list[int]:
    """Node ids in an order whose neighbours are in different racks as far as possible."""
    racks: dict[str, list[int]] = {}
    for node_id in sorted(nodes):
        racks.setdefault(nodes[node_id].rack or "", []).append(node_id)
    queues = [racks[rack] for rack in sorted(racks)]
    longest = max((len(queue) for queue in queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def _spread(nodes: Mapping[int, Node], candidates: list[int], count: int) -> tuple[int, ...]:
    """The first candidate, then those in racks not used yet, then the rest, each in the order given."""
    chosen: list[int] = []
    taken: set[str | None] = set()
    for node_id in candidates:
        rack = nodes[node_id].rack
        if len(chosen) < count and (rack is None or rack not in taken):
            chosen.append(node_id)
            taken.add(rack)
    for node_id in candidates:
        if len(chosen) < count and node_id not in chosen:
            chosen.append(node_id)
    return tuple(chosen)
