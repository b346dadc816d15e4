"""Calls about lanes whose shards this node owns: from other nodes' proxies and coordinators."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services

CALLS: Final = (ApiKey.LANE_DECIDE, ApiKey.LANE_GROUP, ApiKey.LANE_LIST)


async def call(api_key: ApiKey, request: Any, context: RequestContext, services: Services) -> Any:
    """The answer of this node's coordinator."""
    return await services.groups.handle(api_key, request, context)


for _api_key in CALLS:
    handles(_api_key)(partial(call, _api_key))
