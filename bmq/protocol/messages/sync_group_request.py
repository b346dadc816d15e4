"""SyncGroupRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class SyncGroupRequestAssignment:
    member_id: str = ""
    assignment: bytes = b""


@dataclasses.dataclass(slots=True, kw_only=True)
class SyncGroupRequest:
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Sequence[SyncGroupRequestAssignment] = ()


_SYNC_GROUP_REQUEST_ASSIGNMENT: Final = Format(
    SyncGroupRequestAssignment,
    version_min=0,
    version_max=5,
    flexible_from=4,
    fields=(
        FormatField("member_id", "string"),
        FormatField("assignment", "bytes"),
    ),
)
FORMAT: Final = Format(
    SyncGroupRequest,
    version_min=0,
    version_max=5,
    flexible_from=4,
    fields=(
        FormatField("group_id", "string"),
        FormatField("generation_id", "int32"),
        FormatField("member_id", "string"),
        FormatField("group_instance_id", "string", since=3, nullable_since=0),
        FormatField("protocol_type", "string", since=5, nullable_since=0),
        FormatField("protocol_name", "string", since=5, nullable_since=0),
        FormatField("assignments", entity=_SYNC_GROUP_REQUEST_ASSIGNMENT, is_array=True),
    ),
)
