"""Passes produced batches to their partitions' logs in order of arrival, also while a partition starts or moves.

With retries (a cluster's proxies): a batch is kept if its log refuses it because the partition has moved, or if its answer was
lost with the connection. Once all batches at that log are answered, the refused ones go to the next owner in their original
order; newer batches wait behind them. A batch whose answer was lost may be in the log already: the owner knows it by its sequence
number, and answers with success. A batch without a sequence number is not retried here; it fails, and its client decides.

Without retries (the logs of this process): batches wait while their partition starts. If its log refuses a batch, or the start
fails, the error is the answer, and the sender decides.

No waiting batch is given to a log after its deadline, or after its client has disconnected: the client may have sent it, and
later ones, again over another connection.

With retries batches are held for a short time only. A connection's answers leave in order, and stock clients send five requests
ahead. So batches held for a start delay those behind them, whose partitions are ready. That is right for a few partitions and a
moment, because they are ready sooner than a client retries. After HOLD_LONGEST_S a partition's batches are refused with
NOT_LEADER_OR_FOLLOWER, which clients retry after a backoff, while the start goes on. They are refused after HOLD_S while more
than PARTITIONS_HELD_MAX starts wait for their turn. If more than PARTITIONS_HELD_MAX partitions take longer than HOLD_S (a node
died), the batches of all of them are refused at once. Batches with acks=0 are held in any case: no client would retry them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from bmq.aio.backoff import Backoff
from bmq.log.partition_log import (
    ANY_EPOCH,
    AppendResult,
    PartitionLog,
    PartitionStarting,
    ProducedBatch,
    TopicPartition,
)
from bmq.log.refused_sequences import BEHIND_A_REFUSED_ONE, RefusedSequences
from bmq.protocol.error_codes import NOT_LEADER_AT_EPOCH, ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import BatchHeader, clear_log_append_time, is_stamped, producer_of, verify_crc
from bmq.proxy.partitions import Partitions

QUEUED_BYTES_MAX: Final = 64 * 1024 * 1024
QUEUED_OVERHEAD_BYTES: Final = 1024
"""Memory of a waiting batch besides its records; with small batches it is most of the memory."""
APPENDS_PER_TURN_MAX: Final = 64
"""Waiting batches that are given to a log in one turn of the event loop, once their partition's owner is found."""
BACKOFF_FIRST_S: Final = 0.01
BACKOFF_MAX_S: Final = 0.2
PARTITIONS_HELD_MAX: Final = 4
"""While more partitions than this move or start for long, clients are asked to retry.

It is below the five requests that librdkafka and Kafka's Java client send ahead on a connection, so that the limit works for a
single client too.
"""
HOLD_S: Final = 0.05
"""A move or start shorter than this does not count. (A node attaches to a partition of another one in a millisecond or two.)"""
HOLD_LONGEST_S: Final = 1.0
"""Longest hold of a partition's batches, also with few such partitions: one client's five requests may be for one of them."""

_MOVED: Final = NOT_LEADER_AT_EPOCH | {ErrorCode.NETWORK_EXCEPTION}
_FOLLOWS_FROM_A_REFUSAL: Final = frozenset((ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,))
_EXPIRED: Final = AppendResult(
    ErrorCode.REQUEST_TIMED_OUT, message="the partition was not started within the request's timeout"
)
_NOT_YET: Final = AppendResult(
    ErrorCode.NOT_LEADER_OR_FOLLOWER, message="the partition is still being started or moved: try again"
)
_STOPPED: Final = AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, message="the server stops")
_FAILED: Final = AppendResult(ErrorCode.UNKNOWN_SERVER_ERROR)
_UNKNOWN: Final = AppendResult(
    ErrorCode.REQUEST_TIMED_OUT, message="the connection to the partition's owner was lost: it may be written or not"
)
_OVERTAKEN: Final = AppendResult(
    ErrorCode.NOT_LEADER_OR_FOLLOWER, message="the partition moved, and its new owner has taken a later batch"
)

