"""Makes a node own the partitions that the metadata image gives it: assign, hand over, let go.

If a partition comes from a live owner, we first ask that owner to release it: it drains, seals and answers, and the
start here finds nothing to recover. An owner that does not answer in time is fenced by the start itself (rule 8).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import structlog

from bmq.broker.manager import PartitionManager
from bmq.internode_client.link import LinkClosed
from bmq.internode_client.links import Links
from bmq.log.config import LogConfig
from bmq.log.partition_log import TopicPartition
from bmq.membership.settings import ClusterSettings
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.internal_messages import OwnedPartition, ReleasePartitionsRequest, ReleasePartitionsResponse

RELEASED_TOGETHER: Final = 4

_log = structlog.get_logger("bmq.membership")


class Assignments:
    """`on_shard_lost`: by state machine's topic, called with the number of a partition that is no longer ours.

    `changed()`: assignments changed after the image did, so callers that wait for a partition may look again.
    `log_config`: makes of a topic's config the one its logs get here. `is_store_away`: whether a release cannot seal.
    """

    def __init__(
        self,
        node_id: int,
        manager: PartitionManager,
        links: Links,
        on_shard_lost: Mapping[str, Callable[[int], None]],
        changed: Callable[[], None],
        settings: ClusterSettings,
        *,
        log_config: Callable[[LogConfig], LogConfig] = lambda config: config,
        is_store_away: Callable[[], bool] = lambda: False,
    ) -> None:
        self._node_id = node_id
        self._manager = manager
        self._links = links
        self._on_shard_lost = on_shard_lost
        self._changed = changed
        self._settings = settings
        self._log_config = log_config
        self._is_store_away = is_store_away
        self._loop = asyncio.get_running_loop()
        self._wanted: dict[TopicPartition, int] = {}
        """Leader epochs the image gives us.

        A partition missing here is not assigned, even if it was requested before.
        """
        self._released: dict[TopicPartition, int] = {}
        """Leader epochs of later owners we released to: we never assign lower ones again, even from an old image."""
        self._image = MetadataImage()
        self._is_registered = False
        self._releasing: dict[TopicPartition, asyncio.Task[None]] = {}
        self._takeovers = asyncio.Semaphore(settings.takeovers_behind_max)
        self._tasks: dict[asyncio.Task[Any], None] = {}  # ended in this order
        self._is_closed = False

    # --- following the image

    def image_changed(self, old: MetadataImage, new: MetadataImage, *, is_registered: bool = True) -> None:
        """Called with each new image, before anybody else gets it.

        `is_registered`: this process is the incarnation that the image knows under our node id. Partitions of another
        incarnation are not ours: both would claim the same epoch, and the one that nobody can reach might win.
        """
        if self._is_closed:
            return
        self._image = new
        is_news = is_registered and not self._is_registered
        self._is_registered = is_registered
        from_peers: dict[int, dict[TopicPartition, int]] = {}
        for topic_id, topic in new.topics_by_id.items():
            before = old.topics_by_id.get(topic_id)
            if topic.view is None and (before is not topic or is_news):
                self._topic_changed(None if is_news else before, topic, new, from_peers)
        for topic_id, topic in old.topics_by_id.items():
            if topic_id not in new.topics_by_id and topic.view is None:
                for partition in topic.partitions:
                    self._drop(TopicPartition(topic_id, partition.partition))
        for node_id, partitions in from_peers.items():
            # Ask for a few together, because one that cannot drain delays only those in the same request.
            keys = list(partitions)
            for start in range(0, len(keys), RELEASED_TOGETHER):
                some = {key: partitions[key] for key in keys[start : start + RELEASED_TOGETHER]}
                self._spawn(self._take_from(node_id, some))

    def _topic_changed(
        self,
        before: TopicImage | None,
        topic: TopicImage,
        image: MetadataImage,
        from_peers: dict[int, dict[TopicPartition, int]],
    ) -> None:
        is_new_config = before is not None and before.log_config != topic.log_config
        for number, partition in enumerate(topic.partitions):
            previous = None if before is None else before.partition(number)
            if previous is partition and self._is_registered and not is_new_config:
                continue  # unchanged, as most are each time: a topic may have thousands
            key = TopicPartition(topic.topic_id, partition.partition)
            if partition.leader != self._node_id or not self._is_registered:
                if self._want_no_more(key):
                    self._begin_release(key, topic.name)
                continue
            if previous is not partition and self._wanted.get(key) != partition.leader_epoch:
                self._wanted[key] = partition.leader_epoch
                owner = -1 if previous is None else previous.leader
                if owner not in (-1, self._node_id) and owner in image.nodes:
                    from_peers.setdefault(owner, {})[key] = partition.leader_epoch
                    self._manager.expect(key, partition.leader_epoch)
                else:
                    self._assign(key, partition.leader_epoch, is_taken_over=owner not in (-1, self._node_id))
            if is_new_config:
                self._manager.update_config(key, self._log_config(topic.log_config))

    def _assign(
        self, key: TopicPartition, epoch: int, *, is_taken_over: bool = False, is_handed_over: bool = False
    ) -> None:
        """Assign with the newest image's settings: it may have changed while the old owner was asked.

        A partition that clients use is started at once: some ask again only after half a second. `is_taken_over`: its
        owner is dead, so an unused one is started later, to close its open files. `is_handed_over`: its owner has
        released it.
        """
        if self._wanted.get(key) != epoch or self._released.get(key, -1) > epoch or self._is_closed:
            return
        topic = self._image.topics_by_id[key.topic_id]
        partition = topic.partitions[key.partition]
        self._released.pop(key, None)
        config = self._log_config(topic.log_config)
        floor = partition.high_watermark_floor
        self._manager.assign(key, epoch, topic.name, config, floor, is_handed_over=is_handed_over)
        if is_taken_over:
            self._spawn(self._start_behind(key, 0 if partition.was_in_use else self._settings.takeover_delay_ms))
        elif is_handed_over and partition.was_in_use:
            self._spawn(self._start(key))

    async def _start_behind(self, key: TopicPartition, delay_ms: int) -> None:
        """Start a dead owner's partition if nobody has asked for it by then."""
        await asyncio.sleep(delay_ms / 1000)
        async with self._takeovers:
            await self._start(key)

    async def _start(self, key: TopicPartition) -> None:
        if key in self._wanted and self._manager.ready(key) is None:
            try:
                await self._manager.leader_of(key, is_awaited=False)
            except BmqError as error:
                _log.warning(
                    "partition_not_started", topic_id=str(key.topic_id), partition=key.partition, reason=str(error)
                )

    async def _take_from(self, node_id: int, partitions: Mapping[TopicPartition, int]) -> None:
        request = ReleasePartitionsRequest(
            node_id=self._node_id,
            partitions=[
                OwnedPartition(topic_id=key.topic_id, partition=key.partition, leader_epoch=epoch)
                for key, epoch in partitions.items()
            ],
        )
        try:
            await self._links.call(
                node_id, ApiKey.RELEASE_PARTITIONS, request, timeout_s=self._settings.release_wait_max_ms / 1000
            )
        except LinkClosed as error:
            # The owner has left meanwhile, as it does at the end of an ordered stop: nobody is left to release them.
            _log.debug("partitions_not_released", owner=node_id, partitions=len(partitions), reason=str(error))
        except BmqError as error:
            _log.warning("partitions_not_released", owner=node_id, partitions=len(partitions), reason=str(error))
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            _log.error("partitions_not_released", owner=node_id, partitions=len(partitions), exc_info=error)
        for key, epoch in partitions.items():
            try:
                self._assign(key, epoch, is_handed_over=True)
            except Exception as error:  # noqa: BLE001 any bug is answered or logged
                _log.error("assignment_failed", topic_id=str(key.topic_id), partition=key.partition, exc_info=error)
            self._manager.expect_no_more(key, epoch)
        self._changed()

    # --- letting go

    def _want_no_more(self, key: TopicPartition) -> bool:
        """Drop the partition from those wanted; whether it was one."""
        self._manager.expect_no_more(key)
        return self._wanted.pop(key, None) is not None

    def _begin_release(self, key: TopicPartition, topic_name: str) -> asyncio.Task[None] | None:
        """Release the partition if it is assigned; the task of this release, or of an earlier one, or None."""
        earlier = self._releasing.get(key)
        epoch = self._manager.leader_epoch(key)
        if epoch is None:
            return earlier
        if topic_name in self._on_shard_lost:
            self._on_shard_lost[topic_name](key.partition)
        # An earlier epoch's log may still be draining when the release of this later one begins.
        task = self._releasing[key] = self._spawn(self._release(key, epoch, earlier))
        task.add_done_callback(lambda done: self._forget_release(key, done))
        return task

    async def _release(self, key: TopicPartition, epoch: int, earlier: asyncio.Task[None] | None) -> None:
        await self._manager.unassign(key, epoch, is_sealed=not self._is_store_away())
        if earlier is not None:
            await asyncio.wait({earlier})

    def _forget_release(self, key: TopicPartition, task: asyncio.Task[None]) -> None:
        if self._releasing.get(key) is task:
            del self._releasing[key]

    def _drop(self, key: TopicPartition) -> None:
        self._want_no_more(key)
        self._released.pop(key, None)
        self._manager.drop(key)

    async def release(self, request: ReleasePartitionsRequest, image: MetadataImage) -> ReleasePartitionsResponse:
        """Drain and seal what we hold at lower epochs; answered when that is done."""
        waiting: set[asyncio.Task[None]] = set()
        for asked in request.partitions:
            key = TopicPartition(asked.topic_id, asked.partition)
            topic = image.topics_by_id.get(asked.topic_id)
            if topic is None:
                continue
            self._released[key] = max(asked.leader_epoch, self._released.get(key, -1))
            held = self._manager.leader_epoch(key)
            if held is None or held < asked.leader_epoch:
                if self._wanted.get(key, -1) < asked.leader_epoch:
                    self._want_no_more(key)
                task = self._begin_release(key, topic.name)
                if task is not None:
                    waiting.add(task)
        if waiting:
            await asyncio.wait(waiting)
        return ReleasePartitionsResponse(error_code=ErrorCode.NONE)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.error("assignment_failed", reason=repr(error), exc_info=error)

    @property
    def released(self) -> Mapping[TopicPartition, int]:
        """Leader epochs of later owners that we released partitions to."""
        return self._released

    async def close(self) -> None:
        """Stop assigning. The manager's owner closes the manager."""
        self._is_closed = True
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
