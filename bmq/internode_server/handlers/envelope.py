"""Envelope: a client's request that another node's proxy forwards to this node's coordinator or controller (KIP-590).

The inner request goes to the handler that would answer a client, with the services of this process. The client's rights
are looked at again here: the node that forwarded it may know older ACLs, or have no authorizer. Failures of the
envelope itself have error codes in the Envelope response; failures of the client's request are in the inner response.
"""

from __future__ import annotations

from typing import Any, Final

from bmq.aio.loop_turns import run_in_turns
from bmq.internode_client.envelope import FORWARDED, parse_host, parse_principal
from bmq.internode_server.services import InternalServices
from bmq.protocol.apis import APIS, ApiKey, Route
from bmq.protocol.codec import (
    RequestHeader,
    decode_request_in_turns,
    encode_response_in_turns,
    parse_request_header,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, MalformedMessage, UnsupportedVersion
from bmq.protocol.messages.envelope_request import EnvelopeRequest
from bmq.protocol.messages.envelope_response import EnvelopeResponse
from bmq.protocol.refusals import refused
from bmq.protocol.request_context import RequestContext, is_own
from bmq.proxy.dispatch import HANDLERS, handles
from bmq.proxy.services import Services

FORWARDING_DELAY_S_MAX: Final = 1.0
"""A client whose connection breaks retries elsewhere at once; its earlier request must not be carried out later."""


@handles(ApiKey.ENVELOPE)
async def envelope(request: EnvelopeRequest, context: RequestContext, services: Services) -> EnvelopeResponse:
    """Envelope 0. No time limit of its own: a JoinGroup waits for others, and ends when the connection does."""
    if not isinstance(services, InternalServices):
        # An Envelope can impersonate any client, so accept it from other nodes only.
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        header = parse_request_header(request.request_data)
        if header.api_key not in FORWARDED:
            return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
        message = await run_in_turns(decode_request_in_turns(header, request.request_data), context.turns)
        client_host = parse_host(request.client_host_address)
    except (UnsupportedVersion, MalformedMessage) as error:
        return EnvelopeResponse(error_code=error.code)
    try:
        principal, is_token = parse_principal(request.request_principal or b"")
    except MalformedMessage:
        return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    if _is_late(request, context):
        is_controllers = APIS[ApiKey(header.api_key)].route is Route.CONTROLLER
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER if is_controllers else ErrorCode.NOT_COORDINATOR)
    asking = RequestContext(
        header.api_version,
        header.client_id,
        client_host,
        principal=principal,
        is_token=is_token,
        leader_epoch=request.leader_epoch,
        turns=context.turns,
    )
    return await _answer(header, message, asking, services if is_own(asking) else services.of_clients())


def _is_late(request: EnvelopeRequest, context: RequestContext) -> bool:
    """Whether it took much longer to arrive than the connection's first request. Then the client retries if need be."""
    if request.connection_age_ms < 0 or context.peer is None:
        return False
    return context.peer.age_s - request.connection_age_ms / 1000 > FORWARDING_DELAY_S_MAX


async def _answer(
    header: RequestHeader, message: Any, context: RequestContext, services: InternalServices
) -> EnvelopeResponse:
    api_key = ApiKey(header.api_key)
    try:
        response = await HANDLERS[api_key](message, context, services)
    except BmqError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            # The node that forwarded this will ask the next controller (KIP-590).
            return EnvelopeResponse(error_code=error.code)
        response = refused(api_key, message, error.code, str(error))
        if response is None:
            return EnvelopeResponse(error_code=error.code)
    except Exception as error:
        raise RuntimeError(f"{api_key.name} in an Envelope: {error!r}") from error
    encoding = encode_response_in_turns(header.api_key, header.api_version, header.correlation_id, response)
    return EnvelopeResponse(response_data=bytes(await run_in_turns(encoding, context.turns)))
