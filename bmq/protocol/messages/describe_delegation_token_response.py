"""DescribeDelegationTokenResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribedDelegationTokenRenewer(Message):
    """A part of DescribeDelegationTokenResponse."""

    principal_type: str
    principal_name: str

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribedDelegationToken(Message):
    """A part of DescribeDelegationTokenResponse."""

    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    token_id: str
    hmac: bytes
    renewers: Sequence[DescribedDelegationTokenRenewer]

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        renewers: Sequence[DescribedDelegationTokenRenewer] = (),
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers = renewers


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeDelegationTokenResponse(Message):
    """The message."""

    error_code: int
    tokens: Sequence[DescribedDelegationToken]
    throttle_time_ms: int

    def __init__(
        self,
        *,
        error_code: int = 0,
        tokens: Sequence[DescribedDelegationToken] = (),
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.tokens = tokens
        self.throttle_time_ms = throttle_time_ms


_DESCRIBED_DELEGATION_TOKEN_RENEWER: Final = Format(
    DescribedDelegationTokenRenewer,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("principal_type", "string"),
        FormatField("principal_name", "string"),
    ),
)
_DESCRIBED_DELEGATION_TOKEN: Final = Format(
    DescribedDelegationToken,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("principal_type", "string"),
        FormatField("principal_name", "string"),
        FormatField("token_requester_principal_type", "string", since=3),
        FormatField("token_requester_principal_name", "string", since=3),
        FormatField("issue_timestamp", "int64"),
        FormatField("expiry_timestamp", "int64"),
        FormatField("max_timestamp", "int64"),
        FormatField("token_id", "string"),
        FormatField("hmac", "bytes"),
        FormatField("renewers", entity=_DESCRIBED_DELEGATION_TOKEN_RENEWER, is_array=True),
    ),
)
FORMAT: Final = Format(
    DescribeDelegationTokenResponse,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("tokens", entity=_DESCRIBED_DELEGATION_TOKEN, is_array=True),
        FormatField("throttle_time_ms", "int32"),
    ),
)
