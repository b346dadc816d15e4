"""DeleteGroups: groups nobody is in are deleted with their offsets."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.delete_groups_response import DeleteGroupsResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.DELETE_GROUPS)
async def delete_groups(
    request: DeleteGroupsRequest, context: RequestContext, services: Services
) -> DeleteGroupsResponse:
    """See GroupCoordinator.delete_groups."""
    response: DeleteGroupsResponse = await services.groups.delete_groups(request, context)
    return response
