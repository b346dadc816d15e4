"""Batches on their way to partitions that may move meanwhile: none is lost, none overtakes another, clients only wait.

A batch that its log refuses because the partition has moved, or whose answer was lost with the connection, is kept. When
everything that was handed to that log is answered, what was refused goes to the next owner in the order in which it came;
newer batches queue up behind. A batch whose outcome was unknown may be in the log already: of an idempotent producer the
owner recognizes it (its answer is a success), other producers get it twice, as after any retry (at least once).

Nothing is handed to a log after its deadline, or after its client has left: the client has given it up, and may have sent
it, and others behind it, again by another way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import structlog

from bmq.log.partition_log import AppendDone, AppendResult, PartitionLog, PartitionStarting, TopicPartition
from bmq.log.refused_sequences import BEHIND_A_REFUSED_ONE, RefusedSequences
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import producer_of

if TYPE_CHECKING:
    from bmq.proxy.appender import Partitions

BACKOFF_FIRST_S: Final = 0.01
BACKOFF_MAX_S: Final = 0.2

_MOVED: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NETWORK_EXCEPTION,
    )
)
_FOLLOWS_FROM_A_REFUSAL: Final = frozenset((ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,))
_EXPIRED: Final = AppendResult(
    ErrorCode.REQUEST_TIMED_OUT, message="the partition had no owner within the request's timeout"
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


class PatientAppends:
    """`bytes_max`: of batches that wait for a partition, all together; more are refused."""

    def __init__(self, partitions: Partitions, bytes_max: int) -> None:
        self._partitions = partitions
        self._bytes_max = bytes_max
        self._loop = asyncio.get_running_loop()
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._number = 0
        self._is_stopped = False
        self._refused = RefusedSequences()
        self.queued_bytes = 0

    def append(
        self,
        topic_partition: TopicPartition,
        records: memoryview,
        done: AppendDone,
        is_acks_all: bool,
        deadline_s: float,
        is_wanted: Callable[[], bool],
    ) -> None:
        """See Appender.append."""
        if self._refused and self._refused.is_passed_by(topic_partition, records, self._loop.time()):
            done(BEHIND_A_REFUSED_ONE)
            return
        lane = self._lanes.get(topic_partition)
        if lane is None:
            lane = self._lanes[topic_partition] = _Lane(topic_partition)
        self._number += 1
        batch = _Batch(self, lane, self._number, records, done, is_acks_all, deadline_s, is_wanted)
        if lane.move is None:
            log = self._partitions.ready(topic_partition)
            if log is not None and (log is lane.log or not lane.outstanding):
                lane.log = log
                lane.outstanding[batch] = None
                log.append(records, batch, is_acks_all=is_acks_all)
                return
            self._begin_move(lane)
        if self._is_stopped:
            done(_STOPPED)
        elif not self._take(batch):
            self._tell(
                batch, AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, message="too much waits for partitions that move")
            )
        else:
            lane.waiting.append(batch)

    def answered(self, batch: _Batch, result: AppendResult) -> None:
        """The log it was handed to says what became of it."""
        lane = batch.lane
        del lane.outstanding[batch]
        # Behind a batch that was refused, a producer's next one is out of order there; it goes with it to the next owner.
        is_moved = result.error_code in _MOVED or (lane.refused and result.error_code in _FOLLOWS_FROM_A_REFUSAL)
        if result.error_code is ErrorCode.NETWORK_EXCEPTION and producer_of(batch.records) is None:
            # It may be in the log, or one behind it may. Without a number nobody could tell a copy, so its client decides.
            is_moved, result = False, _UNKNOWN
        if not is_moved:
            lane.failures = 0
            if result.error_code is ErrorCode.NONE:
                lane.newest_written = max(lane.newest_written, batch.number)
            self._tell(batch, result)
        elif self._is_stopped or batch.is_too_late(self._loop.time()) or not self._take(batch):
            self._tell(batch, AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, message=result.message))
        else:
            # The link to the old owner, or the writer of the old file, may still hold the buffer and send it; what is
            # written into it for the next owner would go to the old one too.
            batch.records = memoryview(bytearray(batch.records))
            lane.refused.append(batch)
            if lane.move is None:
                self._begin_move(lane)
        if not lane.outstanding:
            if lane.settled is not None and not lane.settled.done():
                lane.settled.set_result(None)
            elif lane.move is None:
                self._lanes.pop(lane.topic_partition, None)

    def expire(self, now_s: float) -> None:
        """Drop the batches nobody waits for any more; those that are with a log are that log's to answer."""
        for lane in [lane for lane in self._lanes.values() if lane.move is not None]:
            self._expire(lane, now_s)

    def stop(self) -> None:
        """Refuse what waits, and wait for nothing any more."""
        self._is_stopped = True
        for lane in tuple(self._lanes.values()):
            if lane.move is not None:
                lane.move.cancel()
                self._refuse(lane, _STOPPED)

    # --- moving

    def _begin_move(self, lane: _Lane) -> None:
        lane.move = self._loop.create_task(self._move(lane))

    async def _move(self, lane: _Lane) -> None:
        """Until nothing of the partition waits any more."""
        try:
            while await self._gather(lane):
                if lane.failures:
                    await asyncio.sleep(min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(lane.failures - 1, 10)))
                    self._expire(lane, self._loop.time())
                lane.failures += 1  # until an answer shows that it was the right place
                try:
                    log = await self._partitions.leader_of(lane.topic_partition)
                except BmqError as error:
                    if error.code not in _MOVED and not isinstance(error, PartitionStarting):
                        self._refuse(lane, AppendResult(error.code, message=str(error)))
                    continue
                self._hand_over(lane, log)
        except Exception:
            _log.exception(
                "partition_move_failed",
                topic_id=str(lane.topic_partition.topic_id),
                partition=lane.topic_partition.partition,
            )
            self._refuse(lane, _FAILED)
        finally:
            lane.move = None
            if not lane.outstanding:
                self._lanes.pop(lane.topic_partition, None)

    async def _gather(self, lane: _Lane) -> bool:
        """Wait until all that was handed out is answered if any of it was refused; whether anything is to be sent."""
        if not lane.waiting and not lane.refused:
            return False
        while lane.outstanding:
            lane.settled = self._loop.create_future()
            await lane.settled
            lane.settled = None
        lane.refused.sort(key=_number)
        self._give_back_overtaken(lane)
        lane.waiting.extendleft(reversed(lane.refused))
        lane.refused.clear()
        self._expire(lane, self._loop.time())
        return bool(lane.waiting)

    def _give_back_overtaken(self, lane: _Lane) -> None:
        """A batch without a sequence number, refused by a log that took a later one: sent again, it would come behind that.

        An owner that has just started may do so. Its client decides, as in Kafka; with acks=0 the batch is gone.
        """
        kept: list[_Batch] = []
        overtaken: list[_Batch] = []
        for batch in lane.refused:
            is_overtaken = batch.number < lane.newest_written and producer_of(batch.records) is None
            (overtaken if is_overtaken else kept).append(batch)
        lane.refused[:] = kept
        self._answer(overtaken, _OVERTAKEN)

    def _hand_over(self, lane: _Lane, log: PartitionLog) -> None:
        """As far as the log takes them: behind one that is refused at once, the rest stay."""
        self._expire(lane, self._loop.time())  # finding the owner took time
        lane.log = log
        while lane.waiting and not lane.refused:
            batch = lane.waiting.popleft()
            self.queued_bytes -= len(batch.records)
            if self._refused and self._refused.is_passed_by(lane.topic_partition, batch.records, self._loop.time()):
                batch.done(BEHIND_A_REFUSED_ONE)
                continue
            lane.outstanding[batch] = None
            log.append(batch.records, batch, is_acks_all=batch.is_acks_all)

    # --- what waits

    def _take(self, batch: _Batch) -> bool:
        size = len(batch.records)
        if self.queued_bytes + size > self._bytes_max:
            return False
        self.queued_bytes += size
        return True

    def _expire(self, lane: _Lane, now_s: float) -> None:
        for batches in (lane.refused, lane.waiting):
            expired = [batch for batch in batches if batch.is_too_late(now_s)]
            if expired:
                kept = [batch for batch in batches if not batch.is_too_late(now_s)]
                batches.clear()
                batches.extend(kept)
                self._answer(expired, _EXPIRED)

    def _refuse(self, lane: _Lane, result: AppendResult) -> None:
        batches = (*sorted(lane.refused, key=_number), *lane.waiting)
        lane.refused.clear()
        lane.waiting.clear()
        self._answer(batches, result)

    def _answer(self, batches: Iterable[_Batch], result: AppendResult) -> None:
        for batch in batches:
            self.queued_bytes -= len(batch.records)
            self._tell(batch, result)

    def _tell(self, batch: _Batch, result: AppendResult) -> None:
        """What became of it. What its client had sent behind one that it will send again has to wait for that one."""
        if result.error_code is not ErrorCode.NONE and batch.is_wanted():
            self._refused.add(batch.lane.topic_partition, batch.records, self._loop.time(), result.error_code)
        batch.done(result)


