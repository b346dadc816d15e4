"""Which function answers which Kafka API. One file per API under handlers/; each registers itself here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from bmq.protocol.apis import ApiKey
from bmq.proxy.services import Services


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks, and in which version."""

    api_version: int
    client_id: str | None
    client_host: str
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    principal: str = "User:ANONYMOUS"


Handler = Callable[[Any, RequestContext, Services], Awaitable[Any]]
_H = TypeVar("_H", bound=Callable[..., Awaitable[Any]])

HANDLERS: Final[dict[ApiKey, Handler]] = {}


def handles(api_key: ApiKey) -> Callable[[_H], _H]:
    """Register `async def handler(request, context, services) -> response` for an API.

    The response is the API's message class. A whole-request failure is raised as KafkaError only where the response has
    no place for it; otherwise the handler puts the code into its response (a partition's error is data).
    """

    def register(handler: _H) -> _H:
        if api_key in HANDLERS:
            raise ValueError(f"two handlers for {api_key.name}")
        HANDLERS[api_key] = handler
        return handler

    return register
