"""The ports by which lanes reach the rest of the cluster. Ports only. Pure."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from bmq.log.lanes.copying import CopyJob, CopyStep
from bmq.protocol.lane_messages import LaneGroupRequest, LaneGroupResponse


class LaneCalls(Protocol):
    """The shards of lanes' groups, in this process or in all of the cluster. Errors are in the answers."""

    async def group(self, request: LaneGroupRequest) -> LaneGroupResponse: ...


class ProvenBounds(Protocol):
    """Where partitions begin and end."""

    async def proven_bounds(self, topic_id: UUID, partition: int) -> tuple[int, int]:
        """Log start and high watermark, from an owner that has proven since the call that it is one. Raises KafkaError."""


class LaneCopies(Protocol):
    """Copies the records that lanes have not consumed."""

    async def producer(self, base: str, topic_id: UUID, partition: int) -> tuple[int, int]:
        """A new producer id, and the partition for copies from this one. Raises KafkaError."""

    async def copy(self, job: CopyJob) -> CopyStep:
        """Copy one batch at most; it is durable when this returns. May be repeated. Raises BmqError."""
