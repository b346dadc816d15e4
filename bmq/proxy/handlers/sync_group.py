"""SyncGroup: the leader brings the assignments, everybody fetches their own."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from bmq.protocol.messages.sync_group_response import SyncGroupResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.SYNC_GROUP)
async def sync_group(request: SyncGroupRequest, context: RequestContext, services: Services) -> SyncGroupResponse:
    """See GroupCoordinator.sync_group."""
    response: SyncGroupResponse = await services.groups.sync_group(request, context)
    return response
