"""Heartbeat: a member is alive and asks whether its group rebalances."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.heartbeat_response import HeartbeatResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.HEARTBEAT)
async def heartbeat(request: HeartbeatRequest, context: RequestContext, services: Services) -> HeartbeatResponse:
    """See GroupCoordinator.heartbeat."""
    response: HeartbeatResponse = await services.groups.heartbeat(request, context)
    return response
