"""Reads half messages from their partition's log. Announcements that were read stay in a cache (LRU, KEPT_BYTES_MAX)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from cachetools import LRUCache

from bmq.log.half.half_announcement import HalfAnnouncement, HalfEntry, parse_half
from bmq.log.half.half_order import HalfMessage
from bmq.log.partition_log import WholeBatches
from bmq.log.store import CorruptFile
from bmq.protocol.record_batch import batches

READ_BYTES: Final = 64 * 1024
KEPT_BYTES_MAX: Final = 8 * 1024 * 1024


class HalfBody(NamedTuple):
    """A half message. `body`: the record's bytes from its key's length on. `timestamp_ms`: the producer's timestamp."""

    timestamp_ms: int
    body: memoryview


class _Kept(NamedTuple):
    announcement: HalfAnnouncement
    entries: dict[int, HalfEntry]
    bodies: memoryview


class HalfReader:
    """Reads half messages; `read` reads batches as ReplayableLog.read does."""

    def __init__(self, read: Callable[[int, int], Awaitable[WholeBatches | None]]) -> None:
        self._read = read
        self._kept: LRUCache[int, _Kept] = LRUCache(KEPT_BYTES_MAX, getsizeof=lambda kept: 1 + len(kept.bodies))

    async def body(self, half: HalfMessage) -> HalfBody:
        """The timestamp and bytes of a half message. Raises KafkaError, CorruptRecords, CorruptFile, BadCompressedData."""
        kept = self._kept.get(half.hold_offset) or await self._found(half.hold_offset)
        entry = kept.entries.get(half.offset - half.hold_offset - kept.announcement.distance)
        if entry is None:
            raise CorruptFile(f"the half message {half.offset} is not where it is held")
        return HalfBody(entry.timestamp_ms, kept.bodies[entry.body_start :][: entry.body_bytes])

    async def _found(self, hold_offset: int) -> _Kept:
        chunk = await self._read(hold_offset, READ_BYTES)
        found: _Kept | None = None
        for position, header in batches(b"" if chunk is None else chunk.data):
            if not header.is_control or header.has_producer_id:
                continue
            announcement = parse_half(chunk.data, position) if chunk is not None else None
            if announcement is None or not announcement.halves:
                continue
            kept = _Kept(announcement, {one.offset_delta: one for one in announcement.halves}, announcement.bodies())
            if header.base_offset == hold_offset:
                found = kept
            if 1 + len(kept.bodies) <= KEPT_BYTES_MAX:
                self._kept[header.base_offset] = kept
        if found is None:
            raise CorruptFile(f"no half messages are held at offset {hold_offset}")
        return found
