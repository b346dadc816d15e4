"""Ports from a produced batch to its partition's log: the append to a log, and the access to the owners of logs."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final, Protocol

from bmq.log.partition_log import AppendDone, PartitionLog, TopicPartition
from bmq.log.transactions import TransactionClaim

QUEUED_BYTES_MAX: Final = 64 * 1024 * 1024
ANY_EPOCH: Final = -1


def always() -> bool:
    return True


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


class Appender(Protocol):
    """Hands batches to their partitions' logs in order of arrival, also while a partition is not ready."""

    def append(  # noqa: PLR0913
        self,
        topic_partition: TopicPartition,
        records: memoryview,
        done: AppendDone,
        is_acks_all: bool = True,
        deadline_s: float = inf,
        leader_epoch: int = ANY_EPOCH,
        is_wanted: Callable[[], bool] = always,
        claim: TransactionClaim | None = None,
        is_answered: bool = True,
    ) -> None:
        """Like PartitionLog.append, also while the partition starts or moves.

        `deadline_s` (the loop's time): no waiting batch goes to a log after it, as the client will have given up.
        `leader_epoch`: the only one that may take the batch; any other is refused with FENCED_LEADER_EPOCH or
        UNKNOWN_LEADER_EPOCH. `is_wanted()`: False once the client has disconnected; a batch still waiting then fails.
        `is_answered`: False with acks=0: a batch that is refused is lost.
        """

    def expire(self, now_s: float) -> None:
        """Drop the batches whose clients no longer wait for them."""

    def stop(self) -> None:
        """Hand no more waiting batches to a log."""
