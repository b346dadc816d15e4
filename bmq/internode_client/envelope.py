"""Forwards clients' requests that another node has to answer, in an Envelope with the client's identity (KIP-590).

The principal is encoded as by Kafka's DefaultKafkaPrincipalBuilder (DefaultPrincipalData.json behind its version), the
client's address as its raw bytes, empty if it has no IP address.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from bmq.aio.loop_turns import run_in_turns
from bmq.dataclass import dataclass
from bmq.internode_client.link import LinkLost
from bmq.internode_client.links import Links
from bmq.protocol.apis import APIS, ApiKey, Route
from bmq.protocol.codec import decode_response_in_turns, encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, MalformedMessage
from bmq.protocol.formats import Format, FormatField, codec_of
from bmq.protocol.messages.envelope_request import EnvelopeRequest
from bmq.protocol.messages.envelope_response import EnvelopeResponse
from bmq.protocol.request_context import RequestContext

FORWARDED: Final = frozenset(
    {*(api_key for api_key, api in APIS.items() if api.route is not Route.LOCAL), ApiKey.INIT_PRODUCER_ID}
)
"""The APIs an Envelope may carry. Any node answers InitProducerId, unless it has a transactional id."""
UNKNOWN_HOST: Final = "unknown"

_PRINCIPAL_VERSION: Final = 0
_CORRELATION_ID: Final = 0  # of the inner request: the link matches the outer ones


@dataclass(slots=True, kw_only=True)
class PrincipalData:
    type: str = ""
    name: str = ""
    token_authenticated: bool = False


_PRINCIPAL: Final = Format(
    PrincipalData,
    version_max=_PRINCIPAL_VERSION,
    flexible_from=0,
    fields=(
        FormatField("type", "string"),
        FormatField("name", "string"),
        FormatField("token_authenticated", "bool"),
    ),
)


async def forward(
    links: Links,
    node_id: int,
    api_key: ApiKey,
    request: Any,
    context: RequestContext,
    *,
    timeout_s: float,
    purpose: str = "",
    leader_epoch: int = -1,
) -> Any:
    """Forward a client's request to a node, in the version of `context`; the response message.

    A received request is passed on unchanged, with unknown tagged fields; any other message is encoded.

    Raises LinkLost, LinkTimeout (it may have been carried out), KafkaError (that node could not, or is not the controller),
    UnsupportedVersion.
    """
    version, received = context.api_version, context.received
    if received is not None and request is received.message:
        request_data = bytes(received.frame)
    else:
        request_data = encode_request(api_key, version, _CORRELATION_ID, context.client_id, request)
    envelope = EnvelopeRequest(
        request_data=request_data,
        request_principal=encode_principal(context.principal, is_token=context.is_token),
        client_host_address=encode_host(context.client_host),
        leader_epoch=leader_epoch,
    )
    response: EnvelopeResponse = await links.call(
        node_id, ApiKey.ENVELOPE, envelope, timeout_s=timeout_s, purpose=purpose
    )
    if response.error_code:
        raise _refusal(node_id, api_key, response.error_code)
    try:
        decoding = decode_response_in_turns(api_key, version, response.response_data or b"")
        return await run_in_turns(decoding, context.turns)
    except MalformedMessage as error:
        raise LinkLost(f"the answer of node {node_id} to {api_key.name} does not parse: {error}") from None


def _refusal(node_id: int, api_key: ApiKey, code: int) -> KafkaError:
    try:
        known = ErrorCode(code)
    except ValueError:
        known = ErrorCode.UNKNOWN_SERVER_ERROR
    return KafkaError(known, f"node {node_id} does not answer {api_key.name}: {known.name}")


def encode_principal(principal: str, *, is_token: bool = False) -> bytes:
    """`principal` is TYPE:NAME, as in an ACL."""
    kind, _, name = principal.partition(":")
    out = bytearray(_PRINCIPAL_VERSION.to_bytes(2, "big"))
    codec_of(_PRINCIPAL, _PRINCIPAL_VERSION).write(
        out, PrincipalData(type=kind, name=name, token_authenticated=is_token)
    )
    return bytes(out)


def parse_principal(data: bytes) -> tuple[str, bool]:
    """TYPE:NAME, and whether it authenticated by a delegation token. Raises MalformedMessage."""
    if int.from_bytes(data[:2], "big") != _PRINCIPAL_VERSION or len(data) < 2:
        raise MalformedMessage("the principal is of an unknown version")
    parsed: PrincipalData = codec_of(_PRINCIPAL, _PRINCIPAL_VERSION).read(data, 2)
    return f"{parsed.type}:{parsed.name}", parsed.token_authenticated


def encode_host(host: str) -> bytes:
    """4 or 16 bytes, or none if it is not an IP address."""
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return b""


def parse_host(data: bytes) -> str:
    """The address as text. Raises MalformedMessage."""
    if not data:
        return UNKNOWN_HOST
    try:
        return str(ipaddress.ip_address(bytes(data)))
    except ValueError:
        raise MalformedMessage(f"a client's address of {len(data)} bytes") from None
