"""Reads a partition's directory in the store: the closed files, their offsets, and which transactions are decided.

It takes no lock; what it does not show (open segments, segments without an index yet, files that vanish meanwhile) is
read through a proxy instead.
"""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.manifest import Extent
from bmq.log.names import partition_directory
from bmq.log.partition_log import TopicPartition
from bmq.log.partition_view import PartitionView, SegmentView, view_partition
from bmq.log.producer_state import CorruptSnapshot, ProducerStates
from bmq.log.recovery import load_index
from bmq.log.segment_index import SegmentIndex
from bmq.log.store import FileMissing, SegmentStore
from bmq.spark.source.plan import ClosedSegment, PartitionSnapshot, closed_segment, needs_index

LOADS_MAX: Final = 4
"""Indexes of one partition read concurrently; one may have some MB."""


async def snapshot_partition(
    store: SegmentStore,
    topic: str,
    topic_id: UUID,
    partition: int,
    *,
    start: int,
    end: int,
    is_committed: bool,
    bytes_per_partition: int,
) -> PartitionSnapshot:
    """The snapshot for reading [start, end). Raises StoreError, CorruptParts (both name the file)."""
    directory = partition_directory(TopicPartition(topic_id, partition))
    nothing = PartitionSnapshot(topic, str(topic_id), partition)
    if start >= end:
        return nothing
    try:
        view = await view_partition(store, directory)
    except FileMissing:
        return nothing  # never written to; or deleted, which the proxy will report
    if view.manifest is None:
        return nothing
    loads = _IndexLoads(store, view)
    closed = [
        segment for segment in view.segments if segment.base_offset is not None and segment.end_offset is not None
    ]

    async def read(segment: SegmentView, base: int, behind: int) -> ClosedSegment:
        wanted = needs_index(
            base, behind, segment.valid_bytes, start=start, end=end, bytes_per_partition=bytes_per_partition
        )
        index = await loads.index(segment) if wanted else None
        return closed_segment(segment.path, index, segment.file_id, base, behind, segment.valid_bytes)

    found = await asyncio.gather(
        *(
            read(segment, segment.base_offset, segment.end_offset)
            for segment in closed
            if segment.base_offset is not None and segment.end_offset is not None
            if segment.end_offset > start and segment.base_offset < end
        )
    )
    open_bytes = sum(segment.valid_bytes for segment in view.segments if segment.end_offset is None)
    if not is_committed:
        return PartitionSnapshot(topic, str(topic_id), partition, tuple(found), open_bytes=open_bytes)
    decided, aborted = await _decided(view, closed, loads)
    return PartitionSnapshot(topic, str(topic_id), partition, tuple(found), decided, open_bytes, aborted)


async def _decided(
    view: PartitionView, closed: list[SegmentView], loads: _IndexLoads
) -> tuple[int, AbortedTransactions]:
    """The offset up to which all transactions' ends are known, and the aborted transactions.

    A transaction open at the end of the last closed segment may have been aborted since: from its first offset on
    nothing is decided. Without the producer state nothing is decided at all.
    """
    manifest = view.manifest
    aborted = AbortedTransactions()
    if manifest is None or not closed:
        return 0, aborted
    aborted.extend(manifest.aborted)
    producers, end_offset = manifest.producers, manifest.end_offset
    following = [segment for segment in closed if segment.base_offset is not None and segment.base_offset >= end_offset]
    if not following and producers is None and (index := await loads.index(closed[-1])) is not None:
        producers = index.producers
    for segment in following:
        index = await loads.index(segment)
        if index is None or index.summary.base_offset != end_offset:
            break
        aborted.extend(index.aborted)
        producers, end_offset = index.producers, index.summary.end_offset
    if not producers:
        return 0, aborted
    try:
        return ProducerStates.decode_snapshot(producers).last_stable_offset(end_offset), aborted
    except CorruptSnapshot:
        return 0, aborted


class _IndexLoads:
    """Reads indexes of one partition, a few at a time."""

    def __init__(self, store: SegmentStore, view: PartitionView) -> None:
        self._store = store
        self._paths = view.paths
        self._extents: dict[tuple[int, int], Extent] = (
            {(extent.leader_epoch, extent.roll): extent for extent in view.manifest.extents} if view.manifest else {}
        )
        self._turns = asyncio.Semaphore(LOADS_MAX)

    async def index(self, segment: SegmentView) -> SegmentIndex | None:
        """None when it is missing or invalid: then the whole segment is read."""
        epoch, roll = segment.leader_epoch, segment.roll
        extent = self._extents.get((epoch, roll)) or Extent(
            epoch, roll, epoch, segment.file_id, segment.file_bytes, 0, segment.valid_bytes, 0, 0, -1
        )
        async with self._turns:
            return await load_index(self._store, self._paths, extent)
