"""LeaveGroupResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class MemberResponse:
    member_id: str = ""
    group_instance_id: str | None = None
    error_code: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class LeaveGroupResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    members: Sequence[MemberResponse] = ()
