"""Finds any partition's log from this node: the local one if it is owned here, else a RemoteLog of its owner.

The metadata image is only a hint at the owner: it may be behind the owners or ahead of them. After a refusal the router
waits for a newer image, or a backoff pause, before it looks again. After `move_wait_ms` the caller gets
NOT_LEADER_OR_FOLLOWER with the message of the last refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from bmq.aio.backoff import Backoff
from bmq.internode_client.link import Link
from bmq.internode_client.links import Links
from bmq.log.partition_log import PartitionLog, PartitionStarting, TopicPartition
from bmq.metadata.image import NO_LEADER, MetadataImage, Node
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import NOT_LEADER_AT_EPOCH, ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.internal_messages import ProveOwnershipRequest
from bmq.routing.metrics import RouterCollector, RouterCounts
from bmq.routing.remote_log import RemoteLog, RemoteLogContext, error_code_of
from bmq.routing.settings import RouterSettings
from bmq.routing.tail_stream import TailStreams

if TYPE_CHECKING:
    from bmq.broker.manager import PartitionManager

_PASSING: Final = NOT_LEADER_AT_EPOCH | {ErrorCode.NETWORK_EXCEPTION, ErrorCode.UNSUPPORTED_VERSION}
"""Transient refusals: the partition is moving, or its owner is starting."""


class _Target(NamedTuple):
    """The partition's owner according to the image."""

    leader: int
    leader_epoch: int
    node: Node | None


