"""LeaveGroupRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class MemberIdentity:
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class LeaveGroupRequest:
    group_id: str = ""
    members: Sequence[MemberIdentity] = ()
    member_id: str = ""
