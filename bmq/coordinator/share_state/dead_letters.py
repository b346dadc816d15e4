"""Writes the dead letters of a shard's share partitions (KIP-1191): records stay archiving until theirs are durable.

One task for each group with such records takes its share partitions in turn. What cannot be written is tried again after
a pause, and the group's other share partitions go on meanwhile; nothing else waits for it. A new owner of the shard finds
the records still archiving and goes on. A dead letter is written twice if the shard's owner ends, or loses the shard, before
it is durable that the record is archived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

import structlog

from bmq.aio.backoff import Backoff
from bmq.coordinator.share_state.metrics import DeadLetterCounts
from bmq.coordinator.share_state.partition import PartitionKey, SharePartition
from bmq.coordinator.share_state.window import Window
from bmq.protocol.dead_letters import DeadLetterTerms, DeadReason, DeadRecords
from bmq.protocol.errors import BmqError

RECORDS_PER_WRITE_MAX: Final = 500
WRITES_AT_ONCE_MAX: Final = 16
"""Of one process: what is read for each is bounded by the writer."""
PAUSE_FIRST_S: Final = 0.2
PAUSE_MAX_S: Final = 30.0
TRIES_BEFORE_DROP: Final = 5
"""As in Kafka. Only for groups that would rather lose a dead letter than keep its record waiting."""

_log = structlog.get_logger("bmq.coordinator")


class DeadLetterWriter(Protocol):
    """Writes dead letters, wherever the records and the topic are."""

    def is_enabled(self) -> bool:
        """Whether the cluster has dead letters at all (share.version 2)."""

    async def write(self, dead: DeadRecords) -> int:
        """Write dead letters of records from the first on; the offset behind the last one that is durable.

        Raises BmqError with a sentence when none could be written now.
        """


class StateOfShard(Protocol):
    """What this needs of the shard."""

    partitions: dict[PartitionKey, SharePartition]
    is_lost: bool

    def archive_dead(self, partition: SharePartition, window: Window, first: int, last: int) -> asyncio.Future[None]:
        """Begin to write that archiving records are archived. Raises KafkaError."""

    def elapsed_ms(self) -> float: ...

    def is_proven(self, asked_ms: float) -> bool:
        """Whether a proof of ownership is recent enough."""

    async def prove(self) -> None:
        """Raises KafkaError when the shard has another owner."""

    def fail(self, error: BaseException) -> None:
        """Give the shard up for a bug; its next owner goes on."""


class DeadLetterContext:
    """What all shards of a process share. `terms(group)`: None for a group without dead letters (now)."""

    def __init__(
        self,
        writer: DeadLetterWriter,
        terms: Callable[[str], DeadLetterTerms | None],
        counts: DeadLetterCounts,
    ) -> None:
        self.writer = writer
        self.terms = terms
        self.counts = counts
        self.slots = asyncio.Semaphore(WRITES_AT_ONCE_MAX)


class DeadLetters:
    """Of one shard. `why(group)`: the reason of the last failure, until a write succeeds."""

    def __init__(self, shard: StateOfShard, context: DeadLetterContext) -> None:
        self._shard = shard
        self._context = context
        self._groups: dict[str, _GroupDeadLetters] = {}

    def begin(self, partition: SharePartition) -> None:
        """The partition has records that are archiving."""
        group_id = partition.key.group_id
        group = self._groups.get(group_id)
        if group is None or group.task.done():
            group = self._groups[group_id] = _GroupDeadLetters(group_id, self._shard, self._context)
            group.task.add_done_callback(partial(self._ended, group))
        group.waiting[partition.key] = None

    def _ended(self, group: _GroupDeadLetters, task: asyncio.Task[None]) -> None:
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._shard.fail(error)

    def why(self, group_id: str) -> str | None:
        """Why the group's dead letters are not written; None: they are."""
        group = self._groups.get(group_id)
        return None if group is None else group.why

    @property
    def failing(self) -> Mapping[str, str]:
        """Groups whose dead letters cannot be written now, and why."""
        return {group_id: group.why for group_id, group in self._groups.items() if group.why is not None}

    def close(self) -> None:
        """The shard has another owner, or this process ends."""
        for group in tuple(self._groups.values()):
            group.task.cancel()


