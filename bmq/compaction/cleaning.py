"""Carries out a plan of compaction: reads the segments, and gives what is left of them, group by group.

It only reads the store. What it gives is written by the partition's owner, into its own directory (rule 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final

from bmq.compaction.key_map import KeyMap, bytes_for
from bmq.compaction.log_cleaner import CleanedBatch, LastRecord, LogCleaner, Step
from bmq.compaction.merging import merge
from bmq.compaction.output import OUT_BYTES, Output
from bmq.log.compaction import (
    CleanedBytes,
    CleanedGroup,
    CleaningEnd,
    CleaningEvent,
    CleaningInterrupted,
    CleaningPlan,
    Uncleanable,
)
from bmq.log.manifest import Extent
from bmq.log.origin import DamagedBatch, Origin
from bmq.log.store import Buffer, SegmentStore, StoreError

CHUNK_BYTES: Final = 2 * 1024 * 1024


async def clean(
    store: SegmentStore, plan: CleaningPlan, seed: bytes, *, chunk_bytes: int = CHUNK_BYTES
) -> AsyncGenerator[CleaningEvent]:
    """The events of one cleaning, the last one a CleaningEnd. `seed`: 16 secret bytes for the map of keys.

    Raises DamagedBatch, StoreError.
    """
    # No more keys than offsets: a map larger than that would only spread them over more memory.
    offsets = max((extent.end_offset for group in plan.groups for extent in group), default=0) - plan.first_dirty_offset
    map_bytes = min(plan.map_bytes, bytes_for(max(0, offsets)))
    cleaner = LogCleaner(
        KeyMap(map_bytes, plan.first_dirty_offset, seed),
        plan.first_dirty_offset,
        plan.now_ms,
        plan.delete_retention_ms,
        plan.marker_retention_ms,
        plan.aborted,
        {producer_id: LastRecord(offset, epoch) for producer_id, offset, epoch in plan.last_records},
    )
    segments = Segments(store, plan, chunk_bytes)
    for extent, path in segments.all():
        if extent.end_offset > plan.first_dirty_offset and not cleaner.is_full:
            await segments.go_through(extent, path, cleaner.note, stops=lambda: cleaner.is_full)
    bytes_kept = bytes_read = 0
    for group, paths in zip(plan.groups, plan.paths, strict=True):
        reached = [extent for extent in group if extent.base_offset < cleaner.noted_offset]
        if not reached:
            break
        output = Output(reached, plan.index_interval_bytes)
        async with aclosing(clean_group(segments, cleaner, reached, paths, output)) as events:
            async for event in events:
                yield event
        bytes_read += sum(extent.length for extent in reached)
        bytes_kept += output.position
    counts = cleaner.counts
    yield CleaningEnd(cleaner.noted_offset, counts.records_read, counts.records_kept, bytes_read, bytes_kept)


async def clean_group(
    segments: Segments, cleaner: LogCleaner, extents: Sequence[Extent], paths: Sequence[str], output: Output
) -> AsyncGenerator[CleanedBytes | CleanedGroup]:
    """Clean the segments of one group, with the keys that `cleaner` has noted, into the empty `output`.

    Raises DamagedBatch, StoreError.
    """
    dropped_before = len(cleaner.dropped_aborts)
    for extent, path in zip(extents, paths, strict=False):
        batches: list[CleanedBatch] = []

        def take(
            data: Buffer,
            origin: Origin,
            out: list[CleanedBatch] = batches,
            end_offset: int = extents[-1].end_offset,
        ) -> Step:
            return cleaner.clean(data, origin, end_offset, out)

        async with aclosing(segments.steps(extent, path, take)) as steps:
            async for _ in steps:
                output.add(batches)
                batches.clear()
                if output.size_bytes >= OUT_BYTES:
                    yield CleanedBytes(output.take())
                # Let the one who reads the events stop us between two steps.
                await asyncio.sleep(0)
    if output.size_bytes:
        yield CleanedBytes(output.take())
    yield CleanedGroup(len(extents), output.index(), tuple(cleaner.dropped_aborts[dropped_before:]))


class Segments:
    """The plan's files, read chunk by chunk, the next chunk while the present one is worked on."""

    def __init__(self, store: SegmentStore, plan: CleaningPlan, chunk_bytes: int) -> None:
        self._store = store
        self._plan = plan
        self._chunk_bytes = chunk_bytes

    def all(self) -> list[tuple[Extent, str]]:
        return [
            (extent, path)
            for group, paths in zip(self._plan.groups, self._plan.paths, strict=True)
            for extent, path in zip(group, paths, strict=True)
        ]

    async def go_through(
        self, extent: Extent, path: str, take: Callable[[Buffer, Origin], Step], *, stops: Callable[[], bool]
    ) -> None:
        async with aclosing(self.steps(extent, path, take)) as steps:
            async for _ in steps:
                if stops():
                    return
                await asyncio.sleep(0)

    async def steps(self, extent: Extent, path: str, take: Callable[[Buffer, Origin], Step]) -> AsyncGenerator[Step]:
        """Call `take` with the extent's bytes, from batch boundary to batch boundary, until all are taken."""
        position, stop = extent.position, extent.valid_bytes
        buffer: Buffer = b""
        wanted_bytes = self._chunk_bytes
        following = asyncio.ensure_future(self._read(extent, path, position, min(wanted_bytes, stop - position)))
        read_to = position + min(wanted_bytes, stop - position)
        try:
            while position < stop:
                fresh = await following
                buffer = b"".join((buffer, fresh)) if buffer else fresh
                size = min(self._chunk_bytes, stop - read_to)
                following = asyncio.ensure_future(self._read(extent, path, read_to, size))
                read_to += size
                missing_bytes = 0
                while buffer:
                    step = take(buffer, Origin(self._plan.topic, self._plan.partition, path, position))
                    yield step
                    missing_bytes = step.missing_bytes
                    if not step.end:
                        break
                    position += step.end
                    buffer = memoryview(buffer)[step.end :]
                if position < stop and not fresh:
                    raise DamagedBatch(
                        Origin(self._plan.topic, self._plan.partition, path, position),
                        0,
                        None,
                        f"a record batch runs {missing_bytes} bytes past the end of the segment's valid bytes",
                    )
        finally:
            following.cancel()

    async def _read(self, extent: Extent, path: str, position: int, length_bytes: int) -> Buffer:
        if length_bytes <= 0:
            return b""
        return await self._store.read(path, file_id=extent.file_id, position=position, length_bytes=length_bytes)


class CleaningHere:
    """Implements bmq.log.compaction.LogCleaning in this process. `new_seed`: 16 secret bytes, others each time."""

    def __init__(self, store: SegmentStore, new_seed: Callable[[], bytes], *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._store = store
        self._new_seed = new_seed
        self._chunk_bytes = chunk_bytes

    async def clean(self, plan: CleaningPlan) -> AsyncGenerator[CleaningEvent]:
        """As LogCleaning.clean."""
        carried_out = (
            merge(self._store, plan, chunk_bytes=self._chunk_bytes)
            if plan.is_merge
            else clean(self._store, plan, self._new_seed(), chunk_bytes=self._chunk_bytes)
        )
        try:
            async with aclosing(carried_out) as events:
                async for event in events:
                    yield event
        except DamagedBatch as error:
            raise Uncleanable(str(error)) from error
        except StoreError as error:
            raise CleaningInterrupted(str(error)) from error

    def use_share(self, share: float) -> None:
        """Does nothing: it shares the loop of who asks for it, turn by turn."""

    async def close(self) -> None:
        """As LogCleaning.close."""