class Router:
    """Implements bmq.proxy.partitions.Partitions. Created and called on one running event loop.

    `manager`: the partitions owned here; None without the broker role. `image`: the newest one.
    """

    def __init__(
        self,
        node_id: int,
        manager: PartitionManager | None,
        links: Links,
        image: Callable[[], MetadataImage],
        *,
        random: Random,
        config: RouterSettings,
    ) -> None:
        self._node_id = node_id
        self._manager = manager
        self._links = links
        self._image = image
        self._random = random
        self._config = config
        self._loop = asyncio.get_running_loop()
        self.tails = TailStreams(links, config, random)
        self.context = RemoteLogContext(links, config, self.tails.follow, self._detached, self._topic_name)
        self.counts = RouterCounts()
        self.collector = RouterCollector(self.counts, self.context.tail_cache, self.context.budget, self._levels)
        self._logs: dict[TopicPartition, RemoteLog] = {}  # for the owner and epoch in the image
        self._ready: dict[TopicPartition, RemoteLog] = {}  # attached
        self._attached: dict[Link, dict[RemoteLog, None]] = {}
        self._opening: dict[RemoteLog, asyncio.Task[BmqError | None]] = {}
        self._retired: dict[RemoteLog, asyncio.TimerHandle] = {}
        self._waiting: dict[TopicPartition, asyncio.Future[None]] = {}
        self._is_closed = False
        self._waits_ended: asyncio.Future[None] = self._loop.create_future()

    # --- the way to a partition

    def ready(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log, if it is owned here and started, or attached to its owner."""
        log = self._ready.get(topic_partition)
        if log is not None or self._manager is None:
            return log
        return self._manager.ready(topic_partition)

    async def leader_of(self, topic_partition: TopicPartition) -> PartitionLog:
        """The log, started if it was idle; waits while the partition has no owner.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR (offline), PartitionStarting, and after
        `move_wait_ms` NOT_LEADER_OR_FOLLOWER.
        """
        deadline_s = self._loop.time() + self._config.move_wait_ms / 1000
        backoff = Backoff(
            self._random, first_s=self._config.backoff_min_ms / 1000, max_s=self._config.backoff_max_ms / 1000
        )
        while True:
            target = self._target(topic_partition)
            try:
                return await self._reach(topic_partition, target, deadline_s)
            except BmqError as error:
                if error.code not in _PASSING:
                    raise
                failure = error
            left_s = deadline_s - self._loop.time()
            if left_s <= 0 or self._waits_ended.done():
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(failure)) from failure
            if self._target(topic_partition) == target:
                await self._pause(topic_partition, min(backoff.next_s(), left_s))

    async def glance(self, topic_partition: TopicPartition) -> int:
        """The high watermark that another node's partition has, without a proof. It is not started for this.

        Raises BmqError: it is idle, its owner is away, or it has none.
        """
        target = self._target(topic_partition)
        if target.leader in (self._node_id, NO_LEADER):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no other node owns the partition")
        topic_id, partition = topic_partition
        asked = ProveOwnershipRequest(
            topic_id=topic_id, partition=partition, leader_epoch=target.leader_epoch, is_glance=True
        )
        timeout_s = self._config.call_timeout_ms / 1000
        answer = await self._links.call(target.leader, ApiKey.PROVE_OWNERSHIP, asked, timeout_s=timeout_s)
        if answer.error_code:
            raise KafkaError(error_code_of(answer.error_code), answer.error_message or "")
        return int(answer.high_watermark)

    async def prove_looks(self) -> bool:
        """Implements bmq.proxy.partitions.Partitions."""
        return self._manager is not None and await self._manager.prove_looks()

    async def never_written(self, topic_partition: TopicPartition) -> int | None:
        """Implements bmq.proxy.partitions.Partitions: of partitions that are owned here; other owners are asked."""
        if self._manager is None or self._target(topic_partition).leader != self._node_id:
            return None
        return await self._manager.never_written(topic_partition)

    def _target(self, topic_partition: TopicPartition) -> _Target:
        """Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
        image = self._image()
        partition = image.partition(*topic_partition)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
        return _Target(partition.leader, partition.leader_epoch, image.nodes.get(partition.leader))

    def _topic_name(self, topic_id: UUID) -> str | None:
        topic = self._image().topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    async def _reach(self, topic_partition: TopicPartition, target: _Target, deadline_s: float) -> PartitionLog:
        """Raises BmqError."""
        if target.leader == NO_LEADER:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition has no owner now")
        if target.leader == self._node_id:
            if self._manager is None:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node owns no partitions")
            return await self._manager.leader_of(topic_partition)
        log = self._logs.get(topic_partition)
        if log is None or log.owner != target.leader or log.leader_epoch != target.leader_epoch:
            if log is not None:
                self._retire(log, is_owner_alive=False)
            if self._is_closed:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node stops")
            log = RemoteLog(topic_partition, target.leader, target.leader_epoch, self.context)
            self._logs[topic_partition] = log
        if log.link is None:
            await self._opened(log, deadline_s)
        return log

    async def _pause(self, topic_partition: TopicPartition, pause_s: float) -> None:
        """Wait until the image changes for the partition, at most `pause_s`."""
        news = self._waiting.get(topic_partition)
        if news is None:
            news = self._waiting[topic_partition] = self._loop.create_future()
        await asyncio.wait({news}, timeout=pause_s)

    # --- opening

    async def _opened(self, log: RemoteLog, deadline_s: float) -> None:
        """Open the log, once for all callers. Raises BmqError."""
        opening = self._opening.get(log)
        if opening is None:
            opening = self._opening[log] = self._loop.create_task(self._open(log))
            opening.add_done_callback(lambda _: self._opening.pop(log, None) and None)
        either: set[asyncio.Future[Any]] = {opening, log.ended, self._waits_ended}
        left_s = max(deadline_s - self._loop.time(), 0)
        await asyncio.wait(either, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        if log.is_closed or not opening.done() or opening.cancelled():
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {log.owner} has not answered for the partition")
        error = opening.result()
        if isinstance(error, PartitionStarting):
            raise PartitionStarting(str(error))
        if error is not None:
            raise KafkaError(error.code, str(error))

    async def _open(self, log: RemoteLog) -> BmqError | None:
        """Open the log and attach it to its link; the error if that failed, else None."""
        try:
            await log.open()
        except BmqError as error:
            return error
        link = log.link
        if link is not None and self._logs.get(log.topic_partition) is log:
            self._ready[log.topic_partition] = log
            self.counts.opened += 1
            logs = self._attached.get(link)
            if logs is None:
                logs = self._attached[link] = {}
                link.on_lost(partial(self._link_lost, link))
            logs[log] = None
        return None

    def _link_lost(self, link: Link) -> None:
        for log in self._attached.pop(link, ()):
            log.detach()

    def _detached(self, log: RemoteLog) -> None:
        if self._ready.get(log.topic_partition) is log:
            del self._ready[log.topic_partition]
            self.counts.detached += 1
        logs = None if log.link is None else self._attached.get(log.link)
        if logs is not None:
            logs.pop(log, None)

    # --- the image

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Called with each new image. Logs of replaced owners take no more appends.

        A live old owner still answers appends under way while it drains (`drain_wait_ms`); otherwise they fail at once
        with NOT_LEADER_OR_FOLLOWER.
        """
        before, after = old.topics_by_id, new.topics_by_id
        for key, log in tuple(self._logs.items()):
            if before.get(key.topic_id) is after.get(key.topic_id):
                continue
            partition = new.partition(*key)
            if partition is None or (partition.leader, partition.leader_epoch) != (log.owner, log.leader_epoch):
                self.counts.moved += 1
                self._retire(log, is_owner_alive=partition is not None and log.owner in new.nodes)
        for log in tuple(self._retired):
            if log.owner not in new.nodes:
                self._end(log)
        are_nodes_new = old.nodes != new.nodes
        for key in tuple(self._waiting):
            if are_nodes_new or before.get(key.topic_id) is not after.get(key.topic_id):
                self._wake(key)

    def wake(self) -> None:
        """The partitions owned here have changed: wake all waiting callers."""
        for key in tuple(self._waiting):
            self._wake(key)

    def _wake(self, topic_partition: TopicPartition) -> None:
        news = self._waiting.pop(topic_partition)
        if not news.done():
            news.set_result(None)

    # --- releasing

    def _retire(self, log: RemoteLog, *, is_owner_alive: bool) -> None:
        if self._logs.get(log.topic_partition) is log:
            del self._logs[log.topic_partition]
        self._detached(log)
        self.tails.forget(log)
        opening = self._opening.get(log)
        if opening is not None:
            opening.cancel()
        log.retire()
        if log.append_count and is_owner_alive:
            self._retired[log] = self._loop.call_later(self._config.drain_wait_ms / 1000, self._end, log)
        else:
            log.close()

    def _end(self, log: RemoteLog) -> None:
        self._retired.pop(log).cancel()
        log.close()

    def _levels(self) -> dict[str, int]:
        attached = len(self._ready)
        return {
            "attached": attached,
            "detached": len(self._logs) - attached,
            "followed": self.tails.followed_count,
            "retired": len(self._retired),
        }

    def end_waits(self) -> None:
        """This node stops: who waits for an owner gets NOT_LEADER_OR_FOLLOWER now. What an owner was sent is awaited."""
        if not self._waits_ended.done():
            self._waits_ended.set_result(None)
        self.wake()

    async def close(self) -> None:
        """Fail everything under way, and wake all waiting callers."""
        self._is_closed = True
        self.end_waits()
        for log in tuple(self._logs.values()):
            self._retire(log, is_owner_alive=False)
        for log in tuple(self._retired):
            self._end(log)
        tasks = tuple(self._opening.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.tails.close()
