"""Chooses a partition's next owner when its owner is dead, in a cluster of many nodes. Decisions only.

An owner stays for as long as it lives: a preferred replica that comes back takes nothing over by itself; only the
balancer moves partitions. The next owner is the live replica that owns least; without a live replica the partition is
placed anew: all its data is in the store, so waiting for its old nodes would gain nothing. While no node lives that
could own it, a partition keeps its owner: that node may only be cut off from the controller, and still serve.

A dead node may have owned thousands of partitions. Every process of the cluster has to apply the change of each, so the
first batch of records names the next owners of partitions in use, and idle partitions follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from bmq.controller.decision import Decision
from bmq.controller.decision_context import DecisionContext
from bmq.controller.replica_placement import replicas_anew, replicas_including, willing_nodes
from bmq.metadata.image import INTERNAL_TOPICS, NO_LEADER, MetadataImage, Node, PartitionImage, TopicImage
from bmq.protocol.metadata_records import PartitionChangeRecord

FAILOVERS_AT_FIRST: Final = 200
"""This many partitions get their next owners together with the record that fences their old one."""
IDLE_FAILOVER_DELAY_MS: Final = 300
"""Pause after one more batch of that size, before the remaining partitions get theirs."""


def owner_counts(image: MetadataImage, nodes: Mapping[int, Node]) -> dict[int, int]:
    """How many partitions each of the nodes owns."""
    counts = dict.fromkeys(nodes, 0)
    for topic in image.logs():
        for partition in topic.partitions:
            if partition.leader in counts:
                counts[partition.leader] += 1
    return counts


class NextOwners:
    """Chooses owners one after the other, each time the node that owns least. `nodes`: live nodes that may own."""

    def __init__(self, image: MetadataImage, nodes: Mapping[int, Node]) -> None:
        self._nodes = nodes
        self._willing = willing_nodes(nodes)
        self._counts = owner_counts(image, nodes)

    def choose(self, partition: PartitionImage) -> tuple[int, tuple[int, ...]]:
        """The next owner and the replicas; NO_LEADER when no node can own it."""
        counts, replicas = self._counts, partition.replicas
        able = [node for node in replicas if node in self._willing and node != partition.leader]
        others = able or [node for node in self._willing if node != partition.leader]
        if not others:
            return NO_LEADER, replicas
        owner = min(others, key=counts.__getitem__)
        counts[owner] += 1
        if not able:
            has_live = any(node in self._nodes for node in replicas)
            replicas = (
                replicas_including(replicas, owner, partition.leader, self._nodes)
                if has_live
                else replicas_anew(replicas, owner, self._nodes)
            )
        return owner, replicas


def failovers(
    context: DecisionContext, live: Mapping[int, Node], reasons: Mapping[int, str], count_max: int | None = None
) -> list[PartitionChangeRecord]:
    """New owners among `live` for every partition whose owner is not one of them; `reasons` by old owner.

    `count_max` limits how many: internal topics come first, then partitions in use. Empty when `live` is.
    """
    if not live:
        return []
    without = [
        (topic, partition)
        for topic in context.image.logs()
        for partition in topic.partitions
        if partition.leader not in live
    ]
    if count_max is not None and len(without) > count_max:
        without.sort(key=lambda each: _patience(context, *each))
        del without[count_max:]
    next_owners = NextOwners(context.image, live)
    changes = []
    for topic, partition in without:
        owner, replicas = next_owners.choose(partition)
        reason = reasons.get(partition.leader) or _without_owner(partition.leader)
        changes.append(context.new_leader_epoch(topic.topic_id, partition, owner, replicas, live, reason))
    return changes


def decide_remaining_failovers(context: DecisionContext, reasons: Mapping[int, str], count_max: int) -> Decision[bool]:
    """New owners for at most `count_max` partitions without a live one; True when none are left."""
    changes = failovers(context, context.owners, reasons, count_max)
    return Decision(len(changes) < count_max, changes)


def abandonments(context: DecisionContext, node_id: int, reason: str) -> list[PartitionChangeRecord]:
    """Leave the node's partitions without a leader, so that its next incarnation cannot go on under their epochs."""
    return [
        context.new_leader_epoch(topic_id, partition, NO_LEADER, partition.replicas, context.owners, reason)
        for topic_id, partition in owned_by(context.image, node_id)
    ]


def owned_by(image: MetadataImage, node_id: int) -> list[tuple[UUID, PartitionImage]]:
    """(topic id, partition) of all partitions that a node owns."""
    return [
        (topic.topic_id, partition)
        for topic in image.logs()
        for partition in topic.partitions
        if partition.leader == node_id
    ]


def owns_any(image: MetadataImage, node_id: int) -> bool:
    """Whether a node owns any partition."""
    return any(partition.leader == node_id for topic in image.logs() for partition in topic.partitions)


def replica_changes(context: DecisionContext, count_max: int) -> list[PartitionChangeRecord]:
    """Brings `isr` up to date without changing owners: a limited number at a time, since nobody waits for that."""
    live = context.owners
    changes = []
    for topic in context.image.logs():
        for partition in topic.partitions:
            isr = tuple(node for node in partition.replicas if node in live)
            if isr != partition.isr:
                changes.append(
                    PartitionChangeRecord(partition_id=partition.partition, topic_id=topic.topic_id, isr=isr)
                )
                if len(changes) >= count_max:
                    return changes
    return changes


def _patience(context: DecisionContext, topic: TopicImage, partition: PartitionImage) -> int:
    """Failover order, lowest first: internal topics, which many clients wait for, partitions in use, idle ones."""
    if topic.name in INTERNAL_TOPICS:
        return 0
    return 1 if context.is_in_use(topic.topic_id, partition) else 2


def _without_owner(node_id: int) -> str:
    return "it had no owner" if node_id == NO_LEADER else f"node {node_id} does not live"
