"""Passes produced batches to the logs of this process in order of arrival, also while a partition starts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

import structlog

from bmq.log.partition_log import AppendDone, AppendResult, PartitionLog, TopicPartition
from bmq.log.refused_sequences import BEHIND_A_REFUSED_ONE, RefusedSequences
from bmq.log.transactions import TransactionClaim
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.proxy.appender import ANY_EPOCH, QUEUED_BYTES_MAX, Partitions, always

QUEUED_OVERHEAD_BYTES: Final = 512
"""Of a batch that waits, beside its records: with small batches it is most of the memory."""
APPENDS_PER_TURN_MAX: Final = 64
"""Batches that are handed over in one turn of the event loop once their partition has started."""
_EXPIRED: Final = AppendResult(
    ErrorCode.REQUEST_TIMED_OUT, message="the partition did not start within the request's timeout"
)

_log = structlog.get_logger("bmq.proxy")


class _Queued(NamedTuple):
    """A batch that waits for its partition to start."""

    records: memoryview
    done: AppendDone
    is_acks_all: bool
    leader_epoch: int
    deadline_s: float
    is_wanted: Callable[[], bool]
    arrived_s: float
    claim: TransactionClaim | None


class StartingAppender:
    """Implements bmq.proxy.appender.Appender, with a queue per partition that is not ready, to keep batches in order.

    Refusals are returned to the client: nothing is retried at another owner.
    """

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._loop = asyncio.get_running_loop()
        self._queues: dict[TopicPartition, deque[_Queued]] = {}
        self._queued_bytes = 0
        self._refused = RefusedSequences()
        self._tasks: dict[asyncio.Task[None], None] = {}  # cancelled in this order

    def append(  # noqa: PLR0913
        self,
        topic_partition: TopicPartition,
        records: memoryview,
        done: AppendDone,
        is_acks_all: bool = True,
        deadline_s: float = inf,
        leader_epoch: int = ANY_EPOCH,
        is_wanted: Callable[[], bool] = always,
        claim: TransactionClaim | None = None,
        is_answered: bool = True,
    ) -> None:
        """See Appender.append."""
        if self._refused.entries and self._refused.is_passed_by(topic_partition, records, self._loop.time()):
            done(BEHIND_A_REFUSED_ONE)
            return
        queue = self._queues.get(topic_partition) if self._queues else None
        if queue is None:
            log = self._partitions.ready(topic_partition)
            if log is not None:
                if leader_epoch == ANY_EPOCH or leader_epoch == log.leader_epoch:
                    log.append(records, done, is_acks_all=is_acks_all, claim=claim)
                else:
                    done(_refusal_of_epoch(log, leader_epoch))
                return
            queue = self._queues[topic_partition] = deque()
            task = self._loop.create_task(self._start(topic_partition))
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)
        size = len(records) + QUEUED_OVERHEAD_BYTES
        if self._queued_bytes + size > QUEUED_BYTES_MAX:
            done(AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, message="too much waits for partitions that start"))
            return
        self._queued_bytes += size
        queue.append(_Queued(records, done, is_acks_all, leader_epoch, deadline_s, is_wanted, self._loop.time(), claim))

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
                    queued = queue.popleft()
                    self._queued_bytes -= len(queued.records) + QUEUED_OVERHEAD_BYTES
                    self._pass_on(topic_partition, queued, log, refusal)
                if queue:
                    await asyncio.sleep(0)
        finally:
            del self._queues[topic_partition]
            self._queued_bytes -= sum(len(queued.records) + QUEUED_OVERHEAD_BYTES for queued in queue)

    def _pass_on(
        self, topic_partition: TopicPartition, queued: _Queued, log: PartitionLog | None, refusal: AppendResult
    ) -> None:
        records, done, is_acks_all, leader_epoch, deadline_s, is_wanted, arrived_s, claim = queued
        now_s = self._loop.time()
        if log is None:
            answer = refusal
        elif deadline_s <= now_s or not is_wanted():
            answer = _EXPIRED
        elif leader_epoch != ANY_EPOCH and leader_epoch != log.leader_epoch:
            answer = _refusal_of_epoch(log, leader_epoch)
        elif self._refused.entries and self._refused.is_passed_by(topic_partition, records, now_s, arrived_s):
            done(BEHIND_A_REFUSED_ONE)
            return
        else:
            log.append(records, done, is_acks_all=is_acks_all, claim=claim)
            return
        self._refuse(topic_partition, queued, answer)

    def _refuse(self, topic_partition: TopicPartition, queued: _Queued, answer: AppendResult) -> None:
        if queued.is_wanted():
            self._refused.add(topic_partition, queued.records, self._loop.time(), answer.error_code)
        queued.done(answer)

    def expire(self, now_s: float) -> None:
        """Answer batches whose start takes longer than their requests wait, and forget those of clients that have left."""
        for topic_partition, queue in tuple(self._queues.items()):
            expired = [queued for queued in queue if queued.deadline_s <= now_s or not queued.is_wanted()]
            if expired:
                kept = [queued for queued in queue if queued.deadline_s > now_s and queued.is_wanted()]
                queue.clear()
                queue.extend(kept)
                for queued in expired:
                    self._queued_bytes -= len(queued.records) + QUEUED_OVERHEAD_BYTES
                    self._refuse(topic_partition, queued, _EXPIRED)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


def _refusal_of_epoch(log: PartitionLog, leader_epoch: int) -> AppendResult:
    is_old = leader_epoch < log.leader_epoch
    return AppendResult(
        ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
        message=f"the leader epoch is {log.leader_epoch}, not {leader_epoch}",
    )
