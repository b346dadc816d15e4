"""Passes produced batches to the logs of this process in order of arrival, also while a partition starts."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import structlog

from bmq.log.partition_log import ANY_EPOCH, AppendResult, PartitionLog, ProducedBatch, TopicPartition
from bmq.log.refused_sequences import BEHIND_A_REFUSED_ONE, RefusedSequences
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.proxy.appender import QUEUED_BYTES_MAX, Partitions

QUEUED_OVERHEAD_BYTES: Final = 512
"""Of a batch that waits, beside its records: with small batches it is most of the memory."""
APPENDS_PER_TURN_MAX: Final = 64
"""Batches that are handed over in one turn of the event loop once their partition has started."""
_EXPIRED: Final = AppendResult(
    ErrorCode.REQUEST_TIMED_OUT, message="the partition did not start within the request's timeout"
)

_log = structlog.get_logger("bmq.proxy")


class StartingAppender:
    """Implements bmq.proxy.appender.Appender, with a queue per partition that is not ready, to keep batches in order.

    Refusals are returned to the client: nothing is retried at another owner.
    """

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._loop = asyncio.get_running_loop()
        self._queues: dict[TopicPartition, deque[ProducedBatch]] = {}
        self._queued_bytes = 0
        self._refused = RefusedSequences()
        self._tasks: dict[asyncio.Task[None], None] = {}  # cancelled in this order

    def append(self, batch: ProducedBatch) -> None:
        """See Appender.append."""
        topic_partition = batch.topic_partition
        if self._refused.entries and self._refused.is_passed_by(topic_partition, batch.records, self._loop.time()):
            batch.complete(BEHIND_A_REFUSED_ONE)
            return
        queue = self._queues.get(topic_partition) if self._queues else None
        if queue is None:
            log = self._partitions.ready(topic_partition)
            if log is not None:
                if batch.leader_epoch == ANY_EPOCH or batch.leader_epoch == log.leader_epoch:
                    log.append(batch)
                else:
                    batch.complete(_refusal_of_epoch(log, batch.leader_epoch))
                return
            queue = self._queues[topic_partition] = deque()
            task = self._loop.create_task(self._start(topic_partition))
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)
        size = len(batch.records) + QUEUED_OVERHEAD_BYTES
        if self._queued_bytes + size > QUEUED_BYTES_MAX:
            batch.complete(
                AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, message="too much waits for partitions that start")
            )
            return
        self._queued_bytes += size
        queue.append(batch)

    async def _start(self, topic_partition: TopicPartition) -> None:
        log: PartitionLog | None = None
        refusal = AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        queue = self._queues[topic_partition]
        try:
            try:
                log = await self._partitions.leader_of(topic_partition)
            except BmqError as error:
                refusal = AppendResult(error.code, message=str(error))
            except Exception:  # noqa: BLE001 any bug is answered or logged
                _log.exception(
                    "partition_start_failed",
                    topic_id=str(topic_partition.topic_id),
                    partition=topic_partition.partition,
                )
                refusal = AppendResult(ErrorCode.UNKNOWN_SERVER_ERROR)
            while queue:  # later batches come in behind
                for _ in range(min(len(queue), APPENDS_PER_TURN_MAX)):
                    batch = queue.popleft()
                    self._queued_bytes -= len(batch.records) + QUEUED_OVERHEAD_BYTES
                    self._pass_on(topic_partition, batch, log, refusal)
                if queue:
                    await asyncio.sleep(0)
        finally:
            del self._queues[topic_partition]
            self._queued_bytes -= sum(len(batch.records) + QUEUED_OVERHEAD_BYTES for batch in queue)

    def _pass_on(
        self, topic_partition: TopicPartition, batch: ProducedBatch, log: PartitionLog | None, refusal: AppendResult
    ) -> None:
        now_s = self._loop.time()
        request, leader_epoch = batch.request, batch.leader_epoch
        if log is None:
            answer = refusal
        elif _is_too_late(batch, now_s):
            answer = _EXPIRED
        elif leader_epoch != ANY_EPOCH and leader_epoch != log.leader_epoch:
            answer = _refusal_of_epoch(log, leader_epoch)
        elif self._refused.entries and self._refused.is_passed_by(
            topic_partition, batch.records, now_s, request.arrived_s
        ):
            batch.complete(BEHIND_A_REFUSED_ONE)
            return
        else:
            log.append(batch)
            return
        self._refuse(batch, answer)

    def _refuse(self, batch: ProducedBatch, answer: AppendResult) -> None:
        if batch.request.is_wanted():
            self._refused.add(batch.topic_partition, batch.records, self._loop.time(), answer.error_code)
        batch.complete(answer)

    def expire(self, now_s: float) -> None:
        """Answer batches whose start takes longer than their requests wait, and forget those of clients that have left."""
        for queue in tuple(self._queues.values()):
            expired = [batch for batch in queue if _is_too_late(batch, now_s)]
            if expired:
                kept = [batch for batch in queue if not _is_too_late(batch, now_s)]
                queue.clear()
                queue.extend(kept)
                for batch in expired:
                    self._queued_bytes -= len(batch.records) + QUEUED_OVERHEAD_BYTES
                    self._refuse(batch, _EXPIRED)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


def _refusal_of_epoch(log: PartitionLog, leader_epoch: int) -> AppendResult:
    is_old = leader_epoch < log.leader_epoch
    return AppendResult(
        ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
        message=f"the leader epoch is {log.leader_epoch}, not {leader_epoch}",
    )


def _is_too_late(batch: ProducedBatch, now_s: float) -> bool:
    """Whether its deadline has passed, or its client has disconnected."""
    return batch.request.send_until_s <= now_s or not batch.request.is_wanted()
