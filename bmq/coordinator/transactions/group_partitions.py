"""Finds a group's partition of `__consumer_offsets`: AddOffsetsToTxn names only the group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bmq.coordinator.runtime.directory import shard_of
from bmq.coordinator.topics import OFFSETS_TOPIC, CurrentTopics
from bmq.coordinator.transactions.transaction import Partition
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError


class GroupPartitions:
    """`make_topic(name)`: creates a topic with its defaults; a producer may need it before any FindCoordinator has."""

    def __init__(self, topics: CurrentTopics, make_topic: Callable[[str], Awaitable[None]]) -> None:
        self._topics = topics
        self._make_topic = make_topic

    async def partition_of(self, group_id: str) -> Partition:
        """Raises KafkaError COORDINATOR_NOT_AVAILABLE when the topic does not exist yet, or cannot be created."""
        if OFFSETS_TOPIC not in self._topics().topics:
            try:
                await self._make_topic(OFFSETS_TOPIC)
            except BmqError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        topic = self._topics().topics.get(OFFSETS_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the offsets topic is not known here yet")
        return OFFSETS_TOPIC, shard_of(group_id, len(topic.partitions))
