"""The group coordinator: one method per Kafka API, message in, message out. Errors are returned in answers, not raised.

It finds the group's shard, lets group.py and offsets.py decide, and answers once the answer's records are durable.
Error codes and the differences between versions are those of Apache Kafka's GroupCoordinatorService and KafkaApis (4.x).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakSet

from bmq.coordinator.classic.effects import GroupState, Joining, join_error, sync_error
from bmq.coordinator.classic.group import CLASSIC, Group
from bmq.coordinator.classic.member import Caller, distinct_protocols
from bmq.coordinator.classic.member_memory import GROUP_BYTES, MemberMemory
from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.consumer.consumer_group import CONSUMER, ConsumerGroupState
from bmq.coordinator.consumer_api import AUTHORIZED_OPERATIONS, Dice
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.metrics import GroupMetrics
from bmq.coordinator.runtime.directory import ShardDirectory, Shards
from bmq.coordinator.runtime.log_errors import coordinator_error, deletion_error
from bmq.coordinator.streams.streams_group import STREAMS, StreamsGroupState
from bmq.coordinator.streams_api import StreamsApi
from bmq.coordinator.topics import CurrentTopics
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog
from bmq.log.transactions import TransactionVerifier
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError, as_message
from bmq.protocol.group_records import GroupMetadataKey, encode_key
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.heartbeat_response import HeartbeatResponse
from bmq.protocol.messages.join_group_request import JoinGroupRequest
from bmq.protocol.messages.join_group_response import JoinGroupResponse
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from bmq.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from bmq.protocol.messages.sync_group_response import SyncGroupResponse
from bmq.protocol.request_context import RequestContext, RequestMethod
from bmq.protocol.turns import Pace, in_turns

_CLOSE_SNAPSHOT_RECORDS_MIN: Final = 1_000
_GO_ON: Final = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
_REFUSALS: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
)


class GroupCoordinator(StreamsApi):
    """All groups whose shards this process owns. Create it inside its event loop."""

    def __init__(
        self,
        shards: Shards,
        clock: Clock,
        rng: Dice,
        config: CoordinatorConfig,
        image: CurrentTopics,
        *,
        verifier: TransactionVerifier | None = None,
        create_topics: RequestMethod | None = None,
    ) -> None:
        self.metrics = GroupMetrics(self._groups_by_state, self._offset_count)
        self.memory = MemberMemory(config.members_bytes_max)
        self._made: WeakSet[GroupShard] = WeakSet()  # those that are loading, too

        def make(number: int, log: ReplayableLog, on_lost: Callable[[GroupShard], None]) -> GroupShard:
            shard = GroupShard(
                number, log, clock, self.config, self.metrics, image, on_lost, create_topics, self.memory
            )
            self._made.add(shard)
            return shard

        directory = ShardDirectory(GroupShard.kind, shards, make, config)
        super().__init__(directory, clock, rng, config, image, self.metrics, verifier)
        self._loop = asyncio.get_running_loop()
        self._handlers: Final[Mapping[ApiKey, RequestMethod]] = {
            ApiKey.JOIN_GROUP: self.join_group,
            ApiKey.SYNC_GROUP: self.sync_group,
            ApiKey.HEARTBEAT: self.heartbeat,
            ApiKey.LEAVE_GROUP: self.leave_group,
            ApiKey.LIST_GROUPS: self.list_groups,
            ApiKey.DESCRIBE_GROUPS: self.describe_groups,
            ApiKey.DELETE_GROUPS: self.delete_groups,
            ApiKey.OFFSET_COMMIT: self.offset_commit,
            ApiKey.OFFSET_FETCH: self.offset_fetch,
            ApiKey.OFFSET_DELETE: self.offset_delete,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self.consumer_group_heartbeat,
            ApiKey.CONSUMER_GROUP_DESCRIBE: self.consumer_group_describe,
            ApiKey.STREAMS_GROUP_HEARTBEAT: self.streams_group_heartbeat,
            ApiKey.STREAMS_GROUP_DESCRIBE: self.streams_group_describe,
            ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: self.streams_group_topology_description_update,
            ApiKey.TXN_OFFSET_COMMIT: self.txn_offset_commit,
        }

    def reconfigure(self, config: CoordinatorConfig) -> None:
        """From now on: what groups of the newer protocols decide, and how long records may be. The rest stays."""
        self.config = config
        for shard in self._made:
            shard.reconfigure(config)

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """Answer a request of the GROUP route.

        Raises KafkaError NOT_COORDINATOR when the request was forwarded for another leader epoch of the shard than the
        present one: a commit delayed on a connection could overwrite newer ones.
        """
        if context.leader_epoch >= 0:
            await self._require_leader_epoch(getattr(request, "group_id", ""), context.leader_epoch)
        return await self._handlers[api_key](request, context)

    async def prepare(self, group_id: str) -> None:
        """Load the group's shard, creating the offsets topic if there is none. Raises KafkaError (FindCoordinator)."""
        await self.directory.get(group_id)

    async def _require_leader_epoch(self, group_id: str, leader_epoch: int) -> None:
        shard = self.directory.find(group_id)
        if shard is None and group_id:
            with contextlib.suppress(KafkaError):  # the API's own handler reports it
                shard = await self._existing(group_id)
        if shard is not None and group_id and shard.state_log.log.leader_epoch != leader_epoch:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR,
                f"the group's shard has the leader epoch {shard.state_log.log.leader_epoch}, not {leader_epoch}",
            )

    def resign(self, shard: int) -> None:
        """The shard's partition has another owner now."""
        self.directory.resign(shard)

    def stood_still(self) -> None:
        """This process was stalled: members must not be expired for heartbeats that it could not read."""
        for shard in self.directory.ready.values():
            shard.stood_still()

    async def close(self) -> None:
        """Answer all waiting requests with an error and stop."""
        await self.directory.close(snapshot_records_min=_CLOSE_SNAPSHOT_RECORDS_MIN)

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Delete the offsets of deleted topics; shards that are not loaded hide them by topic id until they expire."""
        doomed = frozenset(names)
        for shard in self.directory.ready.values():
            records = shard.offsets.delete_topics(doomed)
            if records:
                shard.append(records)

    # ---------------------------------------------------------------- membership

    async def join_group(self, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
        """JoinGroup 0-9. Waits until the group's next generation begins."""
        response = await self._join(request, context)
        if response.protocol_name is None and context.api_version < 7:
            response.protocol_name = ""
        return response

    async def _join(self, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
        if not request.group_id:
            return join_error(ErrorCode.INVALID_GROUP_ID, request.member_id)
        config = self.config
        if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
            return join_error(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        if request.rebalance_timeout_ms < 0:
            request.rebalance_timeout_ms = request.session_timeout_ms  # v0 has no such field
        if len(request.protocols) > config.group_protocols_max:
            return join_error(ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id)
        try:
            shard = await self.directory.get(request.group_id)
        except KafkaError as error:
            return join_error(coordinator_error(error), request.member_id)
        # Kafka shows hosts as Java's InetAddress does, with a slash in front; tools expect it.
        caller: Caller = self._loop.create_future()
        joining = Joining(
            request,
            distinct_protocols(request.protocols),
            caller,
            context.api_version,
            client_id=context.client_id or "",
            client_host=f"/{context.client_host}",
            new_member_uuid=self._new_uuid(),
        )
        if self._can_never_be_written(joining):
            return join_error(ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id)
        asked_ms = shard.elapsed_ms()
        try:
            answer = await self._join_of_any_kind(shard, joining)
            await _require_owner_to_join(shard, answer.error_code, asked_ms)
        except KafkaError as error:
            return join_error(coordinator_error(error), request.member_id)
        return answer

    def _can_never_be_written(self, joining: Joining) -> bool:
        """Whether the group's record would be too large with this member alone, whatever the group's protocol. Kafka lets
        it join, and refuses the record with this code once the leader has sent the assignments."""
        member_id = joining.request.member_id or joining.new_member_uuid
        names = (member_id, joining.request.group_instance_id or "", joining.client_id, joining.client_host)
        smallest_bytes = min((len(metadata) for _, metadata in joining.protocols), default=0)
        return smallest_bytes + sum(map(len, names)) > self.config.message_max_bytes

    async def _join_of_any_kind(self, shard: GroupShard, joining: Joining) -> JoinGroupResponse:
        request = joining.request
        try:
            await self._make_room_for_classic(shard, request.group_id, request.member_id)
            return await self._join_consumer(shard, joining) or await self._join_classic(shard, joining)
        except KafkaError as error:
            return join_error(coordinator_error(error), request.member_id)

    async def _join_classic(self, shard: GroupShard, joining: Joining) -> JoinGroupResponse:
        """Raises KafkaError."""
        request = joining.request
        group = shard.groups.get(request.group_id)
        if group is None:
            if request.member_id:
                return join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            if shard.group_count >= self.config.groups_per_shard_max:
                return join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
            if not shard.memory.has_room(joining.grows_by_bytes(None) + len(request.group_id) + GROUP_BYTES):
                return join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
            group = shard.groups[request.group_id] = Group(request.group_id, self.config)
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
            shard = await self._existing(request.group_id)
        except KafkaError as error:
            return sync_error(coordinator_error(error))
        asked_ms = shard.elapsed_ms()
        try:
            answer = await self._sync(shard, request)
            await _require_owner(shard, answer.error_code, asked_ms)
        except KafkaError as error:
            return sync_error(coordinator_error(error))
        return answer

    async def _sync(self, shard: GroupShard, request: SyncGroupRequest) -> SyncGroupResponse:
        """Raises KafkaError."""
        group = shard.groups.get(request.group_id)
        if group is None:
            if shard.consumer.find(request.group_id) is not None:
                return self._sync_consumer(shard, request)
            return sync_error(ErrorCode.UNKNOWN_MEMBER_ID)
        caller: Caller = self._loop.create_future()
        shard.perform(group, group.sync(request, caller, shard.now()))
        answer: SyncGroupResponse = await shard.answer_of(caller)
        return answer

    async def heartbeat(self, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        """Heartbeat 0-4."""
        group_id = request.group_id
        if not group_id:
            return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        shard = self.directory.find(group_id)
        if shard is None:
            try:
                shard = await self._existing(group_id)
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
                loop_ms = self._loop.time() * 1000
                code = group.heartbeat(request.member_id, request.group_instance_id, request.generation_id, loop_ms)
            elif shard.consumer.find(group_id) is not None:
                code = self._heartbeat_consumer(shard, request)
            else:
                code = ErrorCode.UNKNOWN_MEMBER_ID
            await _require_owner(shard, code, asked_ms)
        except KafkaError as error:
            code = coordinator_error(error)
        return HeartbeatResponse(error_code=code)

    async def leave_group(self, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
        """LeaveGroup 0-5; before v3 it names one member, whose error is the answer's."""
        is_single = context.api_version < 3
        leaving = [MemberIdentity(member_id=request.member_id)] if is_single else request.members
        if not request.group_id:
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        asked_ms = self._clock.elapsed_s() * 1000
        try:
            shard = await self._existing(request.group_id)
            await shard.prove_since(asked_ms)  # a classic group writes nothing now that could be refused
            consumers = await self._leave_consumer(shard, request.group_id, leaving)
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

    # ---------------------------------------------------------------- administration

    async def list_groups(self, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        """ListGroups 0-5: the groups of every shard this process owns; empty while there is no offsets topic."""
        states, kinds = set[str](), set[str]()
        async for some in in_turns(request.states_filter, context.turns):
            states.update(state.strip().lower() for state in some)
        async for some in in_turns(request.types_filter, context.turns):
            kinds.update(kind.strip().lower() for kind in some)
        kinds = kinds or {CLASSIC, CONSUMER, STREAMS}
        try:
            shards = await self.directory.all() if self._has_offsets_topic() else []
        except KafkaError as error:
            return ListGroupsResponse(error_code=coordinator_error(error))
        listed = []
        pace = Pace()
        for shard in shards:
            for group_id in shard.group_ids():
                if pace.is_over():
                    await context.turns.next()
                    if shard.is_lost:
                        return ListGroupsResponse(error_code=ErrorCode.NOT_COORDINATOR)
                group = _listed(group_id, shard)
                if group.group_type in kinds and (not states or group.group_state.lower() in states):
                    listed.append(group)
        return ListGroupsResponse(groups=listed)

    async def describe_groups(self, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
        """DescribeGroups 0-6."""
        described = []
        for group_id in request.groups:
            try:
                shard, _ = await self._with_group(group_id)
            except KafkaError as error:
                described.append(DescribedGroup(group_id=group_id, error_code=coordinator_error(error)))
                continue
            answer = _described(group_id, shard, context.api_version)
            if request.include_authorized_operations and answer.error_code == ErrorCode.NONE:
                answer.authorized_operations = AUTHORIZED_OPERATIONS
            described.append(answer)
        return DescribeGroupsResponse(groups=described)

    async def delete_groups(self, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
        """DeleteGroups 0-3. Each group has its own error."""
        writes: dict[str, asyncio.Future[int] | asyncio.Future[ErrorCode]] = {}
        results = {}
        for group_id in dict.fromkeys(request.groups_names):
            results[group_id] = DeletableGroupResult(group_id=group_id)
            try:
                shard, _ = await self._with_group(group_id)
                if shard.may_be_new(group_id):
                    writes[group_id] = asyncio.ensure_future(self._delete_in_turn(shard, group_id))
                else:
                    writes[group_id] = _delete(group_id, shard)
            except KafkaError as error:
                _fail(results[group_id], error)
        for group_id, write in writes.items():
            try:
                told = await asyncio.shield(write)
                if isinstance(told, ErrorCode) and told is not ErrorCode.NONE:
                    _fail(results[group_id], KafkaError(told, f"Group {group_id} cannot be deleted."))
            except BmqError as error:
                results[group_id].error_code = deletion_error(error)
                results[group_id].error_message = str(error)
        return DeleteGroupsResponse(results=list(results.values()))

    # ---------------------------------------------------------------- inside

    async def _delete_in_turn(self, shard: GroupShard, group_id: str) -> ErrorCode:
        """Delete a group that is of a new protocol, or may become one by a decision under way.

        Raises KafkaError from the append.
        """
        for runtime in (shard.consumer, shard.streams):
            while runtime.concerns(group_id):
                code = await self._delete_new(shard, runtime, group_id)
                if code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    return code
        if shard.is_lost:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        try:
            deleted = _delete(group_id, shard)
        except KafkaError as error:
            return error.code
        await asyncio.shield(deleted)
        return ErrorCode.NONE

    def _groups_by_state(self) -> dict[str, int]:
        kinds = (*GroupState, *ConsumerGroupState, *StreamsGroupState)
        counts = {state.value: 0 for state in kinds if state is not GroupState.DEAD}
        for shard in self.directory.ready.values():
            counts[GroupState.EMPTY.value] += sum(
                group_id not in shard.groups
                and group_id not in shard.consumer.groups
                and group_id not in shard.streams.groups
                for group_id in shard.offsets.group_ids()
            )
            states = [group.state.value for group in shard.groups.values()]
            states += (group.state.value for group in shard.consumer.groups.values())
            states += (group.state.value for group in shard.streams.groups.values())
            for state in states:
                counts[state] += 1
        return counts

    def _offset_count(self) -> int:
        return sum(shard.offsets.count for shard in self.directory.ready.values())


async def _require_owner(shard: GroupShard, code: int, asked_ms: float) -> None:
    """Await this before telling a member that asked at `asked_ms` to go on (rule 34), or refusing it (rule 15).

    Raises KafkaError NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE.
    """
    if code in _REFUSALS or (code in _GO_ON and not shard.is_proven(asked_ms)):
        await shard.prove()


async def _require_owner_to_join(shard: GroupShard, code: int, asked_ms: float) -> None:
    """Await this before telling a member its generation, however recent the last proof is (rule 34).

    JoinGroup names no generation, so a former owner cannot notice that its own is old; SyncGroup would then return
    partitions that the member has revoked since. Raises KafkaError NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE.
    """
    if code == ErrorCode.NONE or code in _REFUSALS:
        await shard.prove_since(asked_ms)


def _listed(group_id: str, shard: GroupShard) -> ListedGroup:
    runtime, new = shard.find_new(group_id)
    if runtime is not None and new is not None:
        # The protocol type of a new group is named like its group type.
        return ListedGroup(
            group_id=group_id, protocol_type=runtime.kind, group_state=new.state.value, group_type=runtime.kind
        )
    group = shard.groups.get(group_id)
    return ListedGroup(
        group_id=group_id,
        protocol_type="" if group is None else group.protocol_type or "",
        group_state=(GroupState.EMPTY if group is None else group.state).value,
        group_type=CLASSIC,
    )


def _described(group_id: str, shard: GroupShard, api_version: int) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if group is not None:
        is_stable = group.state is GroupState.STABLE
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if is_stable else "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                    member_assignment=member.assignment if is_stable else b"",
                )
                for member in group.members
            ],
        )
    runtime, new = shard.find_new(group_id)
    if new is None and shard.offsets.has_group(group_id):
        return DescribedGroup(group_id=group_id, group_state=GroupState.EMPTY.value)
    if api_version >= 6:  # KIP-1043
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=as_message(f"Group {group_id} {'not found' if new is None else 'is not a classic group'}."),
        )
    protocol_type = "" if runtime is None else runtime.kind
    return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value, protocol_type=protocol_type)


def _delete(group_id: str, shard: GroupShard) -> asyncio.Future[int]:
    """Write the tombstones of a group and its offsets. Raises KafkaError when it must not be deleted."""
    if not shard.has_group(group_id):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    group = shard.groups.get(group_id)
    if group is not None and group.state is not GroupState.EMPTY:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group {group_id} is {group.state.value}.")
    records = shard.offsets.delete_group(group_id)
    records.append((encode_key(GroupMetadataKey(group=group_id)), None))
    return shard.append(records)


def _fail(result: DeletableGroupResult, error: KafkaError) -> None:
    result.error_code = coordinator_error(error)
    result.error_message = str(error)
