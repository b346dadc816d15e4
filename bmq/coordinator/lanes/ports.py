"""Ports from lanes to the rest of the cluster: other shards, partitions' owners, the appends of copies. Ports only. Pure."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from bmq.log.lanes.copying import CopyJob, CopyStep
from bmq.protocol.lane_messages import LaneGroupRequest, LaneGroupResponse


class LaneCalls(Protocol):
    """Sends a request about a group to its shard, in this process or anywhere in the cluster. Errors are in the response."""

    async def group(self, request: LaneGroupRequest) -> LaneGroupResponse: ...


class ProvenBounds(Protocol):
    """Asks partitions' owners where the logs begin and end."""

    async def proven_bounds(self, topic_id: UUID, partition: int) -> tuple[int, int]:
        """(log start offset, high watermark) from an owner that proved its ownership after this call. Raises KafkaError."""


class LaneCopies(Protocol):
    """Copies records that lanes left over to the topic of copies of their base group."""

    async def producer(self, base: str, topic_id: UUID, partition: int) -> tuple[int, int]:
        """(a new producer id, the partition of the topic of copies for records of this partition). Raises KafkaError."""

    async def copy(self, job: CopyJob) -> CopyStep:
        """Copy at most one batch; the copy is durable when this returns. Repeating it copies nothing twice. Raises BmqError."""
