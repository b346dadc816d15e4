"""RenewDelegationTokenResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class RenewDelegationTokenResponse(Message):
    """The message."""

    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int

    def __init__(
        self,
        *,
        error_code: int = 0,
        expiry_timestamp_ms: int = -1,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms


FORMAT: Final = Format(
    RenewDelegationTokenResponse,
    version_min=1,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("expiry_timestamp_ms", "int64"),
        FormatField("throttle_time_ms", "int32"),
    ),
)
