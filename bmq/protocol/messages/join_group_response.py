"""JoinGroupResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class JoinGroupResponseMember(Message):
    """A part of JoinGroupResponse."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class JoinGroupResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: Sequence[JoinGroupResponseMember]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: Sequence[JoinGroupResponseMember] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = members


_JOIN_GROUP_RESPONSE_MEMBER: Final = Format(
    JoinGroupResponseMember,
    version_min=0,
    version_max=9,
    flexible_from=6,
    fields=(
        FormatField("member_id", "string"),
        FormatField("group_instance_id", "string", since=5, nullable_since=0),
        FormatField("metadata", "bytes"),
    ),
)
FORMAT: Final = Format(
    JoinGroupResponse,
    version_min=0,
    version_max=9,
    flexible_from=6,
    fields=(
        FormatField("throttle_time_ms", "int32", since=2),
        FormatField("error_code", "int16"),
        FormatField("generation_id", "int32"),
        FormatField("protocol_type", "string", since=7, nullable_since=0),
        FormatField("protocol_name", "string", since=7, nullable_since=0),
        FormatField("protocol_name", "string", until=6),
        FormatField("leader", "string"),
        FormatField("skip_assignment", "bool", since=9),
        FormatField("member_id", "string"),
        FormatField("members", entity=_JOIN_GROUP_RESPONSE_MEMBER, is_array=True),
    ),
)
