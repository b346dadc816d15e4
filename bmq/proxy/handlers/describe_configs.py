"""DescribeConfigs: topics, this broker, the defaults of all brokers, this broker's loggers."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest
from bmq.protocol.messages.describe_configs_response import DescribeConfigsResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.DESCRIBE_CONFIGS)
async def describe_configs(
    request: DescribeConfigsRequest, context: RequestContext, services: Services
) -> DescribeConfigsResponse:
    """DescribeConfigs 1-4. Types and documentation exist from version 3 on (KIP-569)."""
    response: DescribeConfigsResponse = await services.controller.describe_configs(request)
    return response
