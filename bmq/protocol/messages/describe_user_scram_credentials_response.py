"""DescribeUserScramCredentialsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CredentialInfo(Message):
    """A part of DescribeUserScramCredentialsResponse."""

    mechanism: int
    iterations: int

    def __init__(
        self,
        *,
        mechanism: int = 0,
        iterations: int = 0,
    ) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeUserScramCredentialsResult(Message):
    """A part of DescribeUserScramCredentialsResponse."""

    user: str
    error_code: int
    error_message: str | None
    credential_infos: Sequence[CredentialInfo]

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = None,
        credential_infos: Sequence[CredentialInfo] = (),
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = credential_infos


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeUserScramCredentialsResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: Sequence[DescribeUserScramCredentialsResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        results: Sequence[DescribeUserScramCredentialsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = results


_CREDENTIAL_INFO: Final = Format(
    CredentialInfo,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("mechanism", "int8"),
        FormatField("iterations", "int32"),
    ),
)
_DESCRIBE_USER_SCRAM_CREDENTIALS_RESULT: Final = Format(
    DescribeUserScramCredentialsResult,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("user", "string"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("credential_infos", entity=_CREDENTIAL_INFO, is_array=True),
    ),
)
FORMAT: Final = Format(
    DescribeUserScramCredentialsResponse,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("results", entity=_DESCRIBE_USER_SCRAM_CREDENTIALS_RESULT, is_array=True),
    ),
)
