"""The port to the shards with the state of share partitions, wherever they are."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from bmq.log.partition_log import TopicPartition
from bmq.protocol.share_state_messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcquireRequest,
    ShareAcquireResponse,
    ShareReleaseRequest,
    ShareReleaseResponse,
    ShareWaitRequest,
    ShareWaitResponse,
)


class LocalStates(Protocol):
    """Shards of this process.

    A cancelled call leaves at most an append in flight, for which a release waits. Shards refuse partitions that move away, and
    the caller does not ask another node.
    """

    async def acquire(self, request: ShareAcquireRequest) -> ShareAcquireResponse: ...


class ShareStates(Protocol):
    """Sends each part of a request to its partition's shard. The answer has the parts in the request's order.

    A shard that cannot be reached is an error of its parts. Methods raise KafkaError only if no part was carried out.
    """

    async def acquire(self, request: ShareAcquireRequest) -> ShareAcquireResponse: ...

    async def acknowledge(self, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse: ...

    async def release(self, request: ShareReleaseRequest) -> ShareReleaseResponse: ...

    async def wait(self, request: ShareWaitRequest) -> ShareWaitResponse:
        """Wait for news. All partitions of the request have the same place (see `place_of`)."""

    def here(self, request: ShareAcquireRequest) -> LocalStates | None:
        """The local shards, if all shards of the request are in this process; else None."""

    def place_of(self, group_id: str, topic_partition: TopicPartition) -> Hashable:
        """A value that is equal for partitions with their shards at the same place, which may be in one ShareWait."""
