"""DescribeGroups: state, members and assignments of groups."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.messages.describe_groups_response import DescribeGroupsResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.DESCRIBE_GROUPS)
async def describe_groups(
    request: DescribeGroupsRequest, context: RequestContext, services: Services
) -> DescribeGroupsResponse:
    """See GroupCoordinator.describe_groups."""
    response: DescribeGroupsResponse = await services.groups.describe_groups(request, context)
    return response
