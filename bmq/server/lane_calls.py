"""Wires lanes into a server: calls to the group shards, and the copying of records. A standalone server owns all shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

from bmq.coordinator.coordinator import GroupCoordinator
from bmq.coordinator.lanes.ports import LaneCalls
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.lane_messages import (
    LaneDecideRequest,
    LaneDecideResponse,
    LaneGroupRequest,
    LaneGroupResponse,
    LaneListRequest,
    LaneListResponse,
)
from bmq.protocol.request_context import by_itself
from bmq.proxy.lanes.copies import LaneCopier
from bmq.proxy.partitions import Partitions
from bmq.server.dead_letters import RecordIo


class ProvenPartitionBounds:
    """Implements bmq.coordinator.lanes.ports.ProvenBounds."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def proven_bounds(self, topic_id: UUID, partition: int) -> tuple[int, int]:
        """Log start and high watermark, no older than this call (rule 15). Raises KafkaError."""
        log = await self._partitions.leader_of(TopicPartition(topic_id, partition))
        await log.prove_ownership()
        return log.log_start_offset, log.high_watermark


class LocalLanes:
    """All lanes of a standalone server. It has the methods of bmq.routing.lanes.RoutedLanes."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    async def decide(self, request: LaneDecideRequest) -> LaneDecideResponse:
        return cast(LaneDecideResponse, await self._call(ApiKey.LANE_DECIDE, request))

    async def group(self, request: LaneGroupRequest) -> LaneGroupResponse:
        return cast(LaneGroupResponse, await self._call(ApiKey.LANE_GROUP, request))

    async def list(self, request: LaneListRequest) -> LaneListResponse:
        return cast(LaneListResponse, await self._call(ApiKey.LANE_LIST, request))

    async def _call(self, api_key: ApiKey, request: Any) -> Any:
        return await self._groups.handle(api_key, request, by_itself(api_key))


def wire_lanes(
    groups: GroupCoordinator,
    calls: LaneCalls,
    partitions: Partitions,
    io: RecordIo,
    image: Callable[[], MetadataImage],
) -> None:
    """Give the coordinator the calls to lanes' groups and partitions, and the copier of records."""
    copier = LaneCopier(image, io.partitions, io.shared, io.appender, io.opener)
    groups.lanes.use(calls, ProvenPartitionBounds(partitions), copier)
