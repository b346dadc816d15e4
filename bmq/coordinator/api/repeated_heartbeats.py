"""Heartbeats of consumer and share groups that repeat an earlier one, answered without a task (see cached_responses.py)."""

from __future__ import annotations

from bmq.coordinator.api.context import CoordinatorContext
from bmq.coordinator.modern.cached_responses import RequestKey
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader, leading_string
from bmq.protocol.request_context import RequestContext
from bmq.protocol.wire import Buffer


def key_of(context: RequestContext) -> RequestKey | None:
    """What the response to this heartbeat is cached under; None: its frame is not known."""
    if context.received is None:
        return None
    return RequestKey.in_frame(context.received.frame, context.client_host, context.api_version)


class RepeatedHeartbeats:
    """See the module."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context

    def answer(self, frame: Buffer, header: RequestHeader, context: RequestContext, received_s: float) -> bytes | None:
        """The answer's body for a ConsumerGroupHeartbeat or ShareGroupHeartbeat that repeats an earlier one, if that answer
        still holds.

        None: `handle` has to decide it; it also refuses requests forwarded for another leader epoch of the shard.
        """
        group_id = leading_string(frame, header.body_position)
        shard = None if group_id is None else self._context.directory.find(group_id)
        if group_id is None or shard is None:
            return None
        if context.leader_epoch >= 0 and shard.state_log.log.leader_epoch != context.leader_epoch:
            return None
        key = RequestKey.in_frame(frame, context.client_host, header.api_version)
        if header.api_key == ApiKey.SHARE_GROUP_HEARTBEAT:
            return shard.share.cached_response(group_id, key)
        body = shard.consumer.cached_response(group_id, key)
        if body is not None:
            shard.consumer.resolve_if_due(group_id, context)
        return body
