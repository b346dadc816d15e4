"""DeleteGroupsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class DeletableGroupResult:
    group_id: str = ""
    error_code: int = 0
    error_message: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteGroupsResponse:
    throttle_time_ms: int = 0
    results: Sequence[DeletableGroupResult] = ()
