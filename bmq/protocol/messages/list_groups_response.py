"""ListGroupsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListedGroup(Message):
    """A part of ListGroupsResponse."""

    group_id: str
    protocol_type: str
    group_state: str
    group_type: str

    def __init__(
        self,
        *,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListGroupsResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    groups: Sequence[ListedGroup]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: Sequence[ListedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = groups


_LISTED_GROUP: Final = Format(
    ListedGroup,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("group_id", "string"),
        FormatField("protocol_type", "string"),
        FormatField("group_state", "string", since=4),
        FormatField("group_type", "string", since=5),
    ),
)
FORMAT: Final = Format(
    ListGroupsResponse,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("throttle_time_ms", "int32", since=1),
        FormatField("error_code", "int16"),
        FormatField("groups", entity=_LISTED_GROUP, is_array=True),
    ),
)
