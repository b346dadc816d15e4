"""SaslHandshake when no login is expected: on a listener without SASL, or after a login whose session has no end.

Logins themselves are answered by bmq.proxy.authentication. Source: KafkaApis of Apache Kafka (4.3).
"""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from bmq.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.SASL_HANDSHAKE)
async def sasl_handshake(
    request: SaslHandshakeRequest, context: RequestContext, services: Services
) -> SaslHandshakeResponse:
    """Refuse the request; the connection stays open."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