_log = structlog.get_logger("bmq.proxy")


class Appender:
    """Has a queue for each partition that is not ready, or whose log has batches that it may still refuse.

    `bytes_max`: most bytes of waiting batches, over all partitions; more are refused. `retries`: whether a batch that an owner
    refuses because the partition has moved goes to the next owner. `partitions_held_max`: while more partitions than this move or
    start for longer than HOLD_S, their batches are refused. `hold_longest_s`: after this time a partition's batches are refused
    in any case. `starts_waiting`: returns how many starts wait for their turn in this process.
    """

    def __init__(
        self,
        partitions: Partitions,
        bytes_max: int = QUEUED_BYTES_MAX,
        *,
        retries: bool = True,
        partitions_held_max: int = PARTITIONS_HELD_MAX,
        hold_longest_s: float = HOLD_LONGEST_S,
        starts_waiting: Callable[[], int] = int,
    ) -> None:
        self._partitions = partitions
        self._bytes_max = bytes_max
        self._retries = retries
        self._partitions_held_max = partitions_held_max
        self._hold_longest_s = hold_longest_s
        self._starts_waiting = starts_waiting
        self._long_moves = 0
        self._loop = asyncio.get_running_loop()
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._number = 0
        self._is_stopped = False
        self._refused = RefusedSequences()
        self.queued_bytes = 0

    def append(self, batch: ProducedBatch) -> None:
        """Append a batch as PartitionLog.append does, also while its partition starts or moves."""
        topic_partition = batch.topic_partition
        if self._refused.entries and self._refused.is_passed_by(topic_partition, batch.records, self._loop.time()):
            batch.complete(BEHIND_A_REFUSED_ONE)
            return
        queue = self._queues.get(topic_partition) if self._queues else None
        if queue is None:
            if not self._retries:
                log = self._partitions.ready(topic_partition)
                if log is not None:
                    refusal = _refusal_of_epoch(log, batch)
                    log.append(batch) if refusal is None else batch.complete(refusal)
                    return
            queue = self._queues[topic_partition] = PartitionQueue(self, topic_partition)
        self._number += 1
        batch.number = self._number
        if self._retries:
            batch.receiver = queue
        if queue.move is None:
            log = self._partitions.ready(topic_partition)
            if log is not None and (log is queue.log or not queue.outstanding):
                queue.log = log
                queue.outstanding[batch] = None
                log.append(batch)
                return
            self._begin_move(queue)
        if self._is_stopped:
            batch.request.answered(batch, _STOPPED)
        elif self._is_not_held(queue) and batch.request.is_answered and queue.is_empty:
            self._complete(queue, batch, _NOT_YET)
        elif not self._take(batch):
            self._complete(
                queue,
                batch,
                AppendResult(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER, message="too much waits for partitions that start or move"
                ),
            )
        else:
            queue.waiting.append(batch)

    def answered(self, queue: PartitionQueue, batch: ProducedBatch, result: AppendResult) -> None:
        """Take the log's result for a batch: report it, or keep the batch for the next owner."""
        del queue.outstanding[batch]
        # For the log, a producer's batch behind a refused one is out of order. Retry both at the next owner.
        is_moved = result.error_code in _MOVED or (queue.refused and result.error_code in _FOLLOWS_FROM_A_REFUSAL)
        if result.error_code is ErrorCode.NETWORK_EXCEPTION and producer_of(batch.records) is None:
            # Outcome unknown, and no sequence number: a retry might duplicate or reorder it. Its client decides.
            is_moved, result = False, _UNKNOWN
        if not is_moved:
            queue.is_retrying = False
            queue.backoff = None
            if result.error_code is ErrorCode.NONE and batch.number > queue.newest_written:
                queue.newest_written = batch.number
            self._complete(queue, batch, result)
        elif self._is_stopped or _is_too_late(batch, self._loop.time()) or not self._take(batch):
            self._complete(queue, batch, AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, message=result.message))
        else:
            # The link to the old owner, or the writer of the old file, may still send the buffer. Bytes changed in it for
            # the next owner would go to the old one too.
            queue.refused.append(batch.again(memoryview(_without_its_stamp(batch.records))))
            if queue.move is None:
                self._begin_move(queue)
        if not queue.outstanding:
            if queue.settled is not None and not queue.settled.done():
                queue.settled.set_result(None)
            elif queue.move is None:
                self._queues.pop(queue.topic_partition, None)

    def expire(self, now_s: float) -> None:
        """Drop the batches whose clients no longer wait; batches already at a log are answered by that log."""
        for queue in [queue for queue in self._queues.values() if queue.move is not None]:
            self._expire(queue, now_s)

    def stop(self) -> None:
        """Refuse all waiting batches, and keep none from now on."""
        self._is_stopped = True
        for queue in tuple(self._queues.values()):
            if queue.move is not None:
                queue.move.cancel()
                self._refuse(queue, _STOPPED)

    # --- moving

    def _begin_move(self, queue: PartitionQueue) -> None:
        queue.is_start_due = True
        queue.move = self._loop.create_task(self._move(queue))
        if self._retries:
            queue.hold_timer = self._loop.call_later(HOLD_S, self._move_is_long, queue)

    def _move_is_long(self, queue: PartitionQueue) -> None:
        queue.is_long = True
        self._limit_hold(queue, self._loop.time() + self._hold_longest_s - HOLD_S)
        self._long_moves += 1
        if self._long_moves <= self._partitions_held_max:
            return
        crossed = self._long_moves == self._partitions_held_max + 1
        for other in tuple(self._queues.values()) if crossed else (queue,):
            self._refuse_waiting(other)

    def _limit_hold(self, queue: PartitionQueue, until_s: float) -> None:
        """If the partition will not be ready soon, refuse its batches from now on; else check again later."""
        if self._loop.time() < until_s and self._starts_waiting() <= self._partitions_held_max:
            queue.hold_timer = self._loop.call_later(HOLD_S, self._limit_hold, queue, until_s)
            return
        queue.hold_timer = None
        queue.is_overdue = True
        self._refuse_waiting(queue)

    def _is_not_held(self, queue: PartitionQueue) -> bool:
        """Whether batches that would wait for this partition are refused instead."""
        return queue.is_overdue or self._long_moves > self._partitions_held_max

    async def _move(self, queue: PartitionQueue) -> None:
        """Find the partition's owner and hand it the waiting batches, until none is left. Starts the partition in any case."""
        try:
            while await self._gather(queue) or queue.is_start_due:
                if self._is_not_held(queue):
                    self._refuse_answered(queue)
                    if not queue.waiting and not queue.is_start_due:
                        continue
                queue.is_start_due = False
                if queue.is_retrying:
                    if queue.backoff is None:
                        queue.backoff = Backoff(None, first_s=BACKOFF_FIRST_S, max_s=BACKOFF_MAX_S)
                    await queue.backoff.pause()
                    self._expire(queue, self._loop.time())
                queue.is_retrying = True  # until an answer shows that this owner is the right one
                try:
                    log = await self._partitions.leader_of(queue.topic_partition)
                except BmqError as error:
                    is_tried_again = error.code in _MOVED or isinstance(error, PartitionStarting)
                    if not (self._retries and is_tried_again):
                        self._refuse(queue, AppendResult(error.code, message=str(error)))
                    continue
                await self._hand_over(queue, log)
        except Exception:  # noqa: BLE001 any bug is answered or logged
            _log.exception(
                "partition_move_failed",
                topic_id=str(queue.topic_partition.topic_id),
                partition=queue.topic_partition.partition,
            )
            self._refuse(queue, _FAILED)
        finally:
            queue.move = None
            self._long_moves -= queue.is_long
            queue.is_long = queue.is_overdue = False
            if queue.hold_timer is not None:
                queue.hold_timer.cancel()
                queue.hold_timer = None
            if not queue.outstanding:
                self._queues.pop(queue.topic_partition, None)

    async def _gather(self, queue: PartitionQueue) -> bool:
        """Wait until the log has answered every batch, and put the refused ones first. Returns whether batches are left."""
        if not queue.waiting and not queue.refused:
            return False
        while queue.outstanding:
            queue.settled = self._loop.create_future()
            await queue.settled
            queue.settled = None
        queue.refused.sort(key=_number)
        self._give_back_overtaken(queue)
        queue.waiting.extendleft(reversed(queue.refused))
        queue.refused.clear()
        self._expire(queue, self._loop.time())
        return bool(queue.waiting)

    def _give_back_overtaken(self, queue: PartitionQueue) -> None:
        """Fail refused batches without a sequence number if a later batch was written, because a retry would reorder them.

        (An owner that has just started may take the later batch.) The client decides then, as in Kafka; with acks=0 the batch is
        lost.
        """
        kept: list[ProducedBatch] = []
        overtaken: list[ProducedBatch] = []
        for batch in queue.refused:
            is_overtaken = batch.number < queue.newest_written and producer_of(batch.records) is None
            (overtaken if is_overtaken else kept).append(batch)
        queue.refused[:] = kept
        self._answer(queue, overtaken, _OVERTAKEN)

    async def _hand_over(self, queue: PartitionQueue, log: PartitionLog) -> None:
        """Append the waiting batches in order, until one is refused at once; the others stay in the queue."""
        queue.log = log
        while True:
            self._expire(queue, self._loop.time())  # finding the owner took time, and so did other turns
            for _ in range(APPENDS_PER_TURN_MAX):
                if not queue.waiting or queue.refused:
                    return
                self._pass_on(queue, log, queue.waiting.popleft())
            await asyncio.sleep(0)

    def _pass_on(self, queue: PartitionQueue, log: PartitionLog, batch: ProducedBatch) -> None:
        self.queued_bytes -= _queued_bytes(batch)
        refusal = _refusal_of_epoch(log, batch)
        if refusal is not None:
            self._complete(queue, batch, refusal)
        elif self._refused.entries and self._refused.is_passed_by(
            queue.topic_partition, batch.records, self._loop.time(), batch.request.arrived_s
        ):
            batch.request.answered(batch, BEHIND_A_REFUSED_ONE)
        else:
            if self._retries:
                queue.outstanding[batch] = None
            log.append(batch)

    # --- waiting batches

    def _take(self, batch: ProducedBatch) -> bool:
        size = _queued_bytes(batch)
        if self.queued_bytes + size > self._bytes_max:
            return False
        self.queued_bytes += size
        return True

    def _expire(self, queue: PartitionQueue, now_s: float) -> None:
        for batches in (queue.refused, queue.waiting):
            expired = [batch for batch in batches if _is_too_late(batch, now_s)]
            if expired:
                kept = [batch for batch in batches if not _is_too_late(batch, now_s)]
                batches.clear()
                batches.extend(kept)
                self._answer(queue, expired, _EXPIRED)

    def _refuse(self, queue: PartitionQueue, result: AppendResult) -> None:
        batches = (*sorted(queue.refused, key=_number), *queue.waiting)
        queue.refused.clear()
        queue.waiting.clear()
        self._answer(queue, batches, result)

    def _refuse_waiting(self, queue: PartitionQueue) -> None:
        """Refuse the batches that wait for a move. If batches before them are not answered yet, `_move` does it after these."""
        if queue.move is not None and not queue.outstanding and not queue.refused:
            self._refuse_answered(queue)

    def _refuse_answered(self, queue: PartitionQueue) -> None:
        """Refuse the waiting batches, except those with acks=0. Call only while none of the partition's batches is at a log."""
        refused = [batch for batch in queue.waiting if batch.request.is_answered]
        if refused:
            kept = [batch for batch in queue.waiting if not batch.request.is_answered]
            queue.waiting.clear()
            queue.waiting.extend(kept)
            self._answer(queue, refused, _NOT_YET)

    def _answer(self, queue: PartitionQueue, batches: Iterable[ProducedBatch], result: AppendResult) -> None:
        for batch in batches:
            self.queued_bytes -= _queued_bytes(batch)
            self._complete(queue, batch, result)

    def _complete(self, queue: PartitionQueue, batch: ProducedBatch, result: AppendResult) -> None:
        """Report the result. Remember a refused batch, so that its producer's later batches do not overtake its retry."""
        if result.error_code is not ErrorCode.NONE and batch.request.is_wanted():
            self._refused.add(queue.topic_partition, batch.records, self._loop.time(), result.error_code)
        batch.request.answered(batch, result)


