"""FindCoordinator: the coordinator of a group, of a transactional id, or of a share partition's state.

The answer names a node that clients can connect to, which may forward requests to the coordinator. Answering also creates the
coordinators' topic, and loads the key's shard if this node owns it, for the client's next request. Unsupported key types, and
malformed keys of share partitions, get an error that is not retriable, because clients would retry until they time out.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from bmq.metadata.image import Node
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from bmq.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
KEYS_PER_TURN_MAX: Final = 10
"""Keys that are looked up in one turn of the event loop: a long key takes milliseconds, and a loaded shard does not yield."""
SHARE_KEY: Final = 2
_SHARE_KEY: Final = re.compile(r"(?s:.+):[A-Za-z0-9_-]{22}:[0-9]{1,10}", re.ASCII)
"""The key of a share partition: group, topic id and partition."""
_BATCH_FROM_VERSION: Final = 4
_NO_ERROR: Final = "NONE"
"""Kafka's error message for a single key without an error; versions without the field leave it out."""


@handles(ApiKey.FIND_COORDINATOR)
async def find_coordinator(
    request: FindCoordinatorRequest, context: RequestContext, services: Services
) -> FindCoordinatorResponse:
    """FindCoordinator 0-6; a batch of keys from v4, each with its own error."""
    if context.api_version >= _BATCH_FROM_VERSION:
        # One after the other: a loaded shard costs nothing, and there are at most as many loads as shards.
        found = []
        for number, key in enumerate(request.coordinator_keys, 1):
            found.append(await _find(request.key_type, key, services))
            if number % KEYS_PER_TURN_MAX == 0:
                await asyncio.sleep(0)
        return FindCoordinatorResponse(coordinators=found)
    one = await _find(request.key_type, request.key, services)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message or _NO_ERROR,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(key_type: int, key: str, services: Services) -> Coordinator:
    coordinators = {
        GROUP_KEY: services.groups,
        TRANSACTION_KEY: services.transactions,
        SHARE_KEY: services.share_states,
    }.get(key_type)
    if coordinators is None:
        return _nowhere(key, ErrorCode.INVALID_REQUEST, f"coordinators of key type {key_type} are not served")
    if key_type == SHARE_KEY and not _SHARE_KEY.fullmatch(key):
        return _nowhere(key, ErrorCode.INVALID_REQUEST, "the key is not group:topicId:partition")
    node: Node | None = None
    try:
        node = await coordinators.prepare(key)
    except BmqError as error:
        if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
        # The shard is loading on this node; the client's next request waits for it.
    node = services.node if node is None else services.controller.image.nodes.get(node.node_id, node)
    return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port, error_message="")


def _nowhere(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
