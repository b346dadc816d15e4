"""ConsumerGroupHeartbeat: what says nothing new is answered without a task; the rest goes its way (forwarded.py)."""

from __future__ import annotations

from bmq.log.store import Buffer
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import answers_at_once
from bmq.proxy.services import Services


@answers_at_once(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def repeated(
    frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, received_s: float
) -> Buffer | None:
    """ConsumerGroupHeartbeat 0-1."""
    return services.groups.repeated_heartbeat(frame, header, context, received_s)
