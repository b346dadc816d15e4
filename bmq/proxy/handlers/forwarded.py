"""The APIs that the controller or a coordinator answers: from here a request only goes its way (apis.Route)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from bmq.protocol.apis import APIS, ApiKey, Route
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import RequestHandler, Services

_HANDLERS: Final[dict[Route, Callable[[Services], RequestHandler]]] = {
    Route.CONTROLLER: lambda services: services.controller,
    Route.GROUP: lambda services: services.groups,
    Route.TRANSACTION: lambda services: services.transactions,
}


async def forward(api_key: ApiKey, request: Any, context: RequestContext, services: Services) -> Any:
    """The answer of whoever decides. Raises KafkaError where the whole request failed and its response has no place for it."""
    return await _HANDLERS[APIS[api_key].route](services).handle(api_key, request, context)


for _api_key, _api in APIS.items():
    if _api.route is not Route.LOCAL:
        handles(_api_key)(partial(forward, _api_key))
