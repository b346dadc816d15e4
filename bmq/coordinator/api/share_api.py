"""The coordinator's APIs for share groups (KIP-932): heartbeats and descriptions."""

from __future__ import annotations

from bmq.coordinator.api.authorized_operations import AUTHORIZED_OPERATIONS
from bmq.coordinator.api.context import CoordinatorContext
from bmq.coordinator.api.ownership import answered_by_owner
from bmq.coordinator.api.repeated_heartbeats import key_of
from bmq.coordinator.api.share_activation import activate
from bmq.coordinator.api.share_states_api import ShareStatesApi
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.coordinator.share_membership.description import described
from bmq.coordinator.share_membership.draft import ShareDraft
from bmq.coordinator.share_membership.heartbeat import (
    Answered,
    Beat,
    ShareContext,
    check,
    heartbeat,
    initialized,
    reassign,
)
from bmq.coordinator.share_membership.member import JOIN_EPOCH
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from bmq.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from bmq.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from bmq.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from bmq.protocol.request_context import RequestContext


class ShareApi:
    """Heartbeats and descriptions of share groups. `states`: makes the state of partitions that have none."""

    def __init__(self, context: CoordinatorContext, states: ShareStatesApi) -> None:
        self._context = context
        self._states = states

    async def share_group_heartbeat(
        self, request: ShareGroupHeartbeatRequest, context: RequestContext
    ) -> ShareGroupHeartbeatResponse:
        """ShareGroupHeartbeat 1. Answers when its records are durable."""
        try:
            check(request)
            return await self._heartbeat(request, context)
        except KafkaError as error:
            return ShareGroupHeartbeatResponse(error_code=coordinator_error(error), error_message=str(error))

    async def _heartbeat(
        self, request: ShareGroupHeartbeatRequest, context: RequestContext
    ) -> ShareGroupHeartbeatResponse:
        """Raises KafkaError."""
        group_id, member_id = request.group_id, request.member_id or ""
        is_joining = request.member_epoch == JOIN_EPOCH
        shard = await self._context.shard_for_heartbeat(group_id, is_joining=is_joining)
        # Kafka shows hosts as Java's InetAddress does, with a slash in front; tools expect it.
        beat = Beat(request, context.client_id or "", f"/{context.client_host}")
        key = None if is_joining else key_of(context)

        def decide(draft: ShareDraft, group_context: ShareContext) -> Answered:
            return heartbeat(draft, beat, group_context, key)

        answered = await answered_by_owner(
            shard, shard.share.decide(group_id, decide, overtaking=member_id), is_joining=is_joining
        )
        response = answered.response
        if answered.missing:
            response = await self._after_initializing(shard, group_id, answered)
        await activate(shard, group_id, self._states)
        return response

    async def _after_initializing(
        self, shard: GroupShard, group_id: str, answered: Answered
    ) -> ShareGroupHeartbeatResponse:
        """With what is initialized meanwhile; without it where that fails, and a later heartbeat finds it. Raises
        KafkaError.
        """
        try:
            done = await self._states.initialize(shard, group_id, answered.missing)
        except KafkaError:
            done = {}
        if not done:
            return answered.response

        def decide(draft: ShareDraft, group_context: ShareContext) -> ShareGroupHeartbeatResponse:
            initialized(draft, done)
            return reassign(draft, answered.response, group_context)

        return await answered_by_owner(shard, shard.share.decide(group_id, decide))

    async def share_group_describe(
        self, request: ShareGroupDescribeRequest, context: RequestContext
    ) -> ShareGroupDescribeResponse:
        """ShareGroupDescribe 1. Each group has its own error."""
        groups = []
        for group_id in request.group_ids:
            try:
                if not group_id:
                    raise KafkaError(ErrorCode.INVALID_GROUP_ID)
                shard, _ = await self._context.with_group(group_id)
                groups.append(self._described(group_id, shard, request))
            except KafkaError as error:
                code = coordinator_error(error)
                groups.append(DescribedGroup(group_id=group_id, error_code=code, error_message=str(error) or None))
        return ShareGroupDescribeResponse(groups=groups)

    def _described(self, group_id: str, shard: GroupShard, request: ShareGroupDescribeRequest) -> DescribedGroup:
        """Raises KafkaError GROUP_ID_NOT_FOUND."""
        group = shard.share.find(group_id)
        if group is None:
            is_other = shard.has_group(group_id)
            why = f"Group {group_id} is not a share group." if is_other else f"Group {group_id} not found."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, why)
        answer = described(group, self._context.image())
        if request.include_authorized_operations:
            answer.authorized_operations = AUTHORIZED_OPERATIONS
        return answer
