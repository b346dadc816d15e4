"""JoinGroup: a member asks for its place in the next generation of its group."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.join_group_request import JoinGroupRequest
from bmq.protocol.messages.join_group_response import JoinGroupResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.JOIN_GROUP)
async def join_group(request: JoinGroupRequest, context: RequestContext, services: Services) -> JoinGroupResponse:
    """See GroupCoordinator.join_group."""
    response: JoinGroupResponse = await services.groups.join_group(request, context)
    return response