class PartitionQueue:
    """One partition's batches: those at the log, those that it refused, and those waiting behind them."""

    __slots__ = (
        "_appender",
        "backoff",
        "hold_timer",
        "is_long",
        "is_overdue",
        "is_retrying",
        "is_start_due",
        "log",
        "move",
        "newest_written",
        "outstanding",
        "refused",
        "settled",
        "topic_partition",
        "waiting",
    )

    def __init__(self, appender: Appender, topic_partition: TopicPartition) -> None:
        self._appender = appender
        self.topic_partition = topic_partition
        self.log: PartitionLog | None = None
        self.outstanding: dict[ProducedBatch, None] = {}
        self.refused: list[ProducedBatch] = []
        self.waiting: deque[ProducedBatch] = deque()
        self.move: asyncio.Task[None] | None = None  # while set, new batches wait behind it
        self.settled: asyncio.Future[None] | None = None
        self.newest_written = 0  # number of the newest batch that a log took
        self.backoff: Backoff | None = None  # created for the first pause, dropped at an owner's answer
        self.is_retrying = False  # no owner has answered since the last try
        self.hold_timer: asyncio.TimerHandle | None = None
        self.is_long = False  # the move lasts longer than HOLD_S
        self.is_overdue = False  # it is known not to be back soon
        self.is_start_due = False  # a move has begun, and no owner was looked for yet

    @property
    def is_empty(self) -> bool:
        return not self.outstanding and not self.refused and not self.waiting

    def answered(self, batch: ProducedBatch, result: AppendResult) -> None:
        """Implements Receiver.answered, for the log that has the batch."""
        self._appender.answered(self, batch, result)


