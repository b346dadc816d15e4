"""DeleteGroupsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class DeletableGroupResult:
    group_id: str = ""
    error_code: int = 0
    error_message: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteGroupsResponse:
    throttle_time_ms: int = 0
    results: Sequence[DeletableGroupResult] = ()


_DELETABLE_GROUP_RESULT: Final = Format(
    DeletableGroupResult,
    version_min=0,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("group_id", "string"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", since=3, nullable_since=0),
    ),
)
FORMAT: Final = Format(
    DeleteGroupsResponse,
    version_min=0,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("results", entity=_DELETABLE_GROUP_RESULT, is_array=True),
    ),
)
