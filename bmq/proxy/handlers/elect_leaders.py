"""ElectLeaders: preferred owners get their partitions back (KIP-460)."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest
from bmq.protocol.messages.elect_leaders_response import ElectLeadersResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.ELECT_LEADERS)
async def elect_leaders(
    request: ElectLeadersRequest, context: RequestContext, services: Services
) -> ElectLeadersResponse:
    """ElectLeaders 0-2."""
    response: ElectLeadersResponse = await services.controller.elect_leaders(request)
    return response
