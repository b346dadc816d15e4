"""CreatePartitions: the controller decides, topic by topic."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.create_partitions_request import CreatePartitionsRequest
from bmq.protocol.messages.create_partitions_response import CreatePartitionsResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.CREATE_PARTITIONS)
async def create_partitions(
    request: CreatePartitionsRequest, context: RequestContext, services: Services
) -> CreatePartitionsResponse:
    """CreatePartitions 0-3."""
    response: CreatePartitionsResponse = await services.controller.create_partitions(request)
    return response
