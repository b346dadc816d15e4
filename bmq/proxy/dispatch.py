"""Which function answers which Kafka API. One file per API under handlers/; each registers itself here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from bmq.log.store import Buffer
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader
from bmq.protocol.request_context import RequestContext
from bmq.proxy.reply import Reply
from bmq.proxy.services import Services


@dataclass(frozen=True, slots=True)
class EncodedBody:
    """A response body that is bytes already (a cached answer), in the version of the request."""

    data: bytes
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
        HANDLERS[api_key] = handler
        return handler

    return register


HotHandler = Callable[[bytearray, RequestHeader, RequestContext, Services, Reply], None]
"""Answers without a task of its own: parses the frame (now its own, writable) and calls `reply` exactly once, at once or
later. Raises MalformedMessage for a frame that does not parse."""

HOT_HANDLERS: Final[dict[ApiKey, HotHandler]] = {}


def handles_hot(api_key: ApiKey) -> Callable[[HotHandler], HotHandler]:
    """Register the callback-style handler of an API on the data path (Produce, Fetch)."""

    def register(handler: HotHandler) -> HotHandler:
        if api_key in HANDLERS or api_key in HOT_HANDLERS:
            raise ValueError(f"two handlers for {api_key.name}")
        HOT_HANDLERS[api_key] = handler
        return handler

    return register


AtOnce = Callable[[bytearray, RequestHeader, RequestContext, Services, float], Buffer | None]
"""Answers in the same turn of the loop, without decoding the request: the response's body, in the request's version; None:
the API's handler has to look. The last argument is when the request was received, in the loop's time."""

AT_ONCE: Final[dict[ApiKey, AtOnce]] = {}


def answers_at_once(api_key: ApiKey) -> Callable[[AtOnce], AtOnce]:
    """Register what is tried before the API's handler."""

    def register(at_once: AtOnce) -> AtOnce:
        AT_ONCE[api_key] = at_once
        return at_once

    return register
