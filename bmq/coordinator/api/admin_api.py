"""The coordinator's APIs about groups of every kind: ListGroups, DescribeGroups, DeleteGroups."""

from __future__ import annotations

import asyncio
from typing import Any

from bmq.coordinator.api.authorized_operations import AUTHORIZED_OPERATIONS
from bmq.coordinator.api.context import CoordinatorContext
from bmq.coordinator.api.share_states_api import ShareStatesApi
from bmq.coordinator.classic.effects import GroupState
from bmq.coordinator.classic.group import CLASSIC
from bmq.coordinator.consumer.consumer_group import CONSUMER
from bmq.coordinator.group_shard import GroupShard, NewRuntime
from bmq.coordinator.modern.group_draft import GroupDraft
from bmq.coordinator.runtime.log_errors import coordinator_error, deletion_error
from bmq.coordinator.share_membership.offsets import all_topics
from bmq.coordinator.share_membership.share_group import SHARE
from bmq.coordinator.streams.streams_group import STREAMS
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
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from bmq.protocol.request_context import RequestContext
from bmq.protocol.turns import Pace, in_turns


class GroupAdminApi:
    """Lists, describes and deletes groups."""

    def __init__(self, context: CoordinatorContext, share_states: ShareStatesApi) -> None:
        self._context = context
        self._share_states = share_states

    async def list_groups(self, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        """ListGroups 0-5: the groups of every shard this process owns; empty while there is no offsets topic."""
        states, kinds = set[str](), set[str]()
        async for some in in_turns(request.states_filter, context.turns):
            states.update(state.strip().lower() for state in some)
        async for some in in_turns(request.types_filter, context.turns):
            kinds.update(kind.strip().lower() for kind in some)
        kinds = kinds or {CLASSIC, CONSUMER, STREAMS, SHARE}
        try:
            shards = await self._context.directory.all() if self._context.has_offsets_topic() else []
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
                shard, _ = await self._context.with_group(group_id)
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
                shard, _ = await self._context.with_group(group_id)
                if shard.may_be_new(group_id):
                    writes[group_id] = asyncio.ensure_future(self._delete_in_turn(shard, group_id))
                else:
                    writes[group_id] = _delete(group_id, shard)
            except KafkaError as error:
                _fail(results[group_id], error)
        for group_id, write in writes.items():
            try:
                written = await asyncio.shield(write)
                if isinstance(written, ErrorCode) and written is not ErrorCode.NONE:
                    _fail(results[group_id], KafkaError(written, f"Group {group_id} cannot be deleted."))
            except BmqError as error:
                results[group_id].error_code = deletion_error(error)
                results[group_id].error_message = str(error)
        return DeleteGroupsResponse(results=list(results.values()))

    async def _delete_in_turn(self, shard: GroupShard, group_id: str) -> ErrorCode:
        """Delete a group that is of a new protocol, or may become one by a decision under way.

        Raises KafkaError from the append.
        """
        for runtime in (shard.consumer, shard.streams, shard.share):
            while runtime.concerns(group_id):
                if runtime is shard.share and shard.share.find(group_id) is not None:
                    code = await self._delete_share_states(shard, group_id)
                    if code is not ErrorCode.NONE:
                        return code
                code = await _delete_new(shard, runtime, group_id)
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

    async def _delete_share_states(self, shard: GroupShard, group_id: str) -> ErrorCode:
        """Delete the state of an empty share group's partitions; a failure leaves the group."""
        try:
            topics = await shard.share.decide(group_id, lambda draft, _: all_topics(draft))
            codes = await self._share_states.delete(shard, group_id, topics) if topics else {}
        except KafkaError as error:
            return coordinator_error(error)
        return next((code for code in codes.values() if code is not ErrorCode.NONE), ErrorCode.NONE)


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


async def _delete_new(shard: GroupShard, runtime: NewRuntime, group_id: str) -> ErrorCode:
    """Delete an empty group of a new protocol and its offsets. Raises KafkaError from the append."""

    def decide(draft: GroupDraft[Any, Any, Any], context: object) -> ErrorCode:
        if draft.group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if draft.group.members:
            return ErrorCode.NON_EMPTY_GROUP
        draft.add_encoded(shard.offsets.delete_group(group_id))
        draft.delete()
        return ErrorCode.NONE

    code: ErrorCode = await runtime.decide(group_id, decide)
    return code


def _fail(result: DeletableGroupResult, error: KafkaError) -> None:
    result.error_code = coordinator_error(error)
    result.error_message = str(error)
