"""LeaveGroupResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class MemberResponse(Message):
    """A part of LeaveGroupResponse."""

    member_id: str
    group_instance_id: str | None
    error_code: int

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class LeaveGroupResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    members: Sequence[MemberResponse]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: Sequence[MemberResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = members


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
