"""ListGroupsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class ListedGroup:
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class ListGroupsResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    groups: Sequence[ListedGroup] = ()


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
