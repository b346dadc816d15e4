"""LeaveGroupRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class MemberIdentity(Message):
    """A part of LeaveGroupRequest."""

    member_id: str
    group_instance_id: str | None
    reason: str | None

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class LeaveGroupRequest(Message):
    """The message."""

    group_id: str
    members: Sequence[MemberIdentity]
    member_id: str

    def __init__(
        self,
        *,
        group_id: str = "",
        members: Sequence[MemberIdentity] = (),
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.members = members
        self.member_id = member_id


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
