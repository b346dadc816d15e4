"""The roles of this process as the internal listener's handlers see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bmq.broker.manager import PartitionManager
from bmq.controller.runtime import Controller, ControllerGone
from bmq.internode_server.services import Leadership
from bmq.log.partition_log import ReplayableLog, TopicPartition
from bmq.membership.assignments import Assignments
from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.internal_messages import ReleasePartitionsRequest, ReleasePartitionsResponse
from bmq.protocol.request_context import RequestContext


class LocalShards:
    """The partitions of an internal topic that this node owns (bmq.coordinator.runtime.directory.Shards)."""

    def __init__(
        self, topic_name: str, node_id: int, manager: PartitionManager, image: Callable[[], MetadataImage]
    ) -> None:
        self._name = topic_name
        self._node_id = node_id
        self._manager = manager
        self._image = image

    def partition_count(self) -> int:
        topic = self._image().topics.get(self._name)
        return 1 if topic is None else len(topic.partitions)

    def owned(self) -> Sequence[int]:
        topic = self._image().topics.get(self._name)
        return [] if topic is None else [p.partition for p in topic.partitions if p.leader == self._node_id]

    def inherited(self) -> Sequence[int]:
        """Shards that had an owner before and are already assigned here, so they can be opened; with records first."""
        topic = self._image().topics.get(self._name)
        if topic is None:
            return []
        found = [
            each
            for each in topic.partitions
            if each.leader == self._node_id
            and each.leader_epoch > 0  # a new partition has epoch 0
            and self._manager.leader_epoch(TopicPartition(topic.topic_id, each.partition)) == each.leader_epoch
        ]
        return [each.partition for each in sorted(found, key=lambda each: each.high_watermark_floor == 0)]

    def is_known(self, shard: int, leader_epoch: int) -> bool:
        """Whether the image shows this epoch: an owner may be asked for a partition before its image shows it."""
        topic = self._image().topics.get(self._name)
        partition = None if topic is None else topic.partition(shard)
        return partition is not None and partition.leader_epoch >= leader_epoch

    async def open(self, shard: int, *, is_awaited: bool) -> ReplayableLog:
        """Raises KafkaError COORDINATOR_NOT_AVAILABLE (no topic yet), and the errors of PartitionManager.leader_of."""
        topic = self._image().topics.get(self._name)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no {self._name} yet")
        return await self._manager.leader_of(TopicPartition(topic.topic_id, shard), is_awaited=is_awaited)

    def ask(self, shard: int) -> None:
        topic = self._image().topics.get(self._name)
        if topic is not None:
            self._manager.ask(TopicPartition(topic.topic_id, shard))


class NodeReleases:
    """bmq.internode_server.services.Releases over this node's assignments."""

    def __init__(self, assignments: Assignments) -> None:
        self._assignments = assignments

    async def release(self, request: ReleasePartitionsRequest, image: MetadataImage) -> ReleasePartitionsResponse:
        return await self._assignments.release(request, image)


class LocalController:
    """bmq.proxy.services.Controller: the active controller if it is here, else ControllerGone. `image` is the node's."""

    def __init__(self, leadership: Leadership, image: Callable[[], MetadataImage]) -> None:
        self._leadership = leadership
        self._image = image

    @property
    def image(self) -> MetadataImage:
        return self._image()

    def _active(self) -> Controller:
        active = self._leadership.active
        if active is None:
            raise ControllerGone
        return active

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        return await self._active().handle(api_key, request, context)

    async def auto_create_topic(self, name: str) -> None:
        await self._active().auto_create_topic(name)

    async def allocate_producer_ids(self) -> range:
        return await self._active().allocate_producer_ids()
