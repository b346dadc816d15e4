"""IncrementalAlterConfigs: single changes to what is set for a topic or broker (KIP-339)."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from bmq.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: RequestContext, services: Services
) -> IncrementalAlterConfigsResponse:
    """IncrementalAlterConfigs 0-1."""
    response: IncrementalAlterConfigsResponse = await services.controller.incremental_alter_configs(request)
    return response
