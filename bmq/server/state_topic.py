"""The partitions of a state machine's internal topic, in one process that owns them all."""

from __future__ import annotations

from collections.abc import Sequence

from bmq.broker.manager import PartitionManager
from bmq.controller.runtime import Controller
from bmq.log.partition_log import ReplayableLog, TopicPartition
from bmq.metadata.image import INTERNAL_TOPIC_CONFIGS
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError


class StateTopic:
    """Implements bmq.coordinator.runtime.directory.Shards. The topic is made when it is first needed."""

    def __init__(self, topic_name: str, controller: Controller, manager: PartitionManager) -> None:
        self._name = topic_name
        self._controller = controller
        self._manager = manager

    def partition_count(self) -> int:
        topic = self._controller.image.topics.get(self._name)
        if topic is not None:
            return len(topic.partitions)
        return self._controller.broker_configs.number(f"{INTERNAL_TOPIC_CONFIGS[self._name]}.num.partitions")

    def owned(self) -> range:
        return range(self.partition_count())

    def inherited(self) -> Sequence[int]:
        topic = self._controller.image.topics.get(self._name)
        return [] if topic is None else [each.partition for each in topic.partitions if each.leader_epoch > 0]

    def is_known(self, shard: int, leader_epoch: int) -> bool:
        """The image is the controller's own, so it shows every decision."""
        return True

    async def open(self, shard: int, *, is_awaited: bool) -> ReplayableLog:
        topic = self._controller.image.topics.get(self._name)
        if topic is None:
            try:
                await self._controller.auto_create_topic(self._name)
            except BmqError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            topic = self._controller.image.topics.get(self._name)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._name} could not be made")
        return await self._manager.leader_of(TopicPartition(topic.topic_id, shard), is_awaited=is_awaited)

    def ask(self, shard: int) -> None:
        topic = self._controller.image.topics.get(self._name)
        if topic is not None:
            self._manager.ask(TopicPartition(topic.topic_id, shard))
