"""Writes transaction markers to partitions that this process owns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bmq.log.partition_log import TopicPartition
from bmq.log.transactions import TransactionMarker
from bmq.metadata.image import OFFSETS_TOPIC_NAME, MetadataImage


class OwnedPartition(Protocol):
    async def write_marker(self, marker: TransactionMarker) -> None:
        """End the producer's transaction; durable when this returns. Raises KafkaError."""


class OwnedPartitions(Protocol):
    async def leader_of(self, topic_partition: TopicPartition) -> OwnedPartition:
        """Raises KafkaError NOT_LEADER_OR_FOLLOWER for a partition that is not owned here."""


class GroupMarkers(Protocol):
    """The group coordinator: its shards' state has to stay in step with their logs."""

    async def write_marker(self, partition_number: int, marker: TransactionMarker) -> None:
        """End the producer's transaction in a partition of `__consumer_offsets`. Raises KafkaError."""


class LocalMarkers:
    """Implements the coordinator's MarkerWriter and bmq.proxy.services.Markers for partitions owned here."""

    def __init__(self, partitions: OwnedPartitions, groups: GroupMarkers, image: Callable[[], MetadataImage]) -> None:
        self._partitions = partitions
        self._groups = groups
        self._image = image

    async def write(self, topic_partition: TopicPartition, marker: TransactionMarker) -> None:
        """Write a marker; durable when this returns. Raises KafkaError."""
        offsets = self._image().topics.get(OFFSETS_TOPIC_NAME)
        if offsets is not None and offsets.topic_id == topic_partition.topic_id:
            await self._groups.write_marker(topic_partition.partition, marker)
        else:
            await (await self._partitions.leader_of(topic_partition)).write_marker(marker)
