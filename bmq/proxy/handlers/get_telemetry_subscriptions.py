"""GetTelemetrySubscriptions: a client asks which metrics it should send, and how often (KIP-714)."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from bmq.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)
async def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext, services: Services
) -> GetTelemetrySubscriptionsResponse:
    """GetTelemetrySubscriptions 0."""
    try:
        return services.telemetry.ask(request, context, services.controller.image)
    except BmqError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
