"""SaslAuthenticateRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class SaslAuthenticateRequest(Message):
    """The message."""

    auth_bytes: bytes

    def __init__(
        self,
        *,
        auth_bytes: bytes = b"",
    ) -> None:
        self.auth_bytes = auth_bytes


FORMAT: Final = Format(
    SaslAuthenticateRequest,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(FormatField("auth_bytes", "bytes"),),
)
