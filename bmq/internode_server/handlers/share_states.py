"""Calls about the state of share partitions whose shards this node owns: from other nodes' proxies and coordinators."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from bmq.internode_server.services import internal
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services

CALLS: Final = (
    ApiKey.SHARE_ACQUIRE,
    ApiKey.SHARE_ACKNOWLEDGE_STATE,
    ApiKey.SHARE_RELEASE,
    ApiKey.SHARE_WAIT,
    ApiKey.SHARE_INITIALIZE,
    ApiKey.SHARE_SUMMARY,
    ApiKey.SHARE_DELETE,
    ApiKey.SHARE_ACTIVATE,
    ApiKey.SHARE_EXPLAIN,
)


async def call(api_key: ApiKey, request: Any, context: RequestContext, services: Services) -> Any:
    """The answer of this node's coordinator."""
    states = internal(services).share_calls
    if states is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "this node keeps no share partitions")
    return await states.handle(api_key, request, context)


for _api_key in CALLS:
    handles(_api_key)(partial(call, _api_key))
