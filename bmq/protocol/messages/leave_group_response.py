"""LeaveGroupResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


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


_MEMBER_RESPONSE: Final = Format(
    MemberResponse,
    version_min=0,
    version_max=5,
    flexible_from=4,
    fields=(
        FormatField("member_id", "string", since=3),
        FormatField("group_instance_id", "string", since=3, nullable_since=0),
        FormatField("error_code", "int16", since=3),
    ),
)
FORMAT: Final = Format(
    LeaveGroupResponse,
    version_min=0,
    version_max=5,
    flexible_from=4,
    fields=(
        FormatField("throttle_time_ms", "int32", since=1),
        FormatField("error_code", "int16"),
        FormatField("members", since=3, entity=_MEMBER_RESPONSE, is_array=True),
    ),
)
