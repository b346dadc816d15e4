"""ExpireDelegationTokenRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ExpireDelegationTokenRequest(Message):
    """The message."""

    hmac: bytes
    expiry_time_period_ms: int

    def __init__(
        self,
        *,
        hmac: bytes = b"",
        expiry_time_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms


FORMAT: Final = Format(
    ExpireDelegationTokenRequest,
    version_min=1,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("hmac", "bytes"),
        FormatField("expiry_time_period_ms", "int64"),
    ),
)
