"""Retention and backlog quotas by what consumer groups have committed: asks coordinators, for many partitions at once.

Retention asks in the round in which it would delete something, and deletes by that answer alone: a group may have been
set back since an earlier one. A quota is looked at with each upkeep by the offsets last known; only a partition that
seems to be over it, or was not asked about for `QUOTA_ASKED_S`, is asked about again, before anything is refused or
deleted. Without an answer nothing is deleted for the groups' sake, and nobody is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

import structlog

from bmq.log.clock import Clock
from bmq.log.committed_offsets import CommittedOffsets
from bmq.log.config import BacklogPolicy, LogConfig
from bmq.log.consumed_retention import BacklogSize, consumed_by_all, excess_of, slowest_group
from bmq.log.names import partition_directory
from bmq.log.partition_log import AppendResult, TopicPartition
from bmq.protocol.error_codes import ErrorCode

ASKS_MAX: Final = 8
"""Topics asked about at once."""
ASK_S_MAX: Final = 20.0
QUOTA_ASKED_S: Final = 30.0
_PARTITIONS_PER_TURN_MAX: Final = 100

_log = structlog.get_logger("bmq.broker")


class Backlog:
    """What one partition's owner knows of the slowest of the groups that its topic names.

    `refusal`: the answer to produces while the quota is exceeded. `consumed_offset`: as last known; `asked_s`: when, by
    the loop's time. `seen_offset`: the high watermark up to which the quotas are known to hold.
    """

    __slots__ = ("asked_s", "consumed_offset", "is_asked", "refusal", "seen_offset")

    def __init__(self) -> None:
        self.refusal: AppendResult | None = None
        self.consumed_offset = 0
        self.asked_s = float("-inf")
        self.is_asked = False
        self.seen_offset = -1

    def ask_again(self) -> None:
        """The topic's settings changed: what was known may not be enough."""
        self.asked_s = float("-inf")


class Retention(Protocol):
    """The part that deletes the head of a partition's log."""

    def expire_producers(self, now_ms: int) -> None: ...
    def is_due(self, now_ms: int) -> bool: ...
    async def apply(self, now_ms: int, consumed_offset: int = 0) -> None: ...
    def backlog_from(self, consumed_offset: int) -> BacklogSize: ...
    async def evict_backlog(self, consumed_offset: int, now_ms: int) -> None: ...


class BackloggedPartition(Protocol):
    """The part of a PartitionRuntime that is used here."""

    topic_partition: TopicPartition
    topic_name: str

    @property
    def config(self) -> LogConfig: ...
    @property
    def backlog(self) -> Backlog: ...
    @property
    def is_owning(self) -> bool: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def retention(self) -> Retention: ...


