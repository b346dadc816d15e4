"""ListGroupsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


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
