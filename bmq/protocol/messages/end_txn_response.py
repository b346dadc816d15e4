"""EndTxnResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class EndTxnResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


FORMAT: Final = Format(
    EndTxnResponse,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("producer_id", "int64", since=5),
        FormatField("producer_epoch", "int16", since=5),
    ),
)
