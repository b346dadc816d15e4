"""LeaveGroup: members go, or are removed by an administrator."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest
from bmq.protocol.messages.leave_group_response import LeaveGroupResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.LEAVE_GROUP)
async def leave_group(request: LeaveGroupRequest, context: RequestContext, services: Services) -> LeaveGroupResponse:
    """See GroupCoordinator.leave_group."""
    response: LeaveGroupResponse = await services.groups.leave_group(request, context)
    return response
