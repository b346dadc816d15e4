"""The coordinator's APIs for consumer groups of the new protocol (KIP-848), and the classic APIs on such groups."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from bmq.coordinator.classic.effects import Joining, join_error, sync_error
from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.consumer import classic_members
from bmq.coordinator.consumer.description import described
from bmq.coordinator.consumer.draft import Draft
from bmq.coordinator.consumer.heartbeat import Beat, check, heartbeat
from bmq.coordinator.consumer.member import JOIN_EPOCH
from bmq.coordinator.consumer.pace import HeartbeatPace, is_settled
from bmq.coordinator.consumer.progress import Surroundings
from bmq.coordinator.consumer.repeated import Said
from bmq.coordinator.group_shard import GroupShard, NewRuntime
from bmq.coordinator.metrics import GroupMetrics
from bmq.coordinator.modern.group_draft import GroupDraft
from bmq.coordinator.runtime.directory import ShardDirectory
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.coordinator.topics import CurrentTopics, Topics, changes
from bmq.coordinator.txn_offset_api import TxnOffsetApi
from bmq.log.clock import Clock
from bmq.log.transactions import TransactionVerifier
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader, encode, leading_string
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, as_message
from bmq.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from bmq.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.join_group_response import JoinGroupResponse
from bmq.protocol.messages.leave_group_request import MemberIdentity
from bmq.protocol.messages.leave_group_response import MemberResponse
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from bmq.protocol.messages.sync_group_response import SyncGroupResponse
from bmq.protocol.request_context import RequestContext
from bmq.protocol.wire import Buffer

T = TypeVar("T")
_HEARTBEAT: Final = ApiKey.CONSUMER_GROUP_HEARTBEAT
AUTHORIZED_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS (AclOperation's numbers): there are no ACLs to restrict
them."""


async def answered_by_owner(shard: GroupShard, answer: Awaitable[T], *, is_joining: bool = False) -> T:
    """The answer to a heartbeat, or its error, if the shard is still ours; else KafkaError NOT_COORDINATOR.

    A success lets the member go on for another session, so it needs a recent proof of ownership (rule 34); any proof
    begun since the heartbeat came will do, such as that of its own append. A refusal makes the member drop all its
    partitions, and GROUP_ID_NOT_FOUND makes it give up; a former owner knows neither later members nor later epochs
    (rule 15), so an error needs a new proof. So does a join: it names no epoch that would expose a former owner, which
    would hand out the member's old assignment.
    """
    asked_ms = shard.elapsed_ms()
    try:
        answered = await answer
    except KafkaError:
        await shard.prove()
        raise
    if is_joining:
        await shard.prove_since(asked_ms)
    elif not shard.is_proven(asked_ms):
        await shard.prove()
    return answered


class Dice(Protocol):
    """Source of randomness for member ids; random.Random is one."""

    def getrandbits(self, k: int, /) -> int: ...


