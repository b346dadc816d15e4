"""DescribeDelegationToken: the tokens of some owners, with their HMACs, if the client may see them."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from bmq.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from bmq.protocol.metadata_records import DelegationTokenRecord
from bmq.protocol.request_context import RequestContext
from bmq.protocol.turns import Pace
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services
from bmq.security.acls import Operation, ResourceType
from bmq.security.delegation_tokens import TokenMacs, is_owner_or_renewer, may_ask

_SEEN_PER_TURN_MAX = 50


@handles(ApiKey.DESCRIBE_DELEGATION_TOKEN)
async def describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: RequestContext, services: Services
) -> DescribeDelegationTokenResponse:
    """Answer DescribeDelegationToken 1-3. Without a list of owners it asks for all tokens, with an empty list for none."""
    if not may_ask(services.security.protocol, context.principal, is_token=context.is_token):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    macs = services.token_macs
    if macs is None:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    wanted = None
    pace = Pace(_SEEN_PER_TURN_MAX)
    if request.owners is not None:
        wanted = set[str]()
        for owner in request.owners:
            wanted.add(f"{owner.principal_type}:{owner.principal_name}")
            if pace.is_over():
                await context.turns.next()
    tokens = []
    for token in tuple(services.controller.image.delegation_tokens.values()) if wanted != set() else ():
        if (wanted is None or _is_of(token, wanted)) and _may_see(token, context, services):
            tokens.append(_described(token, macs))
        if pace.is_over():
            await context.turns.next()
    return DescribeDelegationTokenResponse(tokens=tokens)


def _is_of(token: DelegationTokenRecord, wanted: set[str]) -> bool:
    return token.owner in wanted or not wanted.isdisjoint(token.renewers)


def _may_see(token: DelegationTokenRecord, context: RequestContext, services: Services) -> bool:
    """Whether the client may see the token. Denials are not logged, because the request does not name tokens."""
    if is_owner_or_renewer(token, context.principal):
        return True
    return any(
        services.access.allows(context, ApiKey.DESCRIBE_DELEGATION_TOKEN, operation, resource_type, name, is_quiet=True)
        for operation, resource_type, name in (
            (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id),
            (Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner),
        )
    )


def _described(token: DelegationTokenRecord, macs: TokenMacs) -> DescribedDelegationToken:
    owner_type, _, owner = token.owner.partition(":")
    requester_type, _, requester = token.requester.partition(":")
    renewers = [one.partition(":") for one in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=macs.of(token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, _, name in renewers
        ],
    )
