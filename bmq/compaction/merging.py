"""Carries out a plan that merges segments: reads their batches, checks them, and gives the very same ones, group by group.

It only reads the store, as bmq.compaction.cleaning does. Padding between batches is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from bmq.compaction.log_cleaner import CleanedBatch
from bmq.compaction.output import OUT_BYTES, Output
from bmq.log.compaction import CleanedBytes, CleanedGroup, CleaningEnd, CleaningEvent, CleaningPlan
from bmq.log.manifest import Extent
from bmq.log.names import is_cleaned
from bmq.log.origin import DamagedBatch, Origin
from bmq.log.segment_reader import BadBatch, BatchRun, SegmentReader
from bmq.log.store import SegmentStore


async def merge(store: SegmentStore, plan: CleaningPlan, *, chunk_bytes: int) -> AsyncGenerator[CleaningEvent]:
    """The events of one merge, the last one a CleaningEnd. Raises DamagedBatch, StoreError."""
    bytes_read = bytes_kept = record_count = 0
    for group, paths in zip(plan.groups, plan.paths, strict=True):
        output = Output(group, plan.index_interval_bytes)
        for extent, path in zip(group, paths, strict=True):
            origin = Origin(plan.topic, plan.partition, path, extent.position)
            reader = SegmentReader(
                store,
                path,
                file_id=extent.file_id,
                position=extent.position,
                valid_bytes=extent.valid_bytes,
                chunk_bytes=chunk_bytes,
            )
            due_offset = extent.base_offset
            try:
                while (run := await reader.next_run()) is not None:
                    due_offset = _add(run, extent, origin, due_offset, output)
                    if output.size_bytes >= OUT_BYTES:
                        yield CleanedBytes(output.take())
                    # Let the one who reads the events stop us between two reads.
                    await asyncio.sleep(0)
            except BadBatch as error:
                raise DamagedBatch(origin, error.position - extent.position, due_offset, str(error)) from error
            if due_offset != extent.end_offset:
                reason = f"the segment ends at offset {due_offset}, and {extent.end_offset} was due"
                raise DamagedBatch(origin, extent.length, due_offset, reason)
        if output.size_bytes:
            yield CleanedBytes(output.take())
        yield CleanedGroup(len(group), output.index(), ())
        bytes_read += sum(extent.length for extent in group)
        bytes_kept += output.position
        record_count += output.record_count
    yield CleaningEnd(plan.first_dirty_offset, record_count, record_count, bytes_read, bytes_kept)


def _add(run: BatchRun, extent: Extent, origin: Origin, due_offset: int, output: Output) -> int:
    """Add the batches; the offset behind them. A batch's checksum covers neither its offset nor its leader epoch.

    Raises DamagedBatch.
    """
    has_epochs = is_cleaned(extent.roll)
    found = []
    for place, header in run.batches:
        is_of_epoch = (
            header.leader_epoch <= extent.leader_epoch if has_epochs else header.leader_epoch == extent.leader_epoch
        )
        if header.base_offset != due_offset or not is_of_epoch:
            reason = (
                f"a batch has offset {header.base_offset} of leader epoch {header.leader_epoch}, "
                f"and {due_offset} of {extent.leader_epoch} was due"
            )
            raise DamagedBatch(origin, run.position + place - extent.position, header.base_offset, reason)
        found.append(CleanedBatch(header, run.data[place : place + header.size_bytes]))
        due_offset = header.end_offset
    output.add(found)
    return due_offset
