"""Planned moves of partitions between living nodes: plans that say why, and the records that carry them out. Decisions only.

A move is metadata: the next owner asks the present one to let go, and starts. Nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from bmq.controller.decision_context import DecisionContext
from bmq.controller.failover import NextOwners
from bmq.controller.replica_placement import replicas_including
from bmq.dataclass import dataclass
from bmq.protocol.metadata_records import PartitionChangeRecord


@dataclass(frozen=True, slots=True)
class Move:
    """A planned change of a partition's owner. `reason` is for operators and for the partition's history."""

    topic_id: UUID
    topic_name: str
    partition: int
    from_node: int
    to_node: int
    reason: str


def move_records(context: DecisionContext, moves: Iterable[Move]) -> list[PartitionChangeRecord]:
    """The records for these moves. Outdated ones (topic gone, other owner, a target that died or is being drained) are
    left out, and so is a second move of one partition."""
    live = context.owners
    seen = set[tuple[UUID, int]]()
    changes = []
    for move in moves:
        partition = context.image.partition(move.topic_id, move.partition)
        key = (move.topic_id, move.partition)
        if partition is None or key in seen or partition.leader != move.from_node or move.to_node == move.from_node:
            continue
        target = live.get(move.to_node)
        if target is None or target.is_draining:
            continue
        seen.add(key)
        replicas = replicas_including(partition.replicas, move.to_node, move.from_node, live)
        changes.append(context.new_leader_epoch(move.topic_id, partition, move.to_node, replicas, live, move.reason))
    return changes


def next_part(moves: Sequence[Move], is_in_use: Callable[[Move], bool], *, at_once: int, in_use_at_once: int) -> int:
    """How many moves, from the first on, go together: at least one if there is any."""
    in_use = 0
    for count, move in enumerate(moves[:at_once]):
        in_use += is_in_use(move)
        if in_use > in_use_at_once:
            return max(count, 1)
    return min(len(moves), at_once)


def drain_moves(context: DecisionContext, node_id: int, reason: str) -> list[Move]:
    """Moves of all the node's partitions, evenly, to live replicas where there are any. Empty when no other node
    accepts partitions."""
    others = {other: node for other, node in context.owners.items() if other != node_id and not node.is_draining}
    if not others:
        return []
    next_owners = NextOwners(context.image, others)
    moves = []
    for topic in context.image.logs():
        for partition in topic.partitions:
            if partition.leader == node_id:
                to_node, _ = next_owners.choose(partition)
                moves.append(Move(topic.topic_id, topic.name, partition.partition, node_id, to_node, reason))
    return moves
