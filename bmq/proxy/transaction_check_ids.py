"""Reads the check id of an open transaction: a header of its last record in the topic for such ids.

The record lies between the last stable offset, which no open transaction is below, and the high watermark. A producer with one epoch may
have had transactions before; their ids end at their markers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.metadata.image import MetadataImage
from bmq.protocol.batch_records import decode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import BatchHeader, batches
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.partitions import Partitions
from bmq.proxy.share.partition_reads import read_views

if TYPE_CHECKING:
    from bmq.proxy.fetch_resources import FetchResources

HEADER: Final = "bmq-transaction-check"
CHECK_ID_BYTES_MAX: Final = 128
READ_BYTES_MAX: Final = 1024 * 1024
READS_MAX: Final = 16
"""Of one partition. What lies behind them is not found."""


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

        Raises BmqError.
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
        for _ in range(READS_MAX):
            if offset >= end:
                return found
            views = await read_views(self._shared(), log, offset, READ_BYTES_MAX, end)
            if not views:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"offset {offset} cannot be read now")
            whole = memoryview(b"".join(views))
            for place, header in batches(whole):
                offset = header.end_offset
                if header.producer_id != producer.producer_id:
                    continue
                if header.is_control:
                    found = None  # an earlier transaction ended here
                elif header.is_transactional and header.producer_epoch == producer.producer_epoch:
                    found = await self._opened(header, whole[place : place + header.size_bytes]) or found
        return None

    async def _opened(self, header: BatchHeader, data: memoryview) -> str | None:
        return await self._opener.open(header.attributes, len(data), lambda: last_check_id(data))


def last_check_id(data: memoryview) -> str | None:
    """Of the last record of a batch that has one. Headers that are no check id are passed over."""
    found = None
    for record in decode_records(data):
        for name, value in record.headers:
            if name == HEADER:
                found = _check_id(value) or found
    return found


def _check_id(value: bytes | None) -> str | None:
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if text and len(value or b"") <= CHECK_ID_BYTES_MAX and text.isprintable() else None