class _Lane:
    """One partition's batches: with the log, refused by it, and waiting behind."""

    __slots__ = (
        "failures",
        "log",
        "move",
        "newest_written",
        "outstanding",
        "refused",
        "settled",
        "topic_partition",
        "waiting",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.log: PartitionLog | None = None
        self.outstanding: dict[_Batch, None] = {}
        self.refused: list[_Batch] = []
        self.waiting: deque[_Batch] = deque()
        self.move: asyncio.Task[None] | None = None  # nothing is handed out past it
        self.settled: asyncio.Future[None] | None = None
        self.newest_written = 0  # number of the newest batch that a log took
        self.failures = 0  # tries in a row without an answer from an owner


class _Batch:
    """Given to the log as its `done`."""

    __slots__ = ("_appends", "deadline_s", "done", "is_acks_all", "is_wanted", "lane", "number", "records")

    def __init__(
        self,
        appends: PatientAppends,
        lane: _Lane,
        number: int,
        records: memoryview,
        done: AppendDone,
        is_acks_all: bool,
        deadline_s: float,
        is_wanted: Callable[[], bool],
    ) -> None:
        self._appends = appends
        self.is_wanted = is_wanted
        self.lane = lane
        self.number = number
        self.records = records
        self.done = done
        self.is_acks_all = is_acks_all
        self.deadline_s = deadline_s

    def __call__(self, result: AppendResult) -> None:
        self._appends.answered(self, result)

    def is_too_late(self, now_s: float) -> bool:
        """Whether its client has given it up, or will have before an owner answers."""
        return self.deadline_s <= now_s or not self.is_wanted()


def _number(batch: _Batch) -> int:
    return batch.number
