"""Writes records for people, by Produce requests: each record once, although a partition is moved meanwhile.

A partition that is being started or moved refuses a batch, as clients send it again. So does this: with the sequence of an
idempotent producer (KIP-98), so that a batch whose outcome was not known is not written twice.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import UUID

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.init_producer_id_request import InitProducerIdRequest
from bmq.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

WRITE_WAIT_S: Final = 10.0
"""A batch is sent again for this long."""
RETRY_PAUSE_S: Final = 0.1
PARTITIONS_MAX: Final = 1_000
"""Most partitions with a remembered sequence. The least recently used one begins with a new producer id."""
RETRIED: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""Codes after which the same batch is sent again."""
_FORGOTTEN: Final = frozenset((ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
"""Codes of a partition that has forgotten its producer: nothing was written, and a new producer may begin."""
_NONE: Final = -1
_ALL: Final = -1
_SEQUENCES: Final = 1 << 31

Ask = Callable[[ApiKey, Any], Awaitable[Any]]


class _Producer:
    """The producer state of one partition, which has one batch in flight at a time."""

    __slots__ = ("epoch", "lock", "producer_id", "sequence")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.producer_id = _NONE
        self.epoch = self.sequence = 0


class RecordWriter:
    """Shared by all requests of a process. `wait_s`: how long a batch waits for those before it, and is sent again."""

    def __init__(self, wait_s: float = WRITE_WAIT_S) -> None:
        self._wait_s = wait_s
        self._producers: OrderedDict[tuple[UUID, int], _Producer] = OrderedDict()

    async def write(self, ask: Ask, topic: str, topic_id: UUID, partition: int, records: Sequence[Record]) -> int:
        """Append records to one partition; the offset of the first.

        `ask`: sends a request as the user. Raises KafkaError, REQUEST_TIMED_OUT where others write for too long; and what
        `ask` raises, after which they may be in the log.
        """
        producer = self._producer_of((topic_id, partition))
        try:
            async with asyncio.timeout(self._wait_s):
                await producer.lock.acquire()
        except TimeoutError:
            why = f"partition {partition}: others write to it for longer than {self._wait_s:g} s; nothing was written"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why) from None
        try:
            if producer.producer_id != _NONE:
                try:
                    return await self._written(ask, producer, topic, partition, records)
                except KafkaError as error:
                    if error.code not in _FORGOTTEN:
                        raise
            await self._begin(ask, producer)
            return await self._written(ask, producer, topic, partition, records)
        finally:
            producer.lock.release()

    async def _written(
        self, ask: Ask, producer: _Producer, topic: str, partition: int, records: Sequence[Record]
    ) -> int:
        data = encode_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
        )
        try:
            offset = await self._sent(ask, topic, partition, bytes(data))
        except BaseException:
            producer.producer_id = _NONE  # it is not known which of its batches are in the log
            raise
        producer.sequence = (producer.sequence + len(records)) % _SEQUENCES
        return offset

    async def _begin(self, ask: Ask, producer: _Producer) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = await ask(ApiKey.INIT_PRODUCER_ID, request)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        producer.producer_id, producer.epoch, producer.sequence = answer.producer_id, answer.producer_epoch, 0

    async def _sent(self, ask: Ask, topic: str, partition: int, data: bytes) -> int:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._wait_s
        part = PartitionProduceData(index=partition, records=data)
        request = ProduceRequest(
            acks=_ALL,
            timeout_ms=round(self._wait_s * 1000),
            topic_data=[TopicProduceData(name=topic, partition_data=[part])],
        )
        while True:
            response = await ask(ApiKey.PRODUCE, request)
            (answer,) = (one for each in response.responses for one in each.partition_responses)
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE:
                return int(answer.base_offset)
            if code not in RETRIED or loop.time() >= until_s:
                said = [one.batch_index_error_message for one in answer.record_errors if one.batch_index_error_message]
                why = "; ".join(said[:3]) or answer.error_message
                raise KafkaError(code, f"partition {partition}: {why or code.name}")
            await asyncio.sleep(RETRY_PAUSE_S)

    def _producer_of(self, place: tuple[UUID, int]) -> _Producer:
        producer = self._producers.pop(place, None) or _Producer()
        self._producers[place] = producer
        if len(self._producers) > PARTITIONS_MAX:
            self._producers.popitem(last=False)
        return producer
