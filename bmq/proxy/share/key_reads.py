"""Hashes the keys of records that were read, by opening their batches, for groups that keep the order of each key.

Hashes are cached, because each member of a group reads the same batches.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Final

import structlog
from cachetools import LRUCache

from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.protocol.compression import BadCompressedData, Compression, decompress
from bmq.protocol.record_batch import HEADER_BYTES
from bmq.protocol.share_state_messages import OffsetRange
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.share.read_batches import ReadBatch, cut, joined
from bmq.records.key_layout import HASH_MIN, NO_KEY
from bmq.records.keys import key_hashes

REMEMBERED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Most bytes of cached hashes, 2 for each offset."""
TOLD_OFFSETS_MAX: Final = 100_000
"""Most offsets with hashes in one request; a shard keeps no more."""
_CODEC: Final = 0x07
_COUNT: Final = Struct(">i")
_COUNT_PLACE: Final = HEADER_BYTES - _COUNT.size
_HASH_BYTES: Final = 2
_BATCH_BYTES: Final = 100
"""Memory of a cached batch besides its hashes."""

_log = structlog.get_logger("bmq.proxy")
_Key = tuple[TopicPartition, int, int, int]
"""(partition, first offset, last offset, length) of a batch."""


def _size(hashes: bytes) -> int:
    return len(hashes) + _BATCH_BYTES


class KeyReads:
    """Hashes keys; a process has one."""

    def __init__(self, opener: BatchOpener, remembered_bytes_max: int = REMEMBERED_BYTES_MAX) -> None:
        self._opener = opener
        self._remembered: LRUCache[_Key, bytes] = LRUCache(remembered_bytes_max, _size)
        self.opened_count = 0

    async def hashes(
        self,
        log: PartitionLog,
        batches: Sequence[ReadBatch],
        views: Sequence[memoryview],
        unseen: Sequence[OffsetRange],
        from_offset: int,
    ) -> tuple[int, bytearray]:
        """(first offset, 16-bit little-endian hashes of the keys at it and the following offsets, to the end of the batches).

        Offsets that no consumer has to see (`unseen`) have no key. A batch that cannot be opened counts as one key, so that its
        records stay in order.
        """
        first = max(batches[0].first_offset, from_offset)
        end = min(batches[-1].last_offset + 1, first + TOLD_OFFSETS_MAX)
        found_hashes = bytearray(_no_keys(max(end - first, 0)))
        place = 0
        for batch in batches:
            if batch.first_offset >= end:
                break
            while place < len(unseen) and unseen[place].last < batch.first_offset:
                place += 1
            if place < len(unseen) and unseen[place].first <= batch.first_offset:
                continue
            hashes = await self._of(log.topic_partition, batch, views)
            low, high = max(batch.first_offset, first), min(batch.last_offset + 1, end)
            if low < high:
                begin = _HASH_BYTES * (low - batch.first_offset)
                at, length = _HASH_BYTES * (low - first), _HASH_BYTES * (high - low)
                found_hashes[at : at + length] = hashes[begin : begin + length]
        return first, found_hashes

    async def _of(self, topic_partition: TopicPartition, batch: ReadBatch, views: Sequence[memoryview]) -> bytes:
        key = topic_partition, batch.first_offset, batch.last_offset, batch.size_bytes
        known = self._remembered.get(key)
        if known is not None:
            return known
        data = joined(cut(views, batch.position, batch.position + batch.size_bytes))
        hashes = await self._opener.open(
            batch.attributes, batch.size_bytes, lambda: opened(batch, data), lambda: self._remembered.get(key)
        )
        if self._remembered.get(key) is hashes:
            return hashes
        self.opened_count += 1
        if _size(hashes) <= self._remembered.maxsize:
            self._remembered[key] = hashes
        return hashes


def opened(batch: ReadBatch, data: bytes | memoryview) -> bytes:
    """The hashes for all offsets of a batch."""
    last_delta = batch.last_offset - batch.first_offset
    (count,) = _COUNT.unpack_from(data, _COUNT_PLACE)
    body = memoryview(data)[HEADER_BYTES:]
    try:
        status, found = key_hashes(decompress(Compression(batch.attributes & _CODEC), body), count, last_delta)
        why = f"its records are damaged ({-status})"
    except (BadCompressedData, ValueError) as error:
        status, found, why = -1, array("H"), str(error)
    if status:
        _log.warning("share_batch_without_keys", first=batch.first_offset, last=batch.last_offset, reason=why)
        found = array("H", (HASH_MIN,)) * (last_delta + 1)
    return _little_endian(found)


def _no_keys(count: int) -> bytes:
    return NO_KEY.to_bytes(_HASH_BYTES, "little") * count


def _little_endian(hashes: array[int]) -> bytes:
    if sys.byteorder == "big":
        hashes.byteswap()
    return hashes.tobytes()
