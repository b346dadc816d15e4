"""DeleteGroupsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeletableGroupResult(Message):
    """A part of DeleteGroupsResponse."""

    group_id: str
    error_code: int
    error_message: str | None

    def __init__(
        self,
        *,
        group_id: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code
        self.error_message = error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteGroupsResponse(Message):
    """The message."""

    throttle_time_ms: int
    results: Sequence[DeletableGroupResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: Sequence[DeletableGroupResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


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
