"""Records that wait for their due time: what waits in the partitions of a topic, and cancelling one of them.

Owners are asked as they are by clients' tools, so any node can answer. Idle partitions are started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from bmq.admin.orders import OrderRefused
from bmq.aio.answers import awaited_answer
from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.log.partition_log import AppendResult, LoneAppend, ProducedBatch, TopicPartition
from bmq.log.timers.announcements import START, Position
from bmq.log.timers.cancel_headers import CANCEL
from bmq.log.timers.delayed_page import DelayedPage
from bmq.metadata.image import NO_LEADER, PartitionImage, TopicImage
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.record_batch import parsed_header
from bmq.proxy.partitions import Partitions

OWNER_WAIT_S: Final = 3.0
CANCEL_WAIT_S: Final = 10.0
CANCEL_PAUSE_S: Final = 0.05
PARTITIONS_AT_ONCE_MAX: Final = 50
_NOTHING: Final = DelayedPage(0, None, ())


class Appends(Protocol):
    """Sends a batch to the partition's owner, as the appender for clients' produces does."""

    def append(self, batch: ProducedBatch) -> None: ...


@dataclass(frozen=True, slots=True)
class PartitionDelays:
    """`problem`: why its owner was not heard, in words; the rest is unknown then. `page`: without records."""

    partition: int
    page: DelayedPage
    problem: str | None = None


class DelayedRecords:
    """Asks owners, and has them cancel."""

    def __init__(self, partitions: Partitions, appends: Appends, clock: Clock) -> None:
        self._partitions = partitions
        self._appends = appends
        self._clock = clock

    def now_ms(self) -> int:
        """Wall time, which overdue records are told by."""
        return self._clock.now_ms()

    async def summaries(self, topic: TopicImage, partitions: Sequence[PartitionImage]) -> list[PartitionDelays]:
        """What waits in these partitions, in the order given."""
        slots = asyncio.Semaphore(PARTITIONS_AT_ONCE_MAX)

        async def summary(partition: PartitionImage) -> PartitionDelays:
            number = partition.partition
            if partition.leader == NO_LEADER:
                return PartitionDelays(number, _NOTHING, "no node owns the partition now")
            async with slots:
                try:
                    async with asyncio.timeout(OWNER_WAIT_S):
                        return PartitionDelays(number, await self._page(topic, number, START, 0))
                except TimeoutError:
                    why = f"its owner, node {partition.leader}, did not answer within {OWNER_WAIT_S:g} s"
                except BmqError as error:
                    why = f"its owner, node {partition.leader}, does not serve it: {error}"
            return PartitionDelays(number, _NOTHING, why)

        return await asyncio.gather(*map(summary, partitions))

    async def page(self, topic: TopicImage, partition: int, after: Position, limit: int) -> DelayedPage:
        """Records of one partition behind this place. Raises BmqError when its owner is not there, TimeoutError."""
        async with asyncio.timeout(OWNER_WAIT_S):
            return await self._page(topic, partition, after, limit)

    async def _page(self, topic: TopicImage, partition: int, after: Position, limit: int) -> DelayedPage:
        log = await self._partitions.leader_of(TopicPartition(topic.topic_id, partition))
        await log.prove_ownership()
        return await log.delayed_records(after, limit)

    async def cancel(self, topic: TopicImage, partition: int, target: Position) -> None:
        """Returns once it is durable that the record is not delivered. May be repeated.

        Raises OrderRefused when the record does not wait in this partition, KafkaError, TimeoutError: not known whether.
        """
        if not topic.log_config.is_delay_enabled:
            raise OrderRefused(f"topic {topic.name} has no bmq.delay.enable, so no delayed record can be cancelled")
        async with asyncio.timeout(CANCEL_WAIT_S):
            while True:
                result = await self._cancelled(topic, partition, target)
                if result.error_code is not ErrorCode.NOT_ENOUGH_REPLICAS:
                    break
                await asyncio.sleep(CANCEL_PAUSE_S)  # it is being looked up in a run
        if result.error_code is ErrorCode.INVALID_RECORD and result.record_errors:
            raise OrderRefused(result.record_errors[0].message or "the record does not wait in this partition")
        if result.error_code is not ErrorCode.NONE:
            raise KafkaError(result.error_code, result.message or result.error_code.name)

    async def _cancelled(self, topic: TopicImage, partition: int, target: Position) -> AppendResult:
        answer: asyncio.Future[AppendResult]
        answer, done = awaited_answer()
        now_s = asyncio.get_running_loop().time()
        data = memoryview(encode_batch([Record(None, None, ((CANCEL.decode(), b"%d,%d" % target[::-1]),))]))
        request = LoneAppend(done, arrived_s=now_s, send_until_s=now_s + CANCEL_WAIT_S / 2)
        self._appends.append(
            ProducedBatch(request, TopicPartition(topic.topic_id, partition), data, parsed_header(data))
        )
        return await answer
