"""The coordinator's APIs for consumer groups of the new protocol (KIP-848)."""

from __future__ import annotations

from bmq.coordinator.api.authorized_operations import AUTHORIZED_OPERATIONS
from bmq.coordinator.api.context import CoordinatorContext
from bmq.coordinator.api.ownership import answered_by_owner
from bmq.coordinator.api.repeated_heartbeats import key_of
from bmq.coordinator.consumer.description import described
from bmq.coordinator.consumer.draft import Draft
from bmq.coordinator.consumer.epochs import GroupContext
from bmq.coordinator.consumer.heartbeat import CheckedHeartbeat, check
from bmq.coordinator.consumer.member import JOIN_EPOCH
from bmq.coordinator.consumer.pace import HeartbeatPace
from bmq.coordinator.consumer.paced_heartbeat import paced_heartbeat
from bmq.coordinator.lanes.marks import check_mark
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, as_message
from bmq.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from bmq.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from bmq.protocol.request_context import RequestContext


class ConsumerApi:
    """Heartbeats and descriptions of consumer groups."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._pace = HeartbeatPace(context.config.consumer)

    async def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse:
        """ConsumerGroupHeartbeat 0-1. Answers when its records are durable."""
        try:
            check(request, context.api_version, self._context.config.consumer)
            return await self._heartbeat(request, context)
        except KafkaError as error:
            return ConsumerGroupHeartbeatResponse(error_code=coordinator_error(error), error_message=str(error))

    async def _heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse:
        """Raises KafkaError."""
        group_id = request.group_id
        is_joining = request.member_epoch == JOIN_EPOCH
        shard = await self._context.shard_for_heartbeat(group_id, is_joining=is_joining)
        if is_joining:
            await check_mark(shard, group_id, context.client_id, self._context.image())
        # Kafka shows hosts as Java's InetAddress does, with a slash in front; tools expect it.
        checked = CheckedHeartbeat(
            request,
            request.member_id or self._context.new_uuid(),
            context.client_id or "",
            f"/{context.client_host}",
        )
        key = None if is_joining else key_of(context)

        def decide(draft: Draft, group_context: GroupContext) -> ConsumerGroupHeartbeatResponse:
            return paced_heartbeat(draft, checked, group_context, self._pace, key)

        answer = await answered_by_owner(
            shard, shard.consumer.decide(group_id, decide, overtaking=checked.member_id), is_joining=is_joining
        )
        shard.consumer.resolve_if_due(group_id, context)
        return answer

    async def consumer_group_describe(
        self, request: ConsumerGroupDescribeRequest, context: RequestContext
    ) -> ConsumerGroupDescribeResponse:
        """ConsumerGroupDescribe 0-1. Each group has its own error."""
        groups = []
        for group_id in request.group_ids:
            if not group_id:
                groups.append(DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID))
                continue
            try:
                shard, _ = await self._context.with_group(group_id)
            except KafkaError as error:
                groups.append(DescribedGroup(group_id=group_id, error_code=coordinator_error(error)))
                continue
            group = shard.consumer.find(group_id)
            if group is None:
                groups.append(
                    DescribedGroup(
                        group_id=group_id,
                        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                        error_message=as_message(
                            f"Group {group_id} is not a consumer group."
                            if shard.has_group(group_id)
                            else f"Group {group_id} not found."
                        ),
                    )
                )
                continue
            answer = described(group, self._context.image(), self._context.config.consumer.assignors)
            if request.include_authorized_operations:
                answer.authorized_operations = AUTHORIZED_OPERATIONS
            groups.append(answer)
        return ConsumerGroupDescribeResponse(groups=groups)
