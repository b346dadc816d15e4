"""Port of the proxy to the logs of partitions, wherever their owners are."""

from __future__ import annotations

from typing import Protocol

from bmq.log.partition_log import PartitionLog, TopicPartition


class Partitions(Protocol):
    """Access to partitions' owners (in one process: the broker's partition manager)."""

    def ready(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log, if it is here and accepts writes; the fast path."""

    async def leader_of(self, topic_partition: TopicPartition) -> PartitionLog:
        """The log, started if it was idle. Raises KafkaError NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION,
        KAFKA_STORAGE_ERROR."""

    async def prove_looks(self) -> bool:
        """Whether looks of `never_written` that begin after this returns are at least as new as this call (rule 15).
        Raises StoreError."""

    async def never_written(self, topic_partition: TopicPartition) -> int | None:
        """Our leader epoch of a partition that is idle here, and in which no owner has ever begun, by a look that begins
        now; None: it is another's, started, or may have records. Raises StoreError."""
