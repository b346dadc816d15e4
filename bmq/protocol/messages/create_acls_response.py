"""CreateAclsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AclCreationResult(Message):
    """A part of CreateAclsResponse."""

    error_code: int
    error_message: str | None

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreateAclsResponse(Message):
    """The message."""

    throttle_time_ms: int
    results: Sequence[AclCreationResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: Sequence[AclCreationResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


_ACL_CREATION_RESULT: Final = Format(
    AclCreationResult,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
    ),
)
FORMAT: Final = Format(
    CreateAclsResponse,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("results", entity=_ACL_CREATION_RESULT, is_array=True),
    ),
)
