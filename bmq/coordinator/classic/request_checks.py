"""Checks the requests to a classic group: the member, its generation, its commits of offsets. Decisions only.

Source: Kafka's ClassicGroup (4.x).
"""

from __future__ import annotations

from typing import Protocol

from bmq.coordinator.classic.effects import GroupState
from bmq.coordinator.classic.roster import Roster
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.sync_group_request import SyncGroupRequest


class CheckedGroup(Protocol):
    """The part of a group that the checks read."""

    @property
    def state(self) -> GroupState: ...
    @property
    def generation(self) -> int: ...
    @property
    def protocol_type(self) -> str | None: ...
    @property
    def protocol_name(self) -> str | None: ...
    @property
    def members(self) -> Roster: ...


def check_offset_commit(
    group: CheckedGroup, member_id: str, instance_id: str | None, generation: int, loop_ms: float
) -> ErrorCode:
    """Whether this member may commit offsets; a commit also renews its session."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation < 0 and not member_id and instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = check_member(group, member_id, instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    group.members.by_id[member_id].touch(loop_ms)
    return ErrorCode.NONE


def check_transactional_commit(
    group: CheckedGroup, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    """Whether this member may commit offsets in a transaction, which is allowed during a rebalance too (KIP-447).

    Before version 3 producers could not name a member.
    """
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and (group.state is GroupState.EMPTY or (not member_id and instance_id is None)):
        return ErrorCode.NONE
    error = check_member(group, member_id, instance_id)
    if error is ErrorCode.NONE and generation != group.generation:
        error = ErrorCode.ILLEGAL_GENERATION
    return error


def check_member(group: CheckedGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether the group has this member, under this instance id if one is named."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return group.members.check(member_id, instance_id)


def check_sync(group: CheckedGroup, request: SyncGroupRequest) -> ErrorCode:
    """Whether the SyncGroup is of a member of this generation and protocol."""
    error = check_member(group, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    for asked, ours in ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name)):
        if asked is not None and ours is not None and asked != ours:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE
