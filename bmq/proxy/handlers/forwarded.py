"""The APIs that the controller or a coordinator answers: their requests are passed on by apis.Route."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from bmq.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION, level_in_force
from bmq.protocol.apis import APIS, ApiKey, Route
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.refusals import refused
from bmq.protocol.request_context import RequestContext
from bmq.proxy import broker_loggers
from bmq.proxy.authorization.answers import acls_refused
from bmq.proxy.broker_loggers import APIS_WITH_LOGGERS
from bmq.proxy.dispatch import handles
from bmq.proxy.handlers.describe_acls import NO_AUTHORIZER
from bmq.proxy.services import RequestHandler, Services
from bmq.proxy.token_requests import TOKEN_CHANGES, refusal_of

_HANDLERS: Final[dict[Route, Callable[[Services], RequestHandler]]] = {
    Route.CONTROLLER: lambda services: services.controller,
    Route.GROUP: lambda services: services.groups,
    Route.TRANSACTION: lambda services: services.transactions,
}


_FEATURE_OF: Final = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: GROUP_VERSION,
    ApiKey.STREAMS_GROUP_HEARTBEAT: STREAMS_VERSION,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: STREAMS_VERSION,
    ApiKey.SHARE_GROUP_HEARTBEAT: SHARE_VERSION,
    ApiKey.SHARE_GROUP_DESCRIBE: SHARE_VERSION,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: SHARE_VERSION,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: SHARE_VERSION,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: SHARE_VERSION,
}
"""The feature that each of these APIs needs: at level 0 the API is refused."""

_REFUSED_WITHOUT_TEXT: Final = (
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
)
"""APIs that Kafka refuses with a code but no message (`getErrorResponse` of these requests)."""


_OF_AUTHORIZER: Final = {ApiKey.CREATE_ACLS: NO_AUTHORIZER, ApiKey.DELETE_ACLS: "No Authorizer is configured."}
"""APIs that need an authorizer, with Kafka's message if there is none."""


async def forward(api_key: ApiKey, request: Any, context: RequestContext, services: Services) -> Any:
    """The answer of the route's handler. Raises KafkaError if the whole request failed and its response has no field for that."""
    if api_key in _OF_AUTHORIZER and not services.access.is_on and not services.is_between_nodes:
        return acls_refused(api_key, request, ErrorCode.SECURITY_DISABLED, _OF_AUTHORIZER[api_key])
    if api_key in TOKEN_CHANGES:
        refusal = refusal_of(api_key, request, context, services)
        if refusal is not None:
            return refusal
    feature = _FEATURE_OF.get(api_key)
    if feature is not None and not level_in_force(services.controller.image.features, feature):
        why = "" if api_key in _REFUSED_WITHOUT_TEXT else f"{feature} is 0: the protocol is switched off"
        return refused(api_key, request, ErrorCode.UNSUPPORTED_VERSION, why)
    handler = _HANDLERS[APIS[api_key].route](services)
    if api_key in APIS_WITH_LOGGERS:
        return await broker_loggers.answer(
            api_key,
            request,
            context,
            services.log_levels,
            services.node.node_id,
            lambda rest: handler.handle(api_key, rest, context),
        )
    return await handler.handle(api_key, request, context)


for _api_key, _api in APIS.items():
    if _api.route is not Route.LOCAL:
        handles(_api_key)(partial(forward, _api_key))
