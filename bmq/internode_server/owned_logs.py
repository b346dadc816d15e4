"""Finds the log owned here that another node's request names, at the leader epoch which that node expects."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from bmq.internode_server.services import internal
from bmq.log.partition_log import PartitionStarting, TopicPartition
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.proxy.partition_access import check_leader_epoch
from bmq.proxy.services import Services

if TYPE_CHECKING:
    from bmq.broker.runtime import PartitionRuntime


async def owned_log(services: Services, topic_id: UUID, partition: int, leader_epoch: int) -> PartitionRuntime:
    """The log, started if it was idle.

    Raises KafkaError NOT_LEADER_OR_FOLLOWER (not assigned here), FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH (assigned
    at another epoch), LEADER_NOT_AVAILABLE (it is still starting), KAFKA_STORAGE_ERROR (offline).
    """
    manager = internal(services).manager
    key = TopicPartition(topic_id, partition)
    log = manager.ready(key)
    if log is None:
        try:
            log = await manager.leader_of(key)
        except PartitionStarting as error:
            # Unlike the error for an offline partition, this one tells the caller to keep asking.
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(error)) from error
    check_leader_epoch(log, leader_epoch)
    return log


def started_log(services: Services, topic_id: UUID, partition: int, leader_epoch: int) -> PartitionRuntime:
    """The log, as it is. Raises KafkaError as `owned_log`; NOT_LEADER_OR_FOLLOWER if it is not started."""
    log = internal(services).manager.ready(TopicPartition(topic_id, partition))
    if log is None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not started here")
    check_leader_epoch(log, leader_epoch)
    return log