class ConsumerApi(TxnOffsetApi):
    """The consumer group part of GroupCoordinator."""

    def __init__(
        self,
        directory: ShardDirectory[GroupShard],
        clock: Clock,
        rng: Dice,
        config: CoordinatorConfig,
        image: CurrentTopics,
        metrics: GroupMetrics,
        verifier: TransactionVerifier | None,
    ) -> None:
        super().__init__(directory, clock, image, metrics, verifier)
        self.config = config
        self._rng = rng
        self._pace = HeartbeatPace(config.consumer)

    def image_changed(self, old: Topics, new: Topics) -> None:
        """Call after each new image: groups subscribed to changed topics look at them with their next heartbeat."""
        changed = changes(old, new)
        if changed.names:
            for shard in self.directory.ready.values():
                shard.topics_changed(changed)

    # ---------------------------------------------------------------- the new protocol

    async def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse:
        """ConsumerGroupHeartbeat 0-1. Answers when its records are durable."""
        try:
            check(request, context.api_version, self.config.consumer)
            return await self._heartbeat(request, context)
        except KafkaError as error:
            return ConsumerGroupHeartbeatResponse(error_code=coordinator_error(error), error_message=str(error))

    async def _heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse:
        """Raises KafkaError."""
        group_id = request.group_id
        is_joining = request.member_epoch == JOIN_EPOCH
        shard = await self._shard_for_heartbeat(group_id, is_joining=is_joining)
        # Kafka shows hosts as Java's InetAddress does, with a slash in front; tools expect it.
        beat = Beat(
            request,
            request.member_id or self._new_uuid(),
            context.client_id or "",
            f"/{context.client_host}",
        )
        groups = shard.consumer

        def decide(draft: Draft, around: Surroundings) -> ConsumerGroupHeartbeatResponse:
            answer = heartbeat(draft, beat, around)
            if answer.member_epoch <= JOIN_EPOCH:
                return answer  # it left
            if not is_settled(draft.existing, beat.member_id, around.terms, around.now):
                usual_ms = answer.heartbeat_interval_ms
                answer.heartbeat_interval_ms = self._pace.interval_ms(usual_ms, around.now.loop_ms)
            elif context.received is not None and not is_joining:
                said = Said.in_frame(context.received.frame, context.client_host, context.api_version)
                groups.remember(draft, said, encode("response", _HEARTBEAT, context.api_version, answer))
            return answer

        answer = await answered_by_owner(
            shard, groups.decide(group_id, decide, may_overtake=True), is_joining=is_joining
        )
        groups.resolve_if_due(group_id)
        return answer

    def repeated_heartbeat(
        self, frame: Buffer, header: RequestHeader, context: RequestContext, received_s: float
    ) -> bytes | None:
        """The answer's body for a ConsumerGroupHeartbeat that repeats an earlier one, if that answer still holds.

        None: `handle` has to decide it; it also refuses requests forwarded for another leader epoch of the shard.
        """
        group_id = leading_string(frame, header.body_position)
        shard = None if group_id is None else self.directory.find(group_id)
        if group_id is None or shard is None:
            return None
        if context.leader_epoch >= 0 and shard.state_log.log.leader_epoch != context.leader_epoch:
            return None
        said = Said.in_frame(frame, context.client_host, header.api_version)
        return shard.consumer.repeat(group_id, said)

    async def _shard_for_heartbeat(self, group_id: str, *, is_joining: bool) -> GroupShard:
        """Raises KafkaError."""
        shard = await (self.directory.get(group_id) if is_joining else self._existing(group_id))
        if is_joining and not shard.has_group(group_id) and shard.group_count >= self.config.groups_per_shard_max:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many groups")
        return shard

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
                shard, _ = await self._with_group(group_id)
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
            answer = described(group, self._image(), self.config.consumer.assignors)
            if request.include_authorized_operations:
                answer.authorized_operations = AUTHORIZED_OPERATIONS
            groups.append(answer)
        return ConsumerGroupDescribeResponse(groups=groups)

    # ---------------------------------------------------------------- the classic protocol on a consumer group

    async def _join_consumer(self, shard: GroupShard, joining: Joining) -> JoinGroupResponse | None:
        """The answer to a JoinGroup on a consumer group; None: there is none now, a classic one may be made."""
        request = joining.request

        def decide(draft: Draft, around: Surroundings) -> JoinGroupResponse | None:
            return classic_members.join(draft, joining, around)

        while shard.consumer.concerns(request.group_id):
            try:
                answer = await shard.consumer.decide(request.group_id, decide)
            except KafkaError as error:
                return join_error(coordinator_error(error), request.member_id)
            if answer is not None:
                return answer
        return None

    def _sync_consumer(self, shard: GroupShard, request: SyncGroupRequest) -> SyncGroupResponse:
        def decide(draft: Draft, around: Surroundings) -> SyncGroupResponse:
            return classic_members.sync(draft, request, around)

        try:
            return shard.consumer.look(request.group_id, decide)
        except KafkaError as error:
            return sync_error(coordinator_error(error))

    def _heartbeat_consumer(self, shard: GroupShard, request: HeartbeatRequest) -> ErrorCode:
        def decide(draft: Draft, around: Surroundings) -> ErrorCode:
            return classic_members.heartbeat(draft, request)

        try:
            return shard.consumer.look(request.group_id, decide)
        except KafkaError as error:
            return coordinator_error(error)

    async def _leave_consumer(
        self, shard: GroupShard, group_id: str, leaving: Sequence[MemberIdentity]
    ) -> list[MemberResponse] | None:
        """The answers to a LeaveGroup on a consumer group; None: there is none (any more). Raises KafkaError."""

        def decide(draft: Draft, around: Surroundings) -> list[MemberResponse] | None:
            return None if draft.group is None else classic_members.leave(draft, leaving, around)

        while shard.consumer.concerns(group_id):
            answer = await shard.consumer.decide(group_id, decide)
            if answer is not None:
                return answer
        return None

    # ---------------------------------------------------------------- inside

    async def _delete_new(self, shard: GroupShard, runtime: NewRuntime, group_id: str) -> ErrorCode:
        """Delete an empty group of a new protocol and its offsets. Raises KafkaError from the append."""

        def decide(draft: GroupDraft[Any, Any, Any], around: object) -> ErrorCode:
            if draft.group is None:
                return ErrorCode.GROUP_ID_NOT_FOUND
            if draft.group.members:
                return ErrorCode.NON_EMPTY_GROUP
            draft.add_encoded(shard.offsets.delete_group(group_id))
            draft.delete()
            return ErrorCode.NONE

        code: ErrorCode = await runtime.decide(group_id, decide)
        return code

    def _new_uuid(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))
