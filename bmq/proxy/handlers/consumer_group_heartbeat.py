"""ConsumerGroupHeartbeat: repeated heartbeats are answered without a task; others are forwarded (forwarded.py)."""

from __future__ import annotations

from bmq.metadata.features import GROUP_VERSION, level_in_force
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader, encode_response_header
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles_eagerly
from bmq.proxy.reply import Reply
from bmq.proxy.services import Services


@handles_eagerly(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def repeated_heartbeat(
    frame: bytearray,
    header: RequestHeader,
    context: RequestContext,
    received_s: float,
    services: Services,
    reply: Reply,
) -> bool:
    """ConsumerGroupHeartbeat 0-1."""
    if not level_in_force(services.controller.image.features, GROUP_VERSION):
        return False
    body = services.groups.repeated_heartbeat(frame, header, context, received_s)
    if body is None:
        return False
    head = encode_response_header(ApiKey.CONSUMER_GROUP_HEARTBEAT, header.api_version, header.correlation_id)
    reply((head, body))
    return True
