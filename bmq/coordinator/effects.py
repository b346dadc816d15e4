"""What a group is told, what it asks its runtime to do, and the answers it gives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from bmq.coordinator.member import Caller, Member, Protocols
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.group_records import GroupMetadataValue
from bmq.protocol.messages.join_group_request import JoinGroupRequest
from bmq.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from bmq.protocol.messages.sync_group_response import SyncGroupResponse


class GroupState(StrEnum):
    """As Kafka names them to clients."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"


class Moment(NamedTuple):
    """Now: on the event loop's clock (deadlines) and on the wall (what the log keeps)."""

    loop_ms: float
    wall_ms: int


class Joining(NamedTuple):
    """A JoinGroup and who sent it. `new_member_uuid` is used if a member id has to be made."""

    request: JoinGroupRequest
    protocols: Protocols
    caller: Caller
    api_version: int
    client_id: str
    client_host: str
    new_member_uuid: str

    def member(self, member_id: str) -> Member:
        """The new member it makes."""
        request = self.request
        member = Member(
            member_id,
            request.group_instance_id,
            self.client_id,
            self.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            self.protocols,
        )
        member.is_new = True
        return member


@dataclass(frozen=True, slots=True)
class Answer:
    """Give `response` to who waits."""

    caller: Caller
    response: JoinGroupResponse | SyncGroupResponse


@dataclass(frozen=True, slots=True)
class Replacement:
    """A static member got a new member id while the group was stable, and waits for that to be durable."""

    new_member_id: str
    can_skip_assignment: bool
    leader_before: str | None


@dataclass(frozen=True, slots=True)
class Persist:
    """Write `value`; when durable `replay(value)` runs, then `persisted`; when refused `persist_failed`."""

    value: GroupMetadataValue
    replacement: Replacement | None = None


Effect = Answer | Persist
Effects = list[Effect]


def join_error(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id)


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)


def answer_sync(member: Member, response: SyncGroupResponse) -> Effects:
    """Tell who waits for this member's assignment, if anybody does."""
    caller, member.sync_caller = member.sync_caller, None
    return [] if caller is None else [Answer(caller, response)]


def roster_for_leader(members: Iterable[Member], protocol_name: str | None) -> tuple[JoinGroupResponseMember, ...]:
    """All a leader needs for assigning."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(protocol_name),
        )
        for member in members
    )