class GroupBacklogs:
    """Made in the event loop. `offsets`: None until there are coordinators to ask."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.offsets: CommittedOffsets | None = None
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(ASKS_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    # --- retention

    async def apply_retention(self, partitions: Sequence[BackloggedPartition], now_ms: int) -> None:
        """One round over these partitions. Those that have nothing to drop cost no task and no question."""
        due = await self._due(partitions, now_ms)
        held = [partition for partition in due if partition.config.retention_groups]
        for partition in due:
            if not partition.config.retention_groups:
                await self._apply(partition, now_ms, 0)
        committed: dict[TopicPartition, Mapping[str, int]] = {}
        for found in await asyncio.gather(*(self._ask(some) for some in _by_question(held))):
            committed.update(found)
        for partition in held:
            known = committed.get(partition.topic_partition, {})
            await self._apply(partition, now_ms, consumed_by_all(known, partition.config.retention_groups))

    async def _apply(self, partition: BackloggedPartition, now_ms: int, consumed_offset: int) -> None:
        try:
            await partition.retention.apply(now_ms, consumed_offset)
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            _report_failure("partition_retention_failed", partition, error)

    async def _due(self, partitions: Sequence[BackloggedPartition], now_ms: int) -> list[BackloggedPartition]:
        due = []
        for number, partition in enumerate(partitions, 1):
            try:
                partition.retention.expire_producers(now_ms)
                if partition.retention.is_due(now_ms):
                    due.append(partition)
            except Exception as error:  # noqa: BLE001 any bug is answered or logged
                _report_failure("partition_retention_failed", partition, error)
            if number % _PARTITIONS_PER_TURN_MAX == 0:
                await asyncio.sleep(0)  # others have their turn
        return due

    # --- quotas

    def check_quotas(self, partitions: Iterable[BackloggedPartition], now_s: float, now_ms: int) -> None:
        """Compare these partitions, which have quotas, with what is known; ask where that may not be enough."""
        due = []
        for partition in partitions:
            backlog = partition.backlog
            if backlog.is_asked:
                continue
            if backlog.refusal is not None or now_s - backlog.asked_s >= QUOTA_ASKED_S:
                due.append(partition)
                continue
            config, end_offset = partition.config, partition.high_watermark
            if end_offset == backlog.seen_offset and config.backlog_quota_ms < 0:
                continue  # nothing was written since
            if excess_of(partition.retention.backlog_from(backlog.consumed_offset), config, now_ms) is None:
                backlog.seen_offset = end_offset
            else:
                due.append(partition)
        for some in _by_question(due):
            for partition in some:
                partition.backlog.is_asked = True
            task = self._loop.create_task(self._enforce(some))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _enforce(self, partitions: Sequence[BackloggedPartition]) -> None:
        try:
            committed = await self._ask(partitions)
            for partition in partitions:
                try:
                    await self._compare(partition, committed.get(partition.topic_partition, {}))
                except Exception as error:  # noqa: BLE001 any bug is answered or logged
                    _report_failure("backlog_quota_failed", partition, error)
        finally:
            for partition in partitions:
                partition.backlog.is_asked = False

    async def _compare(self, partition: BackloggedPartition, committed: Mapping[str, int]) -> None:
        config, backlog = partition.config, partition.backlog
        backlog.asked_s = self._loop.time()
        slowest = slowest_group(committed, config.retention_groups)
        if not partition.is_owning or slowest is None:
            lift_refusal(partition)
            return
        backlog.consumed_offset = slowest.consumed_offset
        now_ms = self._clock.now_ms()
        excess = excess_of(partition.retention.backlog_from(slowest.consumed_offset), config, now_ms)
        if excess is None:
            lift_refusal(partition)
        elif config.backlog_quota_policy is BacklogPolicy.CONSUMER_BACKLOG_EVICTION:
            lift_refusal(partition)
            await partition.retention.evict_backlog(slowest.consumed_offset, now_ms)
        else:
            reason = f"group {slowest.group_id} has {excess}"
            if backlog.refusal is None:
                number = partition.topic_partition.partition
                _log.warning("backlog_quota_exceeded", topic=partition.topic_name, partition=number, reason=reason)
            backlog.refusal = refusal_of(config.backlog_quota_policy, reason)

    # --- asking

    async def _ask(self, partitions: Sequence[BackloggedPartition]) -> dict[TopicPartition, Mapping[str, int]]:
        """Committed offsets by group, for partitions of one topic that name the same groups; {} without an answer."""
        if self.offsets is None:
            return {}
        topic_id, group_ids = partitions[0].topic_partition.topic_id, partitions[0].config.retention_groups
        numbers = [partition.topic_partition.partition for partition in partitions]
        try:
            async with self._slots, asyncio.timeout(ASK_S_MAX):
                found = await self.offsets.committed(group_ids, topic_id, numbers)
        except TimeoutError:
            _log.warning("committed_offsets_not_known", groups=list(group_ids), error="no answer in time")
            return {}
        except Exception as error:  # noqa: BLE001 a bug of the port: keep everything, refuse nobody
            _log.error("committed_offsets_not_known", groups=list(group_ids), error=repr(error), exc_info=error)
            return {}
        return {TopicPartition(topic_id, number): committed for number, committed in found.items()}

    async def close(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def refusal_of(policy: BacklogPolicy, reason: str) -> AppendResult:
    """The answer to a produce while the quota is exceeded.

    NOT_ENOUGH_REPLICAS, where producers are to wait, is the one code that Java's client and librdkafka both retry as
    surely not written and without asking for metadata. THROTTLING_QUOTA_EXCEEDED is permanent to librdkafka, and
    REQUEST_TIMED_OUT says that the records may have been written.
    """
    is_hold = policy is BacklogPolicy.PRODUCER_REQUEST_HOLD
    return AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS if is_hold else ErrorCode.POLICY_VIOLATION, message=reason)


def lift_refusal(partition: BackloggedPartition) -> None:
    """Accept produces again."""
    if partition.backlog.refusal is not None:
        partition.backlog.refusal = None
        number = partition.topic_partition.partition
        _log.info("backlog_quota_met", topic=partition.topic_name, partition=number)


def _report_failure(event: str, partition: BackloggedPartition, error: Exception) -> None:
    """Log a bug in work on many partitions. No acknowledgement depends on it, so the others go on."""
    _log.error(event, partition=partition_directory(partition.topic_partition), reason=repr(error), exc_info=error)


def _by_question(partitions: Iterable[BackloggedPartition]) -> list[list[BackloggedPartition]]:
    """Those of one topic that name the same groups together."""
    questions: dict[tuple[UUID, tuple[str, ...]], list[BackloggedPartition]] = {}
    for partition in partitions:
        key = partition.topic_partition.topic_id, partition.config.retention_groups
        questions.setdefault(key, []).append(partition)
    return list(questions.values())
