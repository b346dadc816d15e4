"""LeaveGroupRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


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


_MEMBER_IDENTITY: Final = Format(
    MemberIdentity,
    version_min=0,
    version_max=5,
    flexible_from=4,
    fields=(
        FormatField("member_id", "string", since=3),
        FormatField("group_instance_id", "string", since=3, nullable_since=0),
        FormatField("reason", "string", since=5, nullable_since=0),
    ),
)
FORMAT: Final = Format(
    LeaveGroupRequest,
    version_min=0,
    version_max=5,
    flexible_from=4,
    fields=(
        FormatField("group_id", "string"),
        FormatField("members", since=3, entity=_MEMBER_IDENTITY, is_array=True),
        FormatField("member_id", "string", until=2),
    ),
)
