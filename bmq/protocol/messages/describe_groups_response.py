"""DescribeGroupsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribedGroupMember:
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribedGroup:
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: Sequence[DescribedGroupMember] = ()
    authorized_operations: int = -2147483648


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeGroupsResponse:
    throttle_time_ms: int = 0
    groups: Sequence[DescribedGroup] = ()


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
