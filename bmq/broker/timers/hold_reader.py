"""Reads held records from the log of their partition. What was read last is kept for the next ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from cachetools import LRUCache

from bmq.log.partition_log import WholeBatches
from bmq.log.store import CorruptFile
from bmq.log.timers.announcements import Held, parse_announcement
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.waiting_records import Pending
from bmq.protocol.record_batch import batches

READ_BYTES: Final = 64 * 1024
"""Of one read, which some hundred small holds are: all of them are parsed, as they are often due together."""
KEPT_BYTES_MAX: Final = 8 * 1024 * 1024


class HoldReader:
    """`read`: as ReplayableLog.read. `other`: finds records that are held in another way; None: it is none of them."""

    def __init__(
        self,
        read: Callable[[int, int], Awaitable[WholeBatches | None]],
        other: Callable[[Pending], Awaitable[DueRecord | None]],
    ) -> None:
        self._read = read
        self._other = other
        self._kept: LRUCache[int, Held] = LRUCache(KEPT_BYTES_MAX, getsizeof=_bytes_of)

    async def record(self, pending: Pending) -> DueRecord:
        """Raises KafkaError, CorruptRecords, CorruptFile, BadCompressedData."""
        other = await self._other(pending)
        if other is not None:
            return other
        held = self._kept.get(pending.hold_offset)
        if held is None:
            held = await self._found(pending.hold_offset)
        try:
            record = held.record(pending.offset - pending.hold_offset - 1)
        except KeyError as error:
            raise CorruptFile(f"the delayed record {pending.offset} is not where it is held") from error
        return DueRecord(pending.offset, record.due_ms, record.timestamp_ms, record.body)

    async def _found(self, hold_offset: int) -> Held:
        chunk = await self._read(hold_offset, READ_BYTES)
        found: Held | None = None
        for position, header in batches(b"" if chunk is None else chunk.data):
            if not header.is_control or header.has_producer_id:
                continue
            announcement = parse_announcement(chunk.data, position) if chunk is not None else None
            if isinstance(announcement, Held):
                if header.base_offset == hold_offset:
                    found = announcement
                if _bytes_of(announcement) <= KEPT_BYTES_MAX:
                    self._kept[header.base_offset] = announcement
        if found is None:
            raise CorruptFile(f"no delayed records are held at offset {hold_offset}")
        return found


def _bytes_of(held: Held) -> int:
    return len(held.packed) + held.columns.bodies_bytes
