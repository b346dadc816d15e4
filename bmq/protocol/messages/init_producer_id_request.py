"""InitProducerIdRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class InitProducerIdRequest:
    transactional_id: str | None = None
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


FORMAT: Final = Format(
    InitProducerIdRequest,
    version_min=0,
    version_max=5,
    flexible_from=2,
    fields=(
        FormatField("transactional_id", "string", nullable_since=0),
        FormatField("transaction_timeout_ms", "int32"),
        FormatField("producer_id", "int64", since=3),
        FormatField("producer_epoch", "int16", since=3),
    ),
)
