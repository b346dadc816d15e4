"""A cleaning in parts, by many processes: each notes the keys of some segments, and later cleans one group of them.

What a part has to know of the others is small: the newest offsets of the keys that are in its group, and which
transactions are open where it begins. The cleaner is the same (log_cleaner), so the same is left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

from crc32c import crc32c

from bmq.compaction.cleaning import CHUNK_BYTES, Segments, clean_group
from bmq.compaction.key_map import HashedKeys, KeyHashes, KeyMap, bytes_for
from bmq.compaction.log_cleaner import NO_TRANSACTIONS, LastRecord, LogCleaner, TransactionPart, TransactionState
from bmq.compaction.output import Output
from bmq.log.compaction import CleanedBytes, CleaningPlan
from bmq.log.delegated_compaction import CleanedFile, cleaned_name, description_name
from bmq.log.manifest import Extent
from bmq.log.store import Durability, SegmentStore, SegmentWriter, StoreError

GROWTH_MAX: Final = 3
"""As in bmq.broker.compaction.segment_rewrite."""


class SegmentNotes:
    """Notes the keys of one segment, those that are clean too: `keys` gives them, and then `part` is known."""

    def __init__(self, store: SegmentStore, plan: CleaningPlan, extent: Extent, path: str, seed: bytes) -> None:
        self._extent = extent
        self._path = path
        self._hashed = HashedKeys(seed)
        self._cleaner = _cleaner(plan, self._hashed, extent.base_offset, NO_TRANSACTIONS, dirty_offset=0)
        self._segments = Segments(store, plan, CHUNK_BYTES)

    async def keys(self) -> AsyncIterator[KeyHashes]:
        """Raises DamagedBatch, StoreError."""
        async with aclosing(self._segments.steps(self._extent, self._path, self._cleaner.note)) as steps:
            async for _ in steps:
                for hashes in self._hashed.taken:
                    yield hashes
                self._hashed.taken.clear()

    @property
    def part(self) -> TransactionPart:
        return self._cleaner.noted_part


def _cleaner(
    plan: CleaningPlan,
    keys: HashedKeys | KeyMap,
    begin_offset: int,
    transactions: TransactionState,
    *,
    dirty_offset: int,
) -> LogCleaner:
    return LogCleaner(
        keys,
        dirty_offset,
        plan.now_ms,
        plan.delete_retention_ms,
        plan.marker_retention_ms,
        plan.aborted,
        {producer_id: LastRecord(offset, epoch) for producer_id, offset, epoch in plan.last_records},
        begin_offset=begin_offset,
        transactions=transactions,
    )


def newest_of_group(plan: CleaningPlan, group: int, newest: KeyHashes, seed: bytes) -> KeyMap:
    """The map for one group. `newest`: of each key that is in the group, once, the newest offset that is not clean.

    Raises ValueError.
    """
    extents = plan.groups[group]
    base_offset = max(extents[0].base_offset, plan.first_dirty_offset)
    # A key that was noted last before all records of the group has no older one in it.
    keys = KeyMap(bytes_for(len(newest)), base_offset, seed)
    # What follows the group is newer than all of it, however far away.
    keys.note_hashes(newest, max(extents[-1].end_offset, base_offset))
    return keys


async def write_group(
    store: SegmentStore,
    plan: CleaningPlan,
    directory: str,
    group: int,
    keys: KeyMap,
    transactions: TransactionState,
    *,
    attempt: str,
    holder: str,
) -> CleanedFile:
    """Write what is left of a group into the directory, and its description. Raises DamagedBatch, StoreError."""
    extents, paths = plan.groups[group], plan.paths[group]
    cleaner = _cleaner(plan, keys, extents[0].base_offset, transactions, dirty_offset=plan.first_dirty_offset)
    cleaner.noted_offset = plan.groups[-1][-1].end_offset
    name = cleaned_name(group, attempt)
    writer = await store.create_segment(
        f"{directory}/{name}",
        holder=holder,
        durability=Durability.HFLUSH,
        segment_bytes=sum(extent.length for extent in extents) * GROWTH_MAX + 1024 * 1024,
    )
    is_described = False
    try:
        output = Output(extents, plan.index_interval_bytes)
        crc = 0
        segments = Segments(store, plan, CHUNK_BYTES)
        async with aclosing(clean_group(segments, cleaner, extents, paths, output)) as events:
            async for event in events:
                if isinstance(event, CleanedBytes):
                    crc = crc32c(event.data, crc)
                    await writer.append([event.data])
        length_bytes = await writer.close()
        summary = output.index().summary
        file = CleanedFile(
            group=group,
            name=name,
            file_id=writer.file_id,
            length_bytes=length_bytes,
            crc=crc,
            base_offset=summary.base_offset,
            end_offset=summary.end_offset,
            batch_count=output.batch_count,
            record_count=output.record_count,
            records_read=cleaner.counts.records_read,
            max_timestamp_ms=summary.max_timestamp_ms,
            dropped_aborts=tuple(cleaner.dropped_aborts),
        )
        await store.write_file(f"{directory}/{description_name(group, attempt)}", file.encode(), holder=holder)
        is_described = True
        return file
    finally:
        if not is_described:
            await _discard(store, writer)


async def _discard(store: SegmentStore, writer: SegmentWriter) -> None:
    """Nobody will look at the file; its owner removes what is left of it with the directory."""
    writer.abandon()
    try:
        await store.delete(writer.path)
    except StoreError:
        return
