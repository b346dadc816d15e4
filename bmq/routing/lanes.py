"""The shards that know the lanes of all groups, as one node reaches them (shard_routing.py): partitions of the offsets topic.

All calls may be sent again: see bmq/protocol/lane_messages.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from bmq.coordinator.coordinator import GroupCoordinator
from bmq.metadata.image import OFFSETS_TOPIC_NAME
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.lane_messages import (
    LaneDecideRequest,
    LaneDecideResponse,
    LaneGroupRequest,
    LaneGroupResponse,
    LaneListRequest,
    LaneListResponse,
)
from bmq.protocol.request_context import RequestContext, by_itself
from bmq.routing.shard_requests import ShardRequest
from bmq.routing.shard_routing import NodeRoutes, ShardRouting, ShardRoutingConfig

LANES_PURPOSE: Final = "lanes"
_RESPONSES: Final[dict[ApiKey, Callable[..., Any]]] = {
    ApiKey.LANE_DECIDE: LaneDecideResponse,
    ApiKey.LANE_GROUP: LaneGroupResponse,
    ApiKey.LANE_LIST: LaneListResponse,
}


class _LaneRequest(ShardRequest):
    """A call about one group."""

    def __init__(self, api_key: ApiKey, request: Any) -> None:
        super().__init__(request, api_version=0)
        self.api_key = api_key

    @property
    def keys(self) -> Sequence[str]:
        return (self.request.group_id,)

    def refusal(self, key: str, code: ErrorCode) -> Any:
        return _RESPONSES[self.api_key](error_code=code)


class RoutedLanes(ShardRouting):
    """Implements bmq.proxy.services.LaneDecisions and bmq.coordinator.lanes.ports.LaneCalls."""

    def __init__(self, local: GroupCoordinator | None, routes: NodeRoutes, config: ShardRoutingConfig) -> None:
        super().__init__(OFFSETS_TOPIC_NAME, "group", local, routes, config)

    async def decide(self, request: LaneDecideRequest) -> LaneDecideResponse:
        return cast(LaneDecideResponse, await self._call(ApiKey.LANE_DECIDE, request))

    async def group(self, request: LaneGroupRequest) -> LaneGroupResponse:
        return cast(LaneGroupResponse, await self._call(ApiKey.LANE_GROUP, request))

    async def list(self, request: LaneListRequest) -> LaneListResponse:
        return cast(LaneListResponse, await self._call(ApiKey.LANE_LIST, request))

    async def _call(self, api_key: ApiKey, request: Any) -> Any:
        return await self._perform(_LaneRequest(api_key, request), by_itself(api_key))

    async def _send_over(
        self, owner: int, api_key: ApiKey, message: Any, context: RequestContext, *, may_wait: bool, leader_epoch: int
    ) -> Any:
        """These calls go to the other node as they are, without an Envelope: no client has sent them."""
        await self._reach(owner, LANES_PURPOSE)
        self._require_young(context, may_wait)
        timeout_s = self._config.answer_wait_ms / 1000
        return await self._links.call(owner, api_key, message, timeout_s=timeout_s, purpose=LANES_PURPOSE)
