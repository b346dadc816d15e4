"""Checks requests about delegation tokens at the client's own node, as Kafka's brokers do, before they go to the controller.

The node that carries out a forwarded request checks the client's rights again. It does not know the client's listener, which only
the client's own node can check.
"""

from __future__ import annotations

from typing import Any, Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from bmq.protocol.refusals import refused
from bmq.protocol.request_context import RequestContext
from bmq.proxy.services import Services
from bmq.security.acls import Operation, ResourceType
from bmq.security.delegation_tokens import create_refused, may_ask, owner_of

TOKEN_CHANGES: Final = frozenset(
    {ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN}
)


def refusal_of(api_key: ApiKey, request: Any, context: RequestContext, services: Services) -> Any:
    """The refusal of a request; None if the controller decides. The order of checks is that of Kafka's KafkaApis (4.3)."""
    code = _code_of(api_key, request, context, services)
    if not code:
        return None
    if api_key is not ApiKey.CREATE_DELEGATION_TOKEN:
        return refused(api_key, request, code, "")
    return create_refused(request, context.principal, code)


def _code_of(api_key: ApiKey, request: Any, context: RequestContext, services: Services) -> ErrorCode:
    if services.is_between_nodes:
        may = not context.is_token
    else:
        may = may_ask(services.security.protocol, context.principal, is_token=context.is_token)
    if not may:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if api_key is ApiKey.CREATE_DELEGATION_TOKEN and not _may_create(request, context, services):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _may_create(request: CreateDelegationTokenRequest, context: RequestContext, services: Services) -> bool:
    owner = ":".join(owner_of(request, context.principal))
    return owner == context.principal or services.access.allows(
        context, ApiKey.CREATE_DELEGATION_TOKEN, Operation.CREATE_TOKENS, ResourceType.USER, owner
    )
