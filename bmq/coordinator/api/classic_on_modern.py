"""The classic protocol where the group is a consumer group (KIP-848) or a streams group (KIP-1071)."""

from __future__ import annotations

from collections.abc import Sequence

from bmq.coordinator.classic.effects import Joining, join_error, sync_error
from bmq.coordinator.consumer import classic_members
from bmq.coordinator.consumer.draft import Draft
from bmq.coordinator.consumer.epochs import GroupContext
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.coordinator.streams.draft import StreamsDraft
from bmq.coordinator.streams.epochs import StreamsGroupContext
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.join_group_response import JoinGroupResponse
from bmq.protocol.messages.leave_group_request import MemberIdentity
from bmq.protocol.messages.leave_group_response import MemberResponse
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from bmq.protocol.messages.sync_group_response import SyncGroupResponse


async def join_consumer(shard: GroupShard, joining: Joining) -> JoinGroupResponse | None:
    """The answer to a JoinGroup on a consumer group; None: there is none now, a classic one may be made."""
    request = joining.request

    def decide(draft: Draft, context: GroupContext) -> JoinGroupResponse | None:
        return classic_members.join(draft, joining, context)

    while shard.consumer.concerns(request.group_id):
        try:
            answer = await shard.consumer.decide(request.group_id, decide)
        except KafkaError as error:
            return join_error(coordinator_error(error), request.member_id)
        if answer is not None:
            return answer
    return None


def sync_consumer(shard: GroupShard, request: SyncGroupRequest) -> SyncGroupResponse:
    def decide(draft: Draft, context: GroupContext) -> SyncGroupResponse:
        return classic_members.sync(draft, request, context)

    try:
        return shard.consumer.query(request.group_id, decide)
    except KafkaError as error:
        return sync_error(coordinator_error(error))


def heartbeat_consumer(shard: GroupShard, request: HeartbeatRequest) -> ErrorCode:
    def decide(draft: Draft, context: GroupContext) -> ErrorCode:
        return classic_members.heartbeat(draft, request)

    try:
        return shard.consumer.query(request.group_id, decide)
    except KafkaError as error:
        return coordinator_error(error)


async def leave_consumer(
    shard: GroupShard, group_id: str, leaving: Sequence[MemberIdentity]
) -> list[MemberResponse] | None:
    """The answers to a LeaveGroup on a consumer group; None: there is none (any more). Raises KafkaError."""

    def decide(draft: Draft, context: GroupContext) -> list[MemberResponse] | None:
        return None if draft.group is None else classic_members.leave(draft, leaving, context)

    while shard.consumer.concerns(group_id):
        answer = await shard.consumer.decide(group_id, decide)
        if answer is not None:
            return answer
    return None


async def make_room_for_classic(shard: GroupShard, group_id: str, member_id: str) -> None:
    """Delete an empty streams group for a classic one, unless the sender has a member id, which no group knows.

    Raises KafkaError INCONSISTENT_GROUP_PROTOCOL.
    """

    def decide(draft: StreamsDraft, context: StreamsGroupContext) -> bool:
        """Whether the group stays."""
        if draft.group is None:
            return False
        if draft.group.members:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Group {group_id} is a streams group.")
        if not member_id:
            draft.delete()
        return bool(member_id)

    while shard.streams.concerns(group_id):
        if await shard.streams.decide(group_id, decide):
            return
