"""Finds topics, partitions' logs and epochs for handlers off the hot path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.log.store import StoreError
from bmq.metadata.image import TopicImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.turns import NO_TURNS, Turns
from bmq.proxy.services import Services

_CONCURRENCY_MAX: Final = 64

T = TypeVar("T")
R = TypeVar("R")


def topic_named(services: Services, name: str) -> TopicImage:
    """The topic with this name. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
    topic = services.controller.image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    return topic


def require_writable(topic: TopicImage) -> None:
    """Refuse views, which show another topic's records. Raises KafkaError POLICY_VIOLATION."""
    if topic.view is not None:
        base = topic.view.base_name
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{topic.name} is a view of {base}, and cannot be written")


async def leader_log(
    services: Services, topic: TopicImage, partition: int, *, until_s: float | None = None
) -> PartitionLog:
    """The partition's log (for a view: its base's), started if it was idle. Raises KafkaError.

    `until_s` (the event loop's time): raise NOT_LEADER_OR_FOLLOWER then, while the start goes on. None: wait for the start.
    """
    if topic.partition(partition) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} has no partition {partition}")
    topic_partition = TopicPartition(topic.log_id, partition)
    log = services.partitions.ready(topic_partition)
    if log is not None:
        return log
    try:
        async with asyncio.timeout_at(until_s):
            return await services.partitions.leader_of(topic_partition)
    except TimeoutError:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is being started: try again") from None


def check_leader_epoch(log: PartitionLog, current_leader_epoch: int) -> None:
    """Compare the client's leader epoch (-1: it knows none) with the log's (KIP-320).

    Raises KafkaError FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
    """
    check_epoch(log.leader_epoch, current_leader_epoch)


def check_epoch(leader_epoch: int, current_leader_epoch: int) -> None:
    """Compare the client's leader epoch with `leader_epoch`, as `check_leader_epoch` does."""
    if current_leader_epoch < 0 or current_leader_epoch == leader_epoch:
        return
    is_old = current_leader_epoch < leader_epoch
    raise KafkaError(
        ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
        f"the leader epoch is {leader_epoch}, not {current_leader_epoch}",
    )


class UnwrittenPartitions:
    """Finds idle partitions without records for one request: they can be answered for without a start (rule 15)."""

    def __init__(self, services: Services) -> None:
        self._partitions = services.partitions
        self._proof: asyncio.Task[bool] | None = None

    async def leader_epoch(self, topic_partition: TopicPartition) -> int | None:
        """The leader epoch of an idle partition without records; None if its log has to be asked."""
        if self._proof is None:
            self._proof = asyncio.ensure_future(self._is_proven())
        try:
            is_proven = await asyncio.shield(self._proof)
            return await self._partitions.never_written(topic_partition) if is_proven else None
        except StoreError:
            return None  # a start waits for the store

    async def _is_proven(self) -> bool:
        try:
            return await self._partitions.prove_looks()
        except StoreError:
            return False


async def for_each(items: Sequence[T], perform: Callable[[T], Awaitable[R]], turns: Turns = NO_TURNS) -> list[R]:
    """Perform a call for each item, a bounded number at a time. Returns the results in the items' order."""
    if len(items) == 1:
        return [await perform(items[0])]
    results: list[R] = []
    for first in range(0, len(items), _CONCURRENCY_MAX):
        if first:
            await turns.next()
        results += await asyncio.gather(*(perform(item) for item in items[first : first + _CONCURRENCY_MAX]))
    return results
