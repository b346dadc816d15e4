"""Reads the check id of an open transaction: a header of its last record in the topic for such ids.

The record lies between the last stable offset, which no open transaction is below, and the high watermark. A producer with one epoch may
have had transactions before; their ids end at their markers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from bmq.log.opened_batch import BatchTooLong, opened_body, require_few_headers, require_few_records
from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.metadata.image import MetadataImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import BatchHeader, batches
from bmq.protocol.turns import Pace
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.partitions import Partitions
from bmq.proxy.share.partition_reads import read_views
from bmq.records.batch_layout import WANTS_HEADERS
from bmq.records.records_twin import Damage, headers_of, record_places

if TYPE_CHECKING:
    from bmq.proxy.fetch_resources import FetchResources

HEADER: Final = "bmq-transaction-check"
_HEADER_NAME: Final = HEADER.encode()
_WHICH: Final = "with check ids"
CHECK_ID_BYTES_MAX: Final = 128
READ_BYTES_MAX: Final = 1024 * 1024
READS_MAX: Final = 16
"""Of one partition. Whether there is an id behind them is not known."""
BATCHES_PER_TURN: Final = 200


class Named(Protocol):
    """The producer of a transaction."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...


class CheckIds:
    """`shared()`: the process's caches and limits of reads. `opener`: of the process."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        partitions: Partitions,
        shared: Callable[[], FetchResources],
        opener: BatchOpener,
    ) -> None:
        self._image = image
        self._partitions = partitions
        self._shared = shared
        self._opener = opener

    async def find(self, topic_name: str, producer: Named, numbers: Sequence[int]) -> str | None:
        """The check id of the producer's open transaction, which is in these partitions; None: there is none, or more than one.

        Raises BmqError: it is not known now.
        """
        topic = self._image().topics.get(topic_name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic_name}")
        found = set()
        for number in numbers:
            log = await self._partitions.leader_of(TopicPartition(topic.topic_id, number))
            check_id = await self._find_in(log, producer)
            if check_id is not None:
                found.add(check_id)
        return found.pop() if len(found) == 1 else None

    async def _find_in(self, log: PartitionLog, producer: Named) -> str | None:
        await log.prove_ownership()
        offset, end = max(log.last_stable_offset, log.log_start_offset), log.high_watermark
        found: str | None = None
        pace = Pace(BATCHES_PER_TURN)
        for _ in range(READS_MAX):
            if offset >= end:
                return found
            await asyncio.sleep(0)  # reads from memory take no turn of the event loop
            views = await read_views(self._shared(), log, offset, READ_BYTES_MAX, end)
            if not views:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"offset {offset} cannot be read now")
            whole = memoryview(b"".join(views))
            for place, header in batches(whole):
                offset = header.end_offset
                if pace.is_over():
                    await asyncio.sleep(0)
                if header.producer_id != producer.producer_id:
                    continue
                if header.is_control:
                    found = None  # an earlier transaction ended here
                elif header.is_transactional and header.producer_epoch == producer.producer_epoch:
                    found = await self._opened(header, whole[place : place + header.size_bytes]) or found
                    await asyncio.sleep(0)
        if offset < end:
            why = f"more than {READS_MAX} MiB behind the last stable offset were not read to their end"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)
        return found

    async def _opened(self, header: BatchHeader, data: memoryview) -> str | None:
        return await self._opener.open(header.attributes, len(data), lambda: last_check_id(data, header))


def last_check_id(data: memoryview, header: BatchHeader) -> str | None:
    """The check id of the last record of a batch that has one. Headers that are no check id are passed over, and so is a batch that is too long.

    A producer that names check ids writes small batches: what a longer one costs, no client may ask for.
    """
    found = None
    try:
        require_few_records(header, _WHICH)
        body = opened_body(data, header, _WHICH)
        require_few_headers(body, header)
        for record in record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_HEADERS):
            for name, value in headers_of(body, record):
                if name == _HEADER_NAME:
                    found = _check_id(value) or found
    except (BatchTooLong, Damage):
        return None
    return found


def _check_id(value: bytes | None) -> str | None:
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if text and len(value or b"") <= CHECK_ID_BYTES_MAX and text.isprintable() else None
