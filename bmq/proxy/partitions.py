"""The proxy's port to the logs of partitions, wherever their owners are."""

from __future__ import annotations

from typing import Protocol

from bmq.log.partition_log import PartitionLog, TopicPartition


class Partitions(Protocol):
    """Finds the logs of partitions. In a single process it is the broker's partition manager."""

    def ready(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The partition's log if it is known and ready here, without waiting; else None."""

    async def leader_of(self, topic_partition: TopicPartition) -> PartitionLog:
        """The partition's log, started if it was idle.

        Raises KafkaError NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
        """

    async def prove_looks(self) -> bool:
        """Whether looks of `never_written` that begin after this are at least as new as this call (rule 15).

        False if this cannot be made sure. Raises StoreError.
        """

    async def never_written(self, topic_partition: TopicPartition) -> int | None:
        """Our leader epoch of a partition that is idle here and that no owner has ever started, by a look that begins now.

        None if the partition is another node's, is started, or may have records. Raises StoreError.
        """
