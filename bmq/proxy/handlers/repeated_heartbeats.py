"""Heartbeats of consumer and share groups that repeat an earlier one, answered without a task; others go to forwarded.py."""

from __future__ import annotations

from typing import Final

from bmq.metadata.features import GROUP_VERSION, SHARE_VERSION, level_in_force
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader, encode_response_header
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles_eagerly
from bmq.proxy.reply import Reply
from bmq.proxy.services import Services

_FEATURES: Final = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: GROUP_VERSION,
    ApiKey.SHARE_GROUP_HEARTBEAT: SHARE_VERSION,
}


@handles_eagerly(ApiKey.CONSUMER_GROUP_HEARTBEAT)
@handles_eagerly(ApiKey.SHARE_GROUP_HEARTBEAT)
def repeated_heartbeat(
    frame: bytearray,
    header: RequestHeader,
    context: RequestContext,
    received_s: float,
    services: Services,
    reply: Reply,
) -> bool:
    """ConsumerGroupHeartbeat 0-1, ShareGroupHeartbeat 1."""
    api_key = ApiKey(header.api_key)
    if not level_in_force(services.controller.image.features, _FEATURES[api_key]):
        return False
    body = services.groups.repeated_heartbeat(frame, header, context, received_s)
    if body is None:
        return False
    head = encode_response_header(api_key, header.api_version, header.correlation_id)
    reply((head, body))
    return True
