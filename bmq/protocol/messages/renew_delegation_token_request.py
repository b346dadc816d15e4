"""RenewDelegationTokenRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class RenewDelegationTokenRequest(Message):
    """The message."""

    hmac: bytes
    renew_period_ms: int

    def __init__(
        self,
        *,
        hmac: bytes = b"",
        renew_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.renew_period_ms = renew_period_ms


FORMAT: Final = Format(
    RenewDelegationTokenRequest,
    version_min=1,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("hmac", "bytes"),
        FormatField("renew_period_ms", "int64"),
    ),
)
