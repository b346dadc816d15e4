"""What lanes need of the rest of the cluster. Ports only. Pure."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from bmq.protocol.lane_messages import LaneGroupRequest, LaneGroupResponse


class LaneCalls(Protocol):
    """The shards of lanes' groups, in this process or in all of the cluster. Errors are in the answers."""

    async def group(self, request: LaneGroupRequest) -> LaneGroupResponse: ...


class ProvenEnds(Protocol):
    """Where partitions end."""

    async def proven_end(self, topic_id: UUID, partition: int) -> int:
        """The high watermark, from an owner that has proven since the call that it is the owner. Raises KafkaError."""
