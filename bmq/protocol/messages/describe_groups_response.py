"""DescribeGroupsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribedGroupMember(Message):
    """A part of DescribeGroupsResponse."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribedGroup(Message):
    """A part of DescribeGroupsResponse."""

    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: Sequence[DescribedGroupMember]
    authorized_operations: int

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: Sequence[DescribedGroupMember] = (),
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = members
        self.authorized_operations = authorized_operations


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeGroupsResponse(Message):
    """The message."""

    throttle_time_ms: int
    groups: Sequence[DescribedGroup]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: Sequence[DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups


_DESCRIBED_GROUP_MEMBER: Final = Format(
    DescribedGroupMember,
    version_min=0,
    version_max=6,
    flexible_from=5,
    fields=(
        FormatField("member_id", "string"),
        FormatField("group_instance_id", "string", since=4, nullable_since=0),
        FormatField("client_id", "string"),
        FormatField("client_host", "string"),
        FormatField("member_metadata", "bytes"),
        FormatField("member_assignment", "bytes"),
    ),
)
_DESCRIBED_GROUP: Final = Format(
    DescribedGroup,
    version_min=0,
    version_max=6,
    flexible_from=5,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", since=6, nullable_since=0),
        FormatField("group_id", "string"),
        FormatField("group_state", "string"),
        FormatField("protocol_type", "string"),
        FormatField("protocol_data", "string"),
        FormatField("members", entity=_DESCRIBED_GROUP_MEMBER, is_array=True),
        FormatField("authorized_operations", "int32", since=3),
    ),
)
FORMAT: Final = Format(
    DescribeGroupsResponse,
    version_min=0,
    version_max=6,
    flexible_from=5,
    fields=(
        FormatField("throttle_time_ms", "int32", since=1),
        FormatField("groups", entity=_DESCRIBED_GROUP, is_array=True),
    ),
)
