"""Writes the markers of settled transactions into their partitions, and reports when a transaction has all of them.

Each partition with markers to write has a queue and one task that serves it, many markers at a time: a partition that
cannot be written now delays only its own markers. Transient errors are retried for ever; a marker that no retry can
write (its epoch is over) leaves its transaction as it is until the next owner of the shard tries.

A deleted partition needs no marker. A partition missing from the metadata counts as deleted only if the metadata is as
new as this owner's epoch: before that it may be in a topic that the last owner knew and this one does not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final, Protocol

import structlog

from bmq.aio.backoff import Backoff
from bmq.coordinator.topics import CurrentTopics
from bmq.coordinator.transactions.config import TransactionConfig
from bmq.coordinator.transactions.transaction import Partition
from bmq.log.partition_log import TopicPartition
from bmq.log.transactions import TransactionMarker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError

FINAL_ERRORS: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""A newer producer epoch, or a newer coordinator, has overtaken us."""
ANSWER_TURNS: Final = 3
"""Turns of the loop by which a transaction's markers are delayed, so that its producer is answered first. Writing
markers takes longer than that, and the answer does not wait for them."""
_TOLD_FAILURES: Final = 8
"""Consecutive failures of a partition before they are logged."""

_log = structlog.get_logger("bmq.coordinator")


class MarkerWriter(Protocol):
    """Writes markers to any partition, wherever its owner is."""

    async def write(self, topic_partition: TopicPartition, marker: TransactionMarker) -> None:
        """End the producer's transaction in this partition; durable when this returns. Raises KafkaError."""


class _Ending:
    """One transaction's markers. `left`: partitions whose marker is not written."""

    __slots__ = ("done", "left", "marker", "transactional_id")

    def __init__(
        self, transactional_id: str, marker: TransactionMarker, left: set[Partition], done: Callable[[], None]
    ) -> None:
        self.transactional_id = transactional_id
        self.marker = marker
        self.left = left
        self.done = done


class MarkerDelivery:
    """The markers of one shard at one coordinator epoch. Create it inside the event loop; `close` stops everything.

    `is_current()`: whether `topics` has all topics that earlier owners of the shard knew; once true it stays true.
    `failed(error)`: called after an unexpected exception, so that some markers may never be written here.
    """

    def __init__(
        self,
        writer: MarkerWriter,
        topics: CurrentTopics,
        is_current: Callable[[], bool],
        random: Random,
        config: TransactionConfig,
        failed: Callable[[BaseException], None],
    ) -> None:
        self.waiting_count = 0
        """Markers that are not written yet."""
        self.written_count = 0
        self._writer = writer
        self._topics = topics
        self._is_current = is_current
        self._random = random
        self._config = config
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._queues: dict[Partition, deque[_Ending]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}  # cancelled in this order
        self._is_closed = False

    def begin(
        self,
        transactional_id: str,
        marker: TransactionMarker,
        partitions: Iterable[Partition],
        done: Callable[[], None],
    ) -> None:
        """Write the marker into each partition. `done` is called once, when all have it or are deleted."""
        ending = _Ending(transactional_id, marker, set(partitions), done)
        if not ending.left:
            self._loop.call_soon(self._finished, ending)
            return
        self.waiting_count += len(ending.left)
        self._begin_after(ANSWER_TURNS, ending)

    def _begin_after(self, turns: int, ending: _Ending) -> None:
        if turns:
            self._loop.call_soon(self._begin_after, turns - 1, ending)
        elif not self._is_closed:
            try:
                self._enqueue(ending)
            except Exception as error:  # noqa: BLE001 any bug is answered or logged
                self._failed(error)

    def _enqueue(self, ending: _Ending) -> None:
        for partition in sorted(ending.left):
            queue = self._queues.get(partition)
            if queue is not None:
                queue.append(ending)
                continue
            queue = self._queues[partition] = deque((ending,))
            task = self._loop.create_task(self._serve(partition, queue))
            self._tasks[task] = None
            task.add_done_callback(self._ended)

    def close(self) -> None:
        """Stop writing; no callback is called any more."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        self._queues = {}
        self.waiting_count = 0

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failed(error)

    async def _serve(self, partition: Partition, queue: deque[_Ending]) -> None:
        backoff = Backoff(
            self._random, first_s=self._config.retry_min_ms / 1000, max_s=self._config.retry_max_ms / 1000
        )
        while queue:
            some = [queue.popleft() for _ in range(min(len(queue), self._config.markers_at_once_max))]
            errors = await self._write_all(partition, some)
            again = [ending for ending, error in zip(some, errors, strict=True) if error is not None]
            if not again:
                backoff.reset()
                continue
            queue.extendleft(reversed(again))
            if backoff.failures == _TOLD_FAILURES:
                _log.warning(
                    "markers_not_written",
                    topic=partition[0],
                    partition=partition[1],
                    markers=len(queue),
                    reason=next(str(error) for error in errors if error is not None),
                )
            await backoff.pause()
        del self._queues[partition]

    async def _write_all(self, partition: Partition, some: Sequence[_Ending]) -> Sequence[Exception | None]:
        """Try each of them once."""
        if len(some) == 1:  # nearly always, and it needs no task of its own
            return [await self._write(partition, some[0])]
        return await asyncio.gather(*(self._write(partition, ending) for ending in some))

    async def _write(self, partition: Partition, ending: _Ending) -> Exception | None:
        """Try once; None when the marker is written or final."""
        key = self._find(partition)
        if key is None and not self._is_current():
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the metadata are older than the coordinator's reign"
            )
        if key is not None:  # else the topic was deleted, with everything to be committed
            try:
                await self._writer.write(key, ending.marker)
            except BmqError as error:
                if error.code not in FINAL_ERRORS:
                    return error
                self.waiting_count -= 1
                _log.error(
                    "marker_refused",
                    transactional_id=ending.transactional_id,
                    topic=partition[0],
                    partition=partition[1],
                    producer_id=ending.marker.producer_id,
                    producer_epoch=ending.marker.producer_epoch,
                    coordinator_epoch=ending.marker.coordinator_epoch,
                    error=error.code.name,
                )
                return None
            except Exception as error:  # noqa: BLE001 a bug with one marker must not stop the others
                _log.error("marker_failed", topic=partition[0], partition=partition[1], exc_info=error)
                return error
            self.written_count += 1
        self.waiting_count -= 1
        ending.left.discard(partition)
        if not ending.left:
            self._finished(ending)
        return None

    def _finished(self, ending: _Ending) -> None:
        if not self._is_closed:
            ending.done()

    def _find(self, partition: Partition) -> TopicPartition | None:
        topic, number = partition
        found = self._topics().topics.get(topic)
        is_there = found is not None and 0 <= number < len(found.partitions)
        return TopicPartition(found.topic_id, number) if found is not None and is_there else None
