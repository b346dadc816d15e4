"""OffsetDelete: a group forgets how far it came in some partitions."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.offset_delete_request import OffsetDeleteRequest
from bmq.protocol.messages.offset_delete_response import OffsetDeleteResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.OFFSET_DELETE)
async def offset_delete(
    request: OffsetDeleteRequest, context: RequestContext, services: Services
) -> OffsetDeleteResponse:
    """See GroupCoordinator.offset_delete."""
    response: OffsetDeleteResponse = await services.groups.offset_delete(request, context)
    return response