class _GroupDeadLetters:
    """`waiting`: share partitions that may have archiving records, the next one first."""

    def __init__(self, group_id: str, shard: StateOfShard, context: DeadLetterContext) -> None:
        self.why: str | None = None
        self.waiting: dict[PartitionKey, None] = {}
        self.group_id = group_id
        self._shard = shard
        self._context = context
        self._failed: set[PartitionKey] = set()
        self._pauses = Backoff(None, first_s=PAUSE_FIRST_S, max_s=PAUSE_MAX_S)
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self.waiting:
            key = next(iter(self.waiting))
            del self.waiting[key]
            partition = self._shard.partitions.get(key)
            window = None if partition is None else partition.window
            if partition is None or window is None:
                self._failed.discard(key)
                continue
            if partition.barrier is not None:  # it begins anew, or is deleted
                await asyncio.wait({partition.barrier})
            elif (found := window.first_dead(RECORDS_PER_WRITE_MAX)) is not None:
                await self._write_and_archive(partition, window, found)
            else:
                self._failed.discard(key)
                continue
            self.waiting[key] = None  # behind the others
            if self._failed >= self.waiting.keys():
                self._failed.clear()
                await self._pauses.pause()

    async def _write_and_archive(
        self, partition: SharePartition, window: Window, found: tuple[int, int, int, DeadReason]
    ) -> None:
        """Write dead letters of the next records of a partition, and archive these."""
        first, last, delivery_count, reason = found
        terms = self._context.terms(self.group_id)
        end = last + 1
        if terms is None:  # somebody has taken the group's topic of dead letters away
            self._context.counts.dropped += end - first
        else:
            dead = DeadRecords(*partition.key, first, last, delivery_count, reason, terms)
            written = await self._write(partition, dead)
            if written is None:
                return
            end = written
        await self._archive(partition, window, first, min(end - 1, last))

    async def _write(self, partition: SharePartition, dead: DeadRecords) -> int | None:
        """The offset behind the last record to be archived; None: none yet."""
        counts = self._context.counts
        try:
            async with self._context.slots:
                if not self._shard.is_proven(self._shard.elapsed_ms()):
                    await self._shard.prove()  # a former owner would write what the present one writes
                counts.add_request(self.group_id)
                end = await self._context.writer.write(dead)
        except Exception as error:  # noqa: BLE001 any bug is logged, and tried again like other failures
            self._fail(error)
            if not dead.terms.is_dropping or self._pauses.failures < TRIES_BEFORE_DROP - 1:
                self._failed.add(partition.key)
                return None
            counts.dropped += dead.last + 1 - dead.first
            return dead.last + 1
        self.why = None
        self._pauses.reset()
        self._failed.clear()
        counts.add_records(self.group_id, end - dead.first)
        return end

    def _fail(self, error: Exception) -> None:
        why = str(error) or repr(error)
        if why != self.why:
            is_ours = not isinstance(error, BmqError)
            _log.warning("dead_letters_wait", group=self.group_id, reason=why, exc_info=error if is_ours else None)
        self.why = why
        self._context.counts.add_failure(self.group_id)

    async def _archive(self, partition: SharePartition, window: Window, first: int, last: int) -> None:
        """Returns when it is durable, or the records are gone. The dead letters are not written again before that."""
        pauses = Backoff(None, first_s=PAUSE_FIRST_S, max_s=PAUSE_MAX_S)
        while not self._shard.is_lost and partition.window is window and last >= window.start:
            if partition.barrier is not None:
                await asyncio.wait({partition.barrier})
                continue
            try:
                await asyncio.shield(self._shard.archive_dead(partition, window, first, last))
                return
            except BmqError:
                await pauses.pause()
