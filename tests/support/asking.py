"""Requests of clients, asked of whoever decides without a listener in between."""

from __future__ import annotations

import re
from typing import Any

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.request_context import RequestContext
from bmq.proxy.services import RequestHandler


def key_of(request: Any) -> ApiKey:
    """The API that a request message belongs to."""
    words = re.findall("[A-Z][a-z]*", type(request).__name__.removesuffix("Request"))
    return ApiKey["_".join(words).upper()]


async def ask(
    handler: RequestHandler, request: Any, *, principal: str = "User:a", api_version: int | None = None
) -> Any:
    """The answer; `api_version`: the newest if none is given."""
    api_key = key_of(request)
    version = APIS[api_key].version_max if api_version is None else api_version
    return await handler.handle(api_key, request, RequestContext(version, "test", "127.0.0.1", principal=principal))
