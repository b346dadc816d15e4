"""JoinGroupResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


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
