"""Proves that this process owns a partition at some moment after the question (rule 15)."""

from __future__ import annotations

from bmq.broker.own_segment import OwnSegment
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.partition_events import OwnershipLost
from bmq.broker.partition_states import Draining, Writing
from bmq.broker.segment_files import SegmentLifecycle
from bmq.log.store import FencedWriter, WriterBroken


class Ownership:
    """Whether this process owns one partition. A lost ownership ends its machine."""

    def __init__(self, partition: OwnedPartition, lifecycle: SegmentLifecycle) -> None:
        self._partition = partition
        self._lifecycle = lifecycle

    def open_segment(self) -> OwnSegment | None:
        """The segment whose writer is in use; None while there is none."""
        state = self._partition.state
        if isinstance(state, Writing | Draining):
            return self._lifecycle.segments.get(state.segment.roll)
        return None

    async def prove(self) -> None:
        """As PartitionLog.prove_ownership."""
        partition = self._partition
        if not partition.is_owning:
            raise FencedWriter("the partition is not owned here")
        segment = self.open_segment()
        try:
            if segment is None:
                await self._lifecycle.verify_claim()
            else:
                try:
                    await segment.writer.prove_ownership()
                except WriterBroken:
                    await self._lifecycle.verify_claim()  # no block of ours is open any more
                except FencedWriter:
                    if self.open_segment() is segment:
                        raise
                    # The segment was empty and was rolled meanwhile, so its writer is gone.
                    await self._lifecycle.verify_claim()
        except FencedWriter:
            partition.machine.feed(OwnershipLost())
            raise
        if not partition.is_owning:
            raise FencedWriter("the partition is not owned here any more")
