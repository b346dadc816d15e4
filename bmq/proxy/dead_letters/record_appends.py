"""Appends records to partitions of the cluster as an idempotent producer: a retry after a lost answer writes nothing twice."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from bmq.aio.answers import awaited_answer
from bmq.log.partition_log import AppendResult, LoneAppend, ProducedBatch, TopicPartition
from bmq.metadata.image import TopicImage
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import parsed_header
from bmq.proxy.appender import Appender
from bmq.proxy.producer_ids import ProducerIds

APPEND_WAIT_MAX_S: Final = 20.0
PARTITIONS_MAX: Final = 1_000
"""Most partitions with a remembered sequence. The least recently used one is forgotten, and begins with a new producer id."""
_NONE: Final = -1
_SEQUENCES: Final = 1 << 31


class _Producer:
    """The producer state of one partition, which has one batch in flight at a time."""

    __slots__ = ("lock", "producer_id", "sequence")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.producer_id = _NONE
        self.sequence = 0


class RecordAppender:
    """Appends records. `appender()`: the one of clients' produces, which resends a numbered batch to a partition's next owner."""

    def __init__(self, appender: Callable[[], Appender], producer_ids: Callable[[], ProducerIds]) -> None:
        self._appender = appender
        self._producer_ids = producer_ids
        self._loop = asyncio.get_running_loop()
        self._producers: OrderedDict[TopicPartition, _Producer] = OrderedDict()

    async def append(self, topic_partition: TopicPartition, records: list[Record]) -> int:
        """Append records durably; the offset of the first. Raises KafkaError; after REQUEST_TIMED_OUT they may be in the log."""
        producer = self._producer_of(topic_partition)
        async with producer.lock:
            if producer.producer_id == _NONE:
                producer.producer_id, producer.sequence = await self._producer_ids().next(), 0
            data = encode_batch(
                records,
                producer_id=producer.producer_id,
                producer_epoch=0,
                base_sequence=producer.sequence,
            )
            producer_id, producer.producer_id = producer.producer_id, _NONE  # until the outcome is known
            offset = await self._append(topic_partition, memoryview(data))
            producer.producer_id = producer_id
            producer.sequence = (producer.sequence + len(records)) % _SEQUENCES
            return offset

    async def append_letters(self, target: TopicImage, partition: int, letters: list[Record]) -> None:
        """Append dead letters of records in `partition` of another topic. Raises KafkaError, whose message names the target."""
        place = TopicPartition(target.topic_id, partition % len(target.partitions))
        try:
            await self.append(place, letters)
        except KafkaError as error:
            why = f"topic {target.name}, partition {place.partition}: {error}"
            raise KafkaError(error.code, why) from error

    async def append_as(
        self, topic_partition: TopicPartition, records: list[Record], producer_id: int, sequence: int
    ) -> int:
        """Append as a producer whose sequence the caller keeps: a repetition with the same records writes nothing twice."""
        data = encode_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence % _SEQUENCES)
        return await self._append(topic_partition, memoryview(data))

    async def new_producer_id(self) -> int:
        """A producer id that was never given out before. Raises KafkaError."""
        return await self._producer_ids().next()

    def _producer_of(self, topic_partition: TopicPartition) -> _Producer:
        producer = self._producers.pop(topic_partition, None) or _Producer()
        self._producers[topic_partition] = producer
        if len(self._producers) > PARTITIONS_MAX:
            self._producers.popitem(last=False)
        return producer

    async def _append(self, topic_partition: TopicPartition, data: memoryview) -> int:
        answer: asyncio.Future[AppendResult]
        answer, done = awaited_answer()
        now_s = self._loop.time()
        request = LoneAppend(done, arrived_s=now_s, send_until_s=now_s + APPEND_WAIT_MAX_S / 2)
        self._appender().append(ProducedBatch(request, topic_partition, data, parsed_header(data)))
        finished, _ = await asyncio.wait({answer}, timeout=APPEND_WAIT_MAX_S)
        if not finished:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"no answer to an append for {APPEND_WAIT_MAX_S:.0f} s")
        result = answer.result()
        if result.error_code:
            raise KafkaError(result.error_code, result.message or result.error_code.name)
        return result.base_offset
