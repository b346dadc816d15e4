"""Calls about lanes in a standalone server, which owns all shards."""

from __future__ import annotations

from typing import Any, cast

from bmq.coordinator.coordinator import GroupCoordinator
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


class LocalLanes:
    """All lanes of a standalone server: as bmq.routing.lanes.RoutedLanes."""

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
