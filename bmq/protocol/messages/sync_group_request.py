"""SyncGroupRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class SyncGroupRequestAssignment(Message):
    """A part of SyncGroupRequest."""

    member_id: str
    assignment: bytes

    def __init__(
        self,
        *,
        member_id: str = "",
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class SyncGroupRequest(Message):
    """The message."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Sequence[SyncGroupRequestAssignment]

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: Sequence[SyncGroupRequestAssignment] = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = assignments


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
