"""Brings produced batches to their partitions' logs in the order in which they came, also while a partition starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple, Protocol

from bmq.log.partition_log import AppendDone, AppendResult, PartitionLog, TopicPartition
from bmq.log.refused_sequences import BEHIND_A_REFUSED_ONE, RefusedSequences
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.proxy.patient_appends import PatientAppends

_QUEUED_BYTES_MAX: Final = 64 * 1024 * 1024
_ANY_EPOCH: Final = -1
_EXPIRED: Final = AppendResult(
    ErrorCode.REQUEST_TIMED_OUT, message="the partition did not start within the request's timeout"
)


def _always() -> bool:
    return True


class _Queued(NamedTuple):
    """A batch that waits for its partition to start."""

    records: memoryview
    done: AppendDone
    is_acks_all: bool
    leader_epoch: int
    deadline_s: float
    is_wanted: Callable[[], bool]


class Expiring(Protocol):
    """A produce that must be answered by `deadline_s`."""

    deadline_s: float

    def expire(self) -> None: ...


class Partitions(Protocol):
    """The way to partition owners (in one process: the broker's partition manager)."""

    def ready(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log, if it is here and writing; the fast path."""

    async def leader_of(self, topic_partition: TopicPartition) -> PartitionLog:
        """The log, started if it was idle. Raises KafkaError NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION,
        KAFKA_STORAGE_ERROR."""


class Appender:
    """Per partition that is not ready, a queue; behind it nobody overtakes.

    `is_patient`: batches that are refused because the partition has moved are kept and brought to its next owner, in
    order, until their deadline. Else every refusal is the answer.
    """

    def __init__(self, partitions: Partitions, is_patient: bool = False) -> None:
        self._partitions = partitions
        self._patient = PatientAppends(partitions, _QUEUED_BYTES_MAX) if is_patient else None
        self._queues: dict[TopicPartition, list[_Queued]] = {}
        self._queued_bytes = 0
        self._refused = RefusedSequences()
        self.refused_unknown = RefusedSequences()
        """By (name or id of a topic, partition) as the client says it: batches for what this process has not heard of yet."""
        self._waiting: dict[Expiring, None] = {}  # in order: what follows is the same each time
        self._tasks: dict[asyncio.Task[None], None] = {}  # ended in this order

    def append(
        self,
        topic_partition: TopicPartition,
        records: memoryview,
        done: AppendDone,
        is_acks_all: bool = True,
        deadline_s: float = inf,
        leader_epoch: int = _ANY_EPOCH,
        is_wanted: Callable[[], bool] = _always,
    ) -> None:
        """As PartitionLog.append, wherever the partition is in its life.

        `deadline_s` (the loop's time): no log is given the batch after it, since the client will have given it up.
        `leader_epoch`: the only one that may take the batch; any other is refused with FENCED_LEADER_EPOCH or
        UNKNOWN_LEADER_EPOCH. `is_wanted()`: False once the client has left; a batch that waits then goes nowhere.
        """
        if self._patient is not None:
            self._patient.append(topic_partition, records, done, is_acks_all, deadline_s, is_wanted)
            return
        if self._refused and self._refused.is_passed_by(topic_partition, records, asyncio.get_running_loop().time()):
            done(BEHIND_A_REFUSED_ONE)
            return
        queue = self._queues.get(topic_partition) if self._queues else None
        if queue is None:
            log = self._partitions.ready(topic_partition)
            if log is not None:
                if leader_epoch == _ANY_EPOCH or leader_epoch == log.leader_epoch:
                    log.append(records, done, is_acks_all=is_acks_all)
                else:
                    done(_refusal_of_epoch(log, leader_epoch))
                return
            queue = self._queues[topic_partition] = []
            task = asyncio.get_running_loop().create_task(self._start(topic_partition))
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)
        if self._queued_bytes + len(records) > _QUEUED_BYTES_MAX:
            done(AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, message="too much waits for partitions that start"))
            return
        self._queued_bytes += len(records)
        queue.append(_Queued(records, done, is_acks_all, leader_epoch, deadline_s, is_wanted))

    async def _start(self, topic_partition: TopicPartition) -> None:
        log: PartitionLog | None = None
        refusal = AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            log = await self._partitions.leader_of(topic_partition)
        except BmqError as error:
            refusal = AppendResult(error.code, message=str(error))
        finally:
            queue = self._queues.pop(topic_partition)
            self._queued_bytes -= sum(len(queued.records) for queued in queue)
        now_s = asyncio.get_running_loop().time()
        for records, done, is_acks_all, leader_epoch, deadline_s, is_wanted in queue:
            if log is None:
                answer = refusal
            elif deadline_s <= now_s or not is_wanted():
                answer = _EXPIRED
            elif leader_epoch != _ANY_EPOCH and leader_epoch != log.leader_epoch:
                answer = _refusal_of_epoch(log, leader_epoch)
            elif self._refused and self._refused.is_passed_by(topic_partition, records, now_s):
                done(BEHIND_A_REFUSED_ONE)
                continue
            else:
                log.append(records, done, is_acks_all=is_acks_all)
                continue
            if is_wanted():
                self._refused.add(topic_partition, records, now_s, answer.error_code)
            done(answer)

    # --- deadlines
    def wait(self, produce: Expiring) -> None:
        self._waiting[produce] = None

    def done(self, produce: Expiring) -> None:
        self._waiting.pop(produce, None)

    def expire(self, now_s: float) -> None:
        """Answer what waited too long."""
        for produce in [produce for produce in self._waiting if produce.deadline_s <= now_s]:
            produce.expire()
        if self._patient is not None:
            self._patient.expire(now_s)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._patient is not None:
            self._patient.stop()


def _refusal_of_epoch(log: PartitionLog, leader_epoch: int) -> AppendResult:
    is_old = leader_epoch < log.leader_epoch
    return AppendResult(
        ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
        message=f"the leader epoch is {log.leader_epoch}, not {leader_epoch}",
    )
