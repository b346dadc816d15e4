"""DescribeClientQuotas: from this node's metadata image, as Kafka's brokers answer it (KIP-546)."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from bmq.protocol.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from bmq.protocol.request_context import RequestContext
from bmq.protocol.turns import Pace
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services
from bmq.security.quotas.filters import Component, described


@handles(ApiKey.DESCRIBE_CLIENT_QUOTAS)
async def describe_client_quotas(
    request: DescribeClientQuotasRequest, context: RequestContext, services: Services
) -> DescribeClientQuotasResponse:
    """DescribeClientQuotas 0-1; a bad filter is an error of the whole request."""
    components = [Component(one.entity_type, one.match_type, one.match) for one in request.components]
    entries = []
    pace = Pace()
    try:
        for entity, values in described(services.controller.image.client_quotas, components, is_strict=request.strict):
            if pace.is_over():
                await context.turns.next()
            entries.append(
                EntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    values=[ValueData(key=key, value=value) for key, value in values.items()],
                )
            )
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=str(error), entries=None)
    return DescribeClientQuotasResponse(error_message="", entries=entries)
