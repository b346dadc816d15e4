"""Reads single records of a partition, by opening their batches (bmq/proxy/batch_opener.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from bmq.log.partition_log import PartitionLog
from bmq.protocol.batch_records import Record, iterate_records
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX, BadCompressedData, UnknownCompression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.record_batch import CorruptRecords
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.dead_letters.letters import size_of
from bmq.proxy.share.partition_reads import ATTEMPTS_MAX, read_views
from bmq.proxy.share.read_batches import batches_of, cut, joined

if TYPE_CHECKING:
    from bmq.proxy.fetch_resources import FetchResources

READ_BYTES_MAX: Final = 1024 * 1024
"""Most bytes of one read; a single batch may be longer."""

_log = structlog.get_logger("bmq.proxy")


class ReadRecords(NamedTuple):
    """Records in order of offset. `next_offset`: records below it that are missing here are not in the log."""

    records: list[Record]
    next_offset: int


class RecordReader:
    """Reads records. `shared()`: returns the process's caches and limits of reads."""

    def __init__(self, shared: Callable[[], FetchResources], opener: BatchOpener) -> None:
        self._shared = shared
        self._opener = opener

    async def read(self, log: PartitionLog, first: int, last: int, bytes_max: int) -> ReadRecords:
        """Records `first` … `last`, also aborted ones: as many as have `bytes_max` together, and at least one.

        Raises BmqError: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER, OFFSET_NOT_AVAILABLE.
        """
        found = ReadRecords([], first)
        room_bytes = bytes_max
        while found.next_offset <= last and room_bytes > 0:
            offset = max(found.next_offset, log.log_start_offset)
            if offset > last:
                return found._replace(next_offset=last + 1)
            views = await self._views(log, offset)
            if views is None:
                continue  # retention was faster
            for batch in batches_of(views)[0]:
                if batch.first_offset > last or room_bytes <= 0:
                    break
                if batch.is_control:
                    found = found._replace(next_offset=batch.last_offset + 1)
                    continue
                data = joined(cut(views, batch.position, batch.position + batch.size_bytes))
                records = await self._open(data, batch.attributes, max(first, found.next_offset), last, room_bytes)
                taken_bytes = sum(map(size_of, records))
                is_cut = taken_bytes >= room_bytes
                next_offset = records[-1].offset + 1 if is_cut else min(batch.last_offset, last) + 1
                room_bytes -= taken_bytes
                found = ReadRecords(found.records + records, max(next_offset, found.next_offset))
            else:
                continue
            if room_bytes > 0:
                return found._replace(next_offset=last + 1)
        return found

    async def _views(self, log: PartitionLog, offset: int) -> Any:
        """Whole batches from the one that has `offset` on; None if the log begins behind it by now."""
        for _ in range(ATTEMPTS_MAX):
            if offset >= log.high_watermark:
                why = f"offset {offset} is not in the partition, which ends at {log.high_watermark}"
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, why)
            try:
                views = await read_views(self._shared(), log, offset, READ_BYTES_MAX, log.high_watermark)
            except BmqError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                if offset < log.log_start_offset:
                    return None
                continue
            if views:
                return views
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the record at offset {offset} cannot be read now")

    async def _open(
        self, data: bytes | memoryview, attributes: int, first: int, last: int, bytes_max: int
    ) -> list[Record]:
        def opened() -> list[Record]:
            return _records(data, first, last, bytes_max)

        try:
            return await self._opener.open(attributes, len(data), opened)
        except (CorruptRecords, BadCompressedData, UnknownCompression) as error:
            _log.warning("dead_letter_without_its_record", first=first, last=last, reason=str(error))
            return []


def _records(data: bytes | memoryview, first: int, last: int, bytes_max: int) -> list[Record]:
    """Records `first` … `last` in `data`, up to `bytes_max`. Raises CorruptRecords, BadCompressedData, UnknownCompression."""
    found: list[Record] = []
    left_bytes = bytes_max
    for record in iterate_records(data, length_bytes_max=DECOMPRESSED_BYTES_MAX):
        if record.offset > last or left_bytes <= 0:
            break
        if record.offset >= first:
            found.append(record)
            left_bytes -= size_of(record)
    return found
