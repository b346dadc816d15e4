"""Effects of a group: what its runtime has to do, and the answers it gives."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from bmq.coordinator.classic.member import Caller, Member, Protocols
from bmq.dataclass import dataclass
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.group_records import GroupMetadataValue
from bmq.protocol.messages.join_group_request import JoinGroupRequest
from bmq.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from bmq.protocol.messages.sync_group_response import SyncGroupResponse


class GroupState(StrEnum):
    """Names as Kafka shows them to clients."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"


class Joining(NamedTuple):
    """A JoinGroup and its sender. `new_member_uuid` is used if a member id has to be made."""

    request: JoinGroupRequest
    protocols: Protocols
    caller: Caller
    api_version: int
    client_id: str
    client_host: str
    new_member_uuid: str

    def grows_by_bytes(self, before: Member | None) -> int:
        """Memory that it takes more than what this member said before."""
        new = self.member(self.request.member_id).size_bytes + len(self.new_member_uuid)
        if not self.request.member_id:
            new += len(self.request.group_instance_id or self.client_id)
        return new - (0 if before is None else before.size_bytes + len(self.new_member_uuid))

    def member(self, member_id: str) -> Member:
        """A new member made from this request."""
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
    """Give `response` to the waiting caller."""

    caller: Caller
    response: JoinGroupResponse | SyncGroupResponse


@dataclass(frozen=True, slots=True)
class Replacement:
    """A static member got a new member id while the group was stable; its answer waits until that is durable."""

    new_member_id: str
    can_skip_assignment: bool
    leader_before: str | None


@dataclass(frozen=True, slots=True)
class Persist:
    """Write `value`. Once durable, `replay(value)` and then `persisted` are called; if refused, `persist_failed`."""

    value: GroupMetadataValue
    replacement: Replacement | None = None


Effect = Answer | Persist
Effects = list[Effect]


def join_error(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id)


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)


def answer_sync(member: Member, response: SyncGroupResponse) -> Effects:
    """Answer the caller that waits for this member's assignment, if there is one."""
    caller, member.sync_caller = member.sync_caller, None
    return [] if caller is None else [Answer(caller, response)]


def roster_for_leader(members: Iterable[Member], protocol_name: str | None) -> tuple[JoinGroupResponseMember, ...]:
    """The members and their metadata, which the leader needs to assign."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(protocol_name),
        )
        for member in members
    )
