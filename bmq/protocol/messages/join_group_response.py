"""JoinGroupResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class JoinGroupResponseMember:
    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""


@dataclasses.dataclass(slots=True, kw_only=True)
class JoinGroupResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: Sequence[JoinGroupResponseMember] = ()


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
