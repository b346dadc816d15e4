"""The registry of handlers of Kafka APIs. Each file under handlers/ has one API and registers its handler here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from bmq.dataclass import dataclass
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import RequestHeader
from bmq.protocol.request_context import RequestContext
from bmq.protocol.wire import Buffer
from bmq.proxy.authorization.rules import RULES, authorized
from bmq.proxy.reply import Reply
from bmq.proxy.services import Services


@dataclass(frozen=True, slots=True)
class EncodedBody:
    """A response body that is already encoded (a cached answer), in the request's version."""

    data: bytes
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class EncodedPieces:
    """An encoded response body in pieces that are sent one after the other, in the request's version."""

    pieces: Sequence[Buffer]
    error_code: int = 0


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
        if api_key in APIS and api_key not in RULES:
            raise ValueError(f"{api_key.name} has no rule in bmq.proxy.authorization: every client could use it")
        HANDLERS[api_key] = _guarded(api_key, handler)
        return handler

    return register


def _guarded(api_key: ApiKey, handler: Handler) -> Handler:
    """A handler that applies the API's authorization rule before `handler`, if there is an authorizer."""
    if api_key not in RULES:
        return handler

    def answer(request: Any, context: RequestContext, services: Services) -> Awaitable[Any]:
        if not services.access.is_on:
            return handler(request, context, services)
        return authorized(
            api_key,
            request,
            context,
            services.access,
            services.controller.image,
            lambda allowed: handler(allowed, context, services),
        )

    return answer


HotHandler = Callable[[bytearray, RequestHeader, RequestContext, Services, Reply], None]
"""Answers a request without a task. It parses the frame, which it owns and may write to, and calls `reply` exactly once, at
once or later. Raises MalformedMessage for a frame that does not parse."""

HOT_HANDLERS: Final[dict[ApiKey, HotHandler]] = {}

EagerHandler = Callable[[bytearray, RequestHeader, RequestContext, float, Services, Reply], bool]
"""Answers a request without a task if possible, like a HotHandler, and returns True; or does nothing and returns False, after
which the API's Handler gets the frame. It is called only while no task of its connection runs, so that requests keep their order.
The number is the event loop's time at which the request was received."""

EAGER_HANDLERS: Final[dict[ApiKey, EagerHandler]] = {}


def handles_hot(api_key: ApiKey) -> Callable[[HotHandler], HotHandler]:
    """Register the callback-style handler of an API on the data path (Produce, Fetch)."""

    def register(handler: HotHandler) -> HotHandler:
        if api_key in HANDLERS or api_key in HOT_HANDLERS:
            raise ValueError(f"two handlers for {api_key.name}")
        HOT_HANDLERS[api_key] = handler
        return handler

    return register


def handles_eagerly(api_key: ApiKey) -> Callable[[EagerHandler], EagerHandler]:
    """Register the EagerHandler of an API, which is called before its Handler."""

    def register(handler: EagerHandler) -> EagerHandler:
        if api_key in EAGER_HANDLERS or api_key in HOT_HANDLERS:
            raise ValueError(f"two handlers for {api_key.name}")
        EAGER_HANDLERS[api_key] = handler
        return handler

    return register