def _is_too_late(batch: ProducedBatch, now_s: float) -> bool:
    """Whether the batch's deadline has passed, or its client has disconnected."""
    return batch.request.send_until_s <= now_s or not batch.request.is_wanted()


def _refusal_of_epoch(log: PartitionLog, batch: ProducedBatch) -> AppendResult | None:
    """The refusal of a batch that was meant for another leader epoch than this owner's; None if the owner may take it."""
    leader_epoch = batch.leader_epoch
    if leader_epoch == ANY_EPOCH or leader_epoch == log.leader_epoch:
        return None
    is_old = leader_epoch < log.leader_epoch
    return AppendResult(
        ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
        message=f"the leader epoch is {log.leader_epoch}, not {leader_epoch}",
    )


def _queued_bytes(batch: ProducedBatch) -> int:
    return len(batch.records) + QUEUED_OVERHEAD_BYTES


def _number(batch: ProducedBatch) -> int:
    return batch.number


def _without_its_stamp(records: memoryview) -> bytearray:
    """A copy without the timestamp that an owner has written: the next owner would take it for the producer's and refuse it."""
    copy = bytearray(records)
    if is_stamped(copy):
        try:
            header = BatchHeader.parse(copy)
            verify_crc(copy, 0, header)  # a checksum that was wrong before stays wrong
        except BmqError:
            return copy
        clear_log_append_time(copy, 0, header)
    return copy
