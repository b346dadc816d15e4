"""The port to the shards that keep the state of share partitions, wherever they are."""

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
    """Shards of this process. A caller that is cancelled leaves nothing under way but an append, and a release waits for that.
    They refuse what moves away; nobody asks elsewhere.
    """

    async def acquire(self, request: ShareAcquireRequest) -> ShareAcquireResponse: ...


class ShareStates(Protocol):
    """Sends each part of a request to the shard of its partition; the answer has the parts in the request's order.

    A shard that cannot be reached is an error of its parts. Each method raises KafkaError only if nothing was done.
    """

    async def acquire(self, request: ShareAcquireRequest) -> ShareAcquireResponse: ...

    async def acknowledge(self, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse: ...

    async def release(self, request: ShareReleaseRequest) -> ShareReleaseResponse: ...

    async def wait(self, request: ShareWaitRequest) -> ShareWaitResponse:
        """All partitions of the request have the same place."""

    def here(self, request: ShareAcquireRequest) -> LocalStates | None:
        """What answers the request if all its shards are in this process; None: some are not."""

    def place_of(self, group_id: str, topic_partition: TopicPartition) -> Hashable:
        """What answers for the partition now: partitions of one place may be in one ShareWait."""
