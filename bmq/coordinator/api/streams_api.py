"""The coordinator's APIs for streams groups (KIP-1071)."""

from __future__ import annotations

from bmq.coordinator.api.authorized_operations import AUTHORIZED_OPERATIONS
from bmq.coordinator.api.context import CoordinatorContext
from bmq.coordinator.api.ownership import answered_by_owner
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.lanes.marks import check_mark
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.coordinator.streams.description import described
from bmq.coordinator.streams.draft import StreamsDraft
from bmq.coordinator.streams.epochs import StreamsGroupContext
from bmq.coordinator.streams.heartbeat import Answered, CheckedHeartbeat, check, heartbeat
from bmq.coordinator.streams.member import JOIN_EPOCH
from bmq.coordinator.streams.topology_description import ASKED_FROM, DescriptionStatus
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from bmq.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
from bmq.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from bmq.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from bmq.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from bmq.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from bmq.protocol.refusals import streams_heartbeat_refused
from bmq.protocol.request_context import RequestContext


class StreamsApi:
    """Heartbeats, descriptions and topology descriptions of streams groups."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context

    async def streams_group_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, context: RequestContext
    ) -> StreamsGroupHeartbeatResponse:
        """StreamsGroupHeartbeat 0-1. Answers when its records are durable; topics are created in the background."""
        try:
            return await self._streams_heartbeat(request, context)
        except KafkaError as error:
            return streams_heartbeat_refused(coordinator_error(error), str(error))

    async def _streams_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, context: RequestContext
    ) -> StreamsGroupHeartbeatResponse:
        """Raises KafkaError."""
        # Kafka shows hosts as Java's InetAddress does, with a slash in front; tools expect it.
        checked = CheckedHeartbeat(request, check(request), context.client_id or "", f"/{context.client_host}")
        group_id = request.group_id
        is_joining = request.member_epoch == JOIN_EPOCH
        shard = await self._context.shard_for_heartbeat(group_id, is_joining=is_joining)
        if is_joining:
            await check_mark(shard, group_id, context.client_id, self._context.image())

        def decide(draft: StreamsDraft, context: StreamsGroupContext) -> Answered:
            return heartbeat(draft, checked, context)

        answered = await answered_by_owner(
            shard, shard.streams.decide(group_id, decide, overtaking=request.member_id), is_joining=is_joining
        )
        shard.streams.create_missing(group_id, answered.missing)
        if context.api_version >= ASKED_FROM and request.member_epoch >= JOIN_EPOCH:
            wants = shard.streams.ask_for_description(group_id, request.member_id)
            answered.response.topology_description_required = wants
        return answered.response

    async def streams_group_topology_description_update(
        self, request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext
    ) -> StreamsGroupTopologyDescriptionUpdateResponse:
        """StreamsGroupTopologyDescriptionUpdate 0."""
        try:
            shard, _ = await self._context.with_group(request.group_id)
            await answered_by_owner(shard, _keep_description(shard, request))
        except KafkaError as error:
            return StreamsGroupTopologyDescriptionUpdateResponse(
                error_code=coordinator_error(error), error_message=str(error)
            )
        return StreamsGroupTopologyDescriptionUpdateResponse()

    async def streams_group_describe(
        self, request: StreamsGroupDescribeRequest, context: RequestContext
    ) -> StreamsGroupDescribeResponse:
        """StreamsGroupDescribe 0-1. Each group has its own error."""
        groups = []
        for group_id in request.group_ids:
            try:
                if not group_id:
                    raise KafkaError(ErrorCode.INVALID_GROUP_ID)
                shard, _ = await self._context.with_group(group_id)
                groups.append(_described(group_id, shard, request))
            except KafkaError as error:
                code = coordinator_error(error)
                groups.append(DescribedGroup(group_id=group_id, error_code=code, error_message=str(error) or None))
        return StreamsGroupDescribeResponse(groups=groups)


async def _keep_description(shard: GroupShard, request: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
    shard.streams.keep_description(request)


def _described(group_id: str, shard: GroupShard, request: StreamsGroupDescribeRequest) -> DescribedGroup:
    """Raises KafkaError GROUP_ID_NOT_FOUND."""
    group = shard.streams.find(group_id)
    if group is None:
        is_other = shard.has_group(group_id)
        why = f"Group {group_id} is not a streams group." if is_other else f"Group {group_id} not found."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, why)
    answer = described(group, shard.streams.configured(group))
    if request.include_authorized_operations:
        answer.authorized_operations = AUTHORIZED_OPERATIONS
    if request.include_topology_description:
        found = shard.streams.description(group)
        answer.topology_description = found
        answer.topology_description_status = (
            DescriptionStatus.NOT_STORED if found is None else DescriptionStatus.AVAILABLE
        )
    return answer
