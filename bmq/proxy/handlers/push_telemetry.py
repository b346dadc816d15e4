"""PushTelemetry: a client sends the metrics that its subscription asks for (KIP-714)."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.push_telemetry_request import PushTelemetryRequest
from bmq.protocol.messages.push_telemetry_response import PushTelemetryResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.PUSH_TELEMETRY)
async def push_telemetry(
    request: PushTelemetryRequest, context: RequestContext, services: Services
) -> PushTelemetryResponse:
    """PushTelemetry 0."""
    try:
        services.telemetry.push(request, context, services.controller.image, services.node)
    except BmqError as error:
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse(error_code=ErrorCode.NONE)
