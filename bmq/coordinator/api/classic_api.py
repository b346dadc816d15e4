"""The coordinator's APIs of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from bmq.coordinator.api.classic_on_modern import (
    heartbeat_consumer,
    join_consumer,
    leave_consumer,
    make_room_for_classic,
    sync_consumer,
)
from bmq.coordinator.api.context import CoordinatorContext
from bmq.coordinator.api.ownership import require_owner, require_owner_to_join
from bmq.coordinator.classic.effects import Joining, join_error, sync_error
from bmq.coordinator.classic.group import Group
from bmq.coordinator.classic.member import Caller, distinct_protocols
from bmq.coordinator.classic.member_memory import GROUP_BYTES
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.lanes.marks import check_mark
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.heartbeat_response import HeartbeatResponse
from bmq.protocol.messages.join_group_request import JoinGroupRequest
from bmq.protocol.messages.join_group_response import JoinGroupResponse
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from bmq.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from bmq.protocol.messages.sync_group_response import SyncGroupResponse
from bmq.protocol.request_context import RequestContext

_log = structlog.get_logger("bmq.coordinator")


class ClassicApi:
    """Membership of classic groups; a consumer group takes classic members too."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context

    async def join_group(self, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
        """JoinGroup 0-9. Waits until the group's next generation begins."""
        response = await self._join(request, context)
        if response.protocol_name is None and context.api_version < 7:
            response.protocol_name = ""
        return response

    async def _join(self, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
        if not request.group_id:
            return join_error(ErrorCode.INVALID_GROUP_ID, request.member_id)
        config = self._context.config
        if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
            return join_error(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        if request.rebalance_timeout_ms < 0:
            request.rebalance_timeout_ms = request.session_timeout_ms  # v0 has no such field
        if len(request.protocols) > config.group_protocols_max:
            return join_error(ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id)
        try:
            shard = await self._context.directory.get(request.group_id)
            await check_mark(shard, request.group_id, context.client_id, self._context.image())
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_REQUEST:  # the answer has no room for the reason
                _log.warning("member_refused", group=request.group_id, reason=str(error))
            return join_error(coordinator_error(error), request.member_id)
        # Kafka shows hosts as Java's InetAddress does, with a slash in front; tools expect it.
        caller: Caller = self._context.loop.create_future()
        joining = Joining(
            request,
            distinct_protocols(request.protocols),
            caller,
            context.api_version,
            client_id=context.client_id or "",
            client_host=f"/{context.client_host}",
            new_member_uuid=self._context.new_uuid(),
        )
        if self._can_never_be_written(joining):
            return join_error(ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id)
        asked_ms = shard.elapsed_ms()
        try:
            answer = await self._join_of_any_kind(shard, joining)
            await require_owner_to_join(shard, answer.error_code, asked_ms)
        except KafkaError as error:
            return join_error(coordinator_error(error), request.member_id)
        return answer

    def _can_never_be_written(self, joining: Joining) -> bool:
        """Whether the group's record would be too large with this member alone, whatever the group's protocol. Kafka lets
        it join, and refuses the record with this code once the leader has sent the assignments."""
        member_id = joining.request.member_id or joining.new_member_uuid
        names = (member_id, joining.request.group_instance_id or "", joining.client_id, joining.client_host)
        smallest_bytes = min((len(metadata) for _, metadata in joining.protocols), default=0)
        return smallest_bytes + sum(map(len, names)) > self._context.config.message_max_bytes

    async def _join_of_any_kind(self, shard: GroupShard, joining: Joining) -> JoinGroupResponse:
        request = joining.request
        try:
            await make_room_for_classic(shard, request.group_id, request.member_id)
            return await join_consumer(shard, joining) or await self._join_classic(shard, joining)
        except KafkaError as error:
            return join_error(coordinator_error(error), request.member_id)

    async def _join_classic(self, shard: GroupShard, joining: Joining) -> JoinGroupResponse:
        """Raises KafkaError."""
        request = joining.request
        group = shard.groups.get(request.group_id)
        if group is None:
            if request.member_id:
                return join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            if shard.group_count >= self._context.config.groups_per_shard_max:
                return join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
            if not shard.memory.has_room(joining.grows_by_bytes(None) + len(request.group_id) + GROUP_BYTES):
                return join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
            group = shard.groups[request.group_id] = Group(request.group_id, self._context.config)
        elif not shard.memory.has_room(
            joining.grows_by_bytes(group.members.known(request.member_id, request.group_instance_id))
        ):
            return join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        shard.perform(group, group.join(joining, shard.now()))
        shard.forget_if_unused(group)
        answer: JoinGroupResponse = await shard.answer_of(joining.caller)
        return answer

    async def sync_group(self, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
        """SyncGroup 0-5. Waits until the leader's assignment is durable."""
        if not request.group_id:
            return sync_error(ErrorCode.INVALID_GROUP_ID)
        if context.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
            return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        try:
            shard = await self._context.existing(request.group_id)
        except KafkaError as error:
            return sync_error(coordinator_error(error))
        asked_ms = shard.elapsed_ms()
        try:
            answer = await self._sync(shard, request)
            await require_owner(shard, answer.error_code, asked_ms)
        except KafkaError as error:
            return sync_error(coordinator_error(error))
        return answer

    async def _sync(self, shard: GroupShard, request: SyncGroupRequest) -> SyncGroupResponse:
        """Raises KafkaError."""
        group = shard.groups.get(request.group_id)
        if group is None:
            if shard.consumer.find(request.group_id) is not None:
                return sync_consumer(shard, request)
            return sync_error(ErrorCode.UNKNOWN_MEMBER_ID)
        caller: Caller = self._context.loop.create_future()
        shard.perform(group, group.sync(request, caller, shard.now()))
        answer: SyncGroupResponse = await shard.answer_of(caller)
        return answer

    async def heartbeat(self, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        """Heartbeat 0-4."""
        group_id = request.group_id
        if not group_id:
            return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        shard = self._context.directory.find(group_id)
        if shard is None:
            try:
                shard = await self._context.existing(group_id)
            except KafkaError as error:
                code = coordinator_error(error)
                # The member may be in the state that is being loaded, so do not tell it to rejoin; Java's consumer
                # treats LOAD_IN_PROGRESS as fatal. Kafka says NONE, but while loading we may no longer own the shard
                # (rule 34).
                is_loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                return HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE if is_loading else code)
        asked_ms = shard.elapsed_ms()
        group = shard.groups.get(group_id)
        try:
            if group is not None:
                loop_ms = self._context.loop.time() * 1000
                code = group.heartbeat(request.member_id, request.group_instance_id, request.generation_id, loop_ms)
            elif shard.consumer.find(group_id) is not None:
                code = heartbeat_consumer(shard, request)
            else:
                code = ErrorCode.UNKNOWN_MEMBER_ID
            await require_owner(shard, code, asked_ms)
        except KafkaError as error:
            code = coordinator_error(error)
        return HeartbeatResponse(error_code=code)

    async def leave_group(self, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
        """LeaveGroup 0-5; before v3 it names one member, whose error is the answer's."""
        is_single = context.api_version < 3
        leaving = [MemberIdentity(member_id=request.member_id)] if is_single else request.members
        if not request.group_id:
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        asked_ms = self._context.clock.elapsed_s() * 1000
        try:
            shard = await self._context.existing(request.group_id)
            await shard.prove_since(asked_ms)  # a classic group writes nothing now that could be refused
            consumers = await leave_consumer(shard, request.group_id, leaving)
        except KafkaError as error:
            return LeaveGroupResponse(error_code=coordinator_error(error))
        group = shard.groups.get(request.group_id)
        left: Sequence[MemberResponse]
        if consumers is not None:
            left = consumers
        elif group is None:
            left = [
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=ErrorCode.UNKNOWN_MEMBER_ID,
                )
                for identity in leaving
            ]
        else:
            left, effects = group.leave(leaving, shard.now())
            shard.perform(group, effects)
            shard.forget_if_unused(group)
        if is_single:
            return LeaveGroupResponse(error_code=left[0].error_code)
        return LeaveGroupResponse(members=left)
