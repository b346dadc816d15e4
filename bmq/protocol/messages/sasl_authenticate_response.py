"""SaslAuthenticateResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class SaslAuthenticateResponse(Message):
    """The message."""

    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms


FORMAT: Final = Format(
    SaslAuthenticateResponse,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("auth_bytes", "bytes"),
        FormatField("session_lifetime_ms", "int64", since=1),
    ),
)
