"""Finds records by time: the first at or past a timestamp, and the newest (ListOffsets, KIP-734).

Extents and their indexes narrow the search to a part of one file. Only batches of that part are read, and only one is opened. A
transaction's marker counts as a record, as in Kafka. Source: Kafka's UnifiedLog.fetchOffsetByTimestamp and
FileRecords.searchForTimestamp.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from bmq.log.manifest import Extent
from bmq.log.partition_files import PartitionFiles
from bmq.log.partition_log import Location
from bmq.log.segment_index import IndexBuilder
from bmq.log.segment_reader import SegmentReader
from bmq.protocol.batch_records import Record, iterate_records
from bmq.protocol.record_batch import NO_TIMESTAMP_MS, BatchHeader

LOOKUP_CHUNK_BYTES: Final = 128 * 1024
RECORDS_PER_TURN_MAX: Final = 1_000
"""Records of an opened batch that are read in one turn of the event loop: a compressed batch may have millions."""


async def find_offset(files: PartitionFiles, timestamp_ms: int, bound_offset: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the log's first record below `bound_offset` whose timestamp is at or past this one, or None.

    Raises BadBatch, FileMissing, CorruptFile, StorageUnavailable.
    """
    # Copy both lists before the first await: a segment that is sealed meanwhile moves from one to the other.
    extents, own = tuple(files.extents), files.own_segments()
    for extent in extents:
        if extent.max_timestamp_ms >= timestamp_ms and extent.end_offset > files.log_start_offset:
            index = await files.index_of(extent)
            location = files.location_in(extent, index.position_of_timestamp(timestamp_ms))
            found = await _first_in(files, location, timestamp_ms, bound_offset)
            if found is not None:
                return found
    for builder in own:
        if builder.max_timestamp_ms >= timestamp_ms and builder.end_offset > files.log_start_offset:
            location = files.location_in_own(builder, builder.position_of_timestamp(timestamp_ms))
            found = await _first_in(files, location, timestamp_ms, bound_offset)
            if found is not None:
                return found
    return None


async def find_max_timestamp(files: PartitionFiles) -> tuple[int, int] | None:
    """(offset, timestamp) of the first durable record with the greatest timestamp; None without one.

    Raises as `find_offset` does.
    """
    extents, own = tuple(files.extents), files.own_segments()
    every: tuple[Extent | IndexBuilder, ...] = (*extents, *own)
    parts = [part for part in every if part.max_timestamp_ms >= 0]
    # Greatest timestamp first, equal ones in the log's order. A segment that compaction left empty has no such record.
    for part in sorted(parts, key=lambda part: -part.max_timestamp_ms):
        if isinstance(part, Extent):
            index = await files.index_of(part)
            location = files.location_in(part, max(0, index.summary.max_timestamp_position))
        else:
            location = files.location_in_own(part, part.max_timestamp_position)
        found = await _first_in(files, location, part.max_timestamp_ms, part.end_offset)
        if found is not None:
            return found
    return None


async def newest_time_of(files: PartitionFiles, extent: Extent) -> int:
    """The extent's greatest time for retention: that of its headers, or when its file was last written if they have none.

    -1 if the store does not know that. Raises as `find_offset` does. Source: Kafka's LogSegment.largestTimestamp.
    """
    newest_ms = await newest_time_in_headers(files, extent)
    if newest_ms >= 0:
        return newest_ms
    status = await files.store.status(files.location_in(extent, 0).path)
    return NO_TIMESTAMP_MS if status is None or status.file_id != extent.file_id else status.modified_ms


async def newest_time_in_headers(files: PartitionFiles, extent: Extent) -> int:
    """The greatest time in the extent's headers, including the first records' times; -1 without one.

    Batches that were stored unread may have a greatest timestamp below that of their first record. Raises as `find_offset` does.
    """
    newest_ms = NO_TIMESTAMP_MS
    reader = SegmentReader.at(files.store, files.location_in(extent, 0), chunk_bytes=LOOKUP_CHUNK_BYTES)
    while (run := await reader.next_run()) is not None:
        for _, header in run.batches:
            first_ms = header.base_timestamp_ms if header.delete_horizon_ms is None else NO_TIMESTAMP_MS
            newest_ms = max(newest_ms, header.max_timestamp_ms, first_ms)
    return newest_ms


async def _first_in(
    files: PartitionFiles, location: Location, timestamp_ms: int, bound_offset: int
) -> tuple[int, int] | None:
    async for header, record in _records_from(files, location, timestamp_ms):
        if header.base_offset >= bound_offset or record.offset >= bound_offset:
            return None
        if record.timestamp_ms >= timestamp_ms and record.offset >= files.log_start_offset:
            return record.offset, record.timestamp_ms
    return None


async def _records_from(
    files: PartitionFiles, location: Location, timestamp_ms: int
) -> AsyncIterator[tuple[BatchHeader, Record]]:
    """The records of all batches that may have one at or past the timestamp."""
    reader = SegmentReader.at(files.store, location, chunk_bytes=LOOKUP_CHUNK_BYTES)
    while (run := await reader.next_run()) is not None:
        for place, header in run.batches:
            if header.max_timestamp_ms >= timestamp_ms:
                for number, record in enumerate(iterate_records(run.data, place)):
                    if number % RECORDS_PER_TURN_MAX == RECORDS_PER_TURN_MAX - 1:
                        await asyncio.sleep(0)
                    yield header, record
