"""A heartbeat's response with the time of the next one, and whether it may be sent again. Decisions only (KIP-848)."""

from __future__ import annotations

from bmq.coordinator.consumer.draft import Draft
from bmq.coordinator.consumer.epochs import GroupContext
from bmq.coordinator.consumer.heartbeat import CheckedHeartbeat, heartbeat
from bmq.coordinator.consumer.member import JOIN_EPOCH
from bmq.coordinator.consumer.pace import HeartbeatPace, is_settled
from bmq.coordinator.modern.cached_responses import CacheableResponse, RequestKey
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse


def paced_heartbeat(
    draft: Draft, checked: CheckedHeartbeat, context: GroupContext, pace: HeartbeatPace, key: RequestKey | None
) -> ConsumerGroupHeartbeatResponse:
    """Decide a heartbeat. A member of an unsettled group is to send the next one sooner.

    `key`: what the response to a member of a settled group is cached under (`draft.cacheable`); None: it is not cached.
    Raises KafkaError as `heartbeat` does.
    """
    response = heartbeat(draft, checked, context)
    if response.member_epoch <= JOIN_EPOCH:
        return response  # it left
    if not is_settled(draft.existing, checked.member_id, context.terms, context.now):
        usual_ms = response.heartbeat_interval_ms
        response.heartbeat_interval_ms = pace.interval_ms(usual_ms, context.now.loop_ms)
    elif key is not None:
        draft.cacheable = CacheableResponse(key, ApiKey.CONSUMER_GROUP_HEARTBEAT, response)
    return response
