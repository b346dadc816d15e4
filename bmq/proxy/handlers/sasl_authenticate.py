"""SaslAuthenticate when no login is expected: on a listener without SASL, or after the login.

Logins themselves are answered by bmq.proxy.authentication. Source: KafkaApis of Apache Kafka (4.3).
"""

from __future__ import annotations

from typing import Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from bmq.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services

_OUT_OF_TURN: Final = "SaslAuthenticate request received after successful authentication"


@handles(ApiKey.SASL_AUTHENTICATE)
async def sasl_authenticate(
    request: SaslAuthenticateRequest, context: RequestContext, services: Services
) -> SaslAuthenticateResponse:
    """Refuse the request; the connection stays open."""
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_OUT_OF_TURN)
