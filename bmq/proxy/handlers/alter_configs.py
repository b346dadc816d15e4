"""AlterConfigs: all configs of a topic or broker at once; what is not named goes back to its default."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.alter_configs_request import AlterConfigsRequest
from bmq.protocol.messages.alter_configs_response import AlterConfigsResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.ALTER_CONFIGS)
async def alter_configs(
    request: AlterConfigsRequest, context: RequestContext, services: Services
) -> AlterConfigsResponse:
    """AlterConfigs 0-2."""
    response: AlterConfigsResponse = await services.controller.alter_configs(request)
    return response
