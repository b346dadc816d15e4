"""AlterUserScramCredentialsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterUserScramCredentialsResult(Message):
    """A part of AlterUserScramCredentialsResponse."""

    user: str
    error_code: int
    error_message: str | None

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterUserScramCredentialsResponse(Message):
    """The message."""

    throttle_time_ms: int
    results: Sequence[AlterUserScramCredentialsResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: Sequence[AlterUserScramCredentialsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


_ALTER_USER_SCRAM_CREDENTIALS_RESULT: Final = Format(
    AlterUserScramCredentialsResult,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("user", "string"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
    ),
)
FORMAT: Final = Format(
    AlterUserScramCredentialsResponse,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("results", entity=_ALTER_USER_SCRAM_CREDENTIALS_RESULT, is_array=True),
    ),
)
