"""OffsetFetch: how far groups have come."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.offset_fetch_request import OffsetFetchRequest
from bmq.protocol.messages.offset_fetch_response import OffsetFetchResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.OFFSET_FETCH)
async def offset_fetch(request: OffsetFetchRequest, context: RequestContext, services: Services) -> OffsetFetchResponse:
    """See GroupCoordinator.offset_fetch."""
    response: OffsetFetchResponse = await services.groups.offset_fetch(request, context)
    return response
