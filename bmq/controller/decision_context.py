"""The inputs for decisions about nodes and owners, at one moment. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from uuid import UUID

from bmq.controller.replica_placement import owner_nodes
from bmq.metadata.image import MetadataImage, Node, PartitionImage
from bmq.protocol.metadata_records import PartitionChangeRecord, RegisterBrokerRecord

FloorOf = Callable[[UUID, PartitionImage], int]
"""The greatest known high watermark of a partition (rule 5)."""
IsInUse = Callable[[UUID, PartitionImage], bool]
"""Whether a client wrote to a partition or read from it a moment ago."""


@dataclass(frozen=True)
class DecisionContext:
    """`registrations`: of all nodes, fenced ones too. `next_offset`: of the first record this decision writes. `cut_off`:
    nodes that alone do not reach the store.
    """

    image: MetadataImage
    registrations: Mapping[int, RegisterBrokerRecord]
    features: Mapping[str, int]
    next_offset: int
    floor_of: FloorOf
    is_in_use: IsInUse
    now_ms: int
    cut_off: Collection[int] = ()

    @cached_property
    def owners(self) -> dict[int, Node]:
        """The live nodes that may own partitions. Those cut off from the store count as draining: they get no new ones."""
        owners = owner_nodes(self.image.nodes)
        for node_id in self.cut_off:
            if node_id in owners:
                owners[node_id] = replace(owners[node_id], is_draining=True)
        return owners

    def new_leader_epoch(
        self,
        topic_id: UUID,
        partition: PartitionImage,
        leader: int,
        replicas: tuple[int, ...],
        live: Mapping[int, Node],
        reason: str,
        *,
        floor: int | None = None,
    ) -> PartitionChangeRecord:
        """`leader` (NO_LEADER: nobody) leads from now on, with all data known to be acknowledged as its floor.

        `floor`: replaces that floor when an operator accepts a loss.
        """
        isr = tuple(node for node in replicas if node in live)
        known = self.floor_of(topic_id, partition) if floor is None else floor
        return PartitionChangeRecord(
            partition_id=partition.partition,
            topic_id=topic_id,
            leader=leader,
            replicas=replicas if replicas != partition.replicas else None,
            isr=isr if isr != partition.isr else None,
            high_watermark_floor=known,
            reason=reason,
            timestamp_ms=self.now_ms,
            is_in_use=self.is_in_use(topic_id, partition),
        )
