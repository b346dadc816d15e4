"""CreateDelegationTokenResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreateDelegationTokenResponse(Message):
    """The message."""

    error_code: int
    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    token_id: str
    hmac: bytes
    throttle_time_ms: int

    def __init__(
        self,
        *,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = -1,
        expiry_timestamp_ms: int = -1,
        max_timestamp_ms: int = -1,
        token_id: str = "",
        hmac: bytes = b"",
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms


FORMAT: Final = Format(
    CreateDelegationTokenResponse,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("principal_type", "string"),
        FormatField("principal_name", "string"),
        FormatField("token_requester_principal_type", "string", since=3),
        FormatField("token_requester_principal_name", "string", since=3),
        FormatField("issue_timestamp_ms", "int64"),
        FormatField("expiry_timestamp_ms", "int64"),
        FormatField("max_timestamp_ms", "int64"),
        FormatField("token_id", "string"),
        FormatField("hmac", "bytes"),
        FormatField("throttle_time_ms", "int32"),
    ),
)
