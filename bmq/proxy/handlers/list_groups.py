"""ListGroups: all groups clients find at this node."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.list_groups_response import ListGroupsResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.LIST_GROUPS)
async def list_groups(request: ListGroupsRequest, context: RequestContext, services: Services) -> ListGroupsResponse:
    """See GroupCoordinator.list_groups."""
    response: ListGroupsResponse = await services.groups.list_groups(request, context)
    return response
